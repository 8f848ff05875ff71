"""The unit's command, started as systemd would start it, where there is no systemd.

`python -m tools.packages.unit_trial` (as root) reads `ExecStart=`, `Environment=` and the limits of
packaging/systemd/headgate.service and runs that very command in namespaces of its own: the paths
of the unit, a user without rights, a root that cannot be written, no home, a network that is nobody
else's. It listens where systemd would, and has the router reload and stop. What is not imitated:
the filter of system calls, and what systemd does with devices, /proc and keys.
"""

from __future__ import annotations

import http.client
import os
import resource
import shlex
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

from tools.packages.distribution import ROOT, build

UNIT = ROOT / "packaging" / "systemd" / "headgate.service"
PYTHON = "/usr/bin/python3"
"""Of the machine: that of a home would be hidden from the unit."""
USER = 61_234
"""As systemd takes one for DynamicUser=."""
PLACES = {"%S": "/var/lib", "%d": "/run/credentials/headgate.service"}
NOTIFY = "/run/systemd-notify"
SECONDS = 120.0
INSIDE = "--inside"
WIRES = ("listen.resp", "listen.smp", "listen.bmq")


def settings(text: str) -> dict[str, list[str]]:
    """The settings of a unit: each with all its values, and without what systemd replaces."""
    found: dict[str, list[str]] = {}
    for line in text.splitlines():
        name, equals, value = line.partition("=")
        if equals and not line.startswith("#"):
            for sign, place in PLACES.items():
                value = value.replace(sign, place)
            found.setdefault(name, []).append(value)
    return found


def command(unit: dict[str, list[str]]) -> list[str]:
    """What to run in a mount namespace: the unit's own command, behind what holds it back."""
    environ = [
        "PATH=/usr/local/bin:/usr/bin:/bin",
        "LANG=C.UTF-8",
        "USER=headgate",
        f"NOTIFY_SOCKET={NOTIFY}",
        f"WATCHDOG_USEC={int(unit['WatchdogSec'][0].removesuffix('s')) * 1_000_000}",
        f"CREDENTIALS_DIRECTORY={PLACES['%d']}",
        f"STATE_DIRECTORY={PLACES['%S']}/headgate",
        *unit["Environment"],
    ]
    files = min(int(unit["LimitNOFILE"][0]), resource.getrlimit(resource.RLIMIT_NOFILE)[1])
    return [
        *("prlimit", f"--nofile={files}", f"--core={unit['LimitCORE'][0]}"),
        *("setpriv", f"--reuid={USER}", f"--regid={USER}", "--clear-groups", "--no-new-privs"),
        *("--bounding-set=-all", "--inh-caps=-all", "--ambient-caps=-all"),
        *("env", "-i", f"--chdir={unit['WorkingDirectory'][0]}", *environ),
        *shlex.split(unit["ExecStart"][0]),
    ]


SANDBOX = """\
set -e
umask {umask}
mount -t tmpfs -o mode=1777 tmpfs /tmp
for home in /home /root; do mount -t tmpfs -o mode=0555,ro tmpfs $home; done
for place in / /etc /opt /run; do mount -o remount,bind,ro $place; done
exec {command}
"""
"""PrivateTmp=, ProtectHome=, ProtectSystem=strict, and then the command."""

PREPARE = """\
set -e
mount --make-rprivate /
ip link set lo up
mkdir -p {folder}/upper {folder}/work
mount -t overlay -o lowerdir=/etc,upperdir={folder}/upper,workdir={folder}/work overlay /etc
for place in /opt /run /var/lib; do mount -t tmpfs -o mode=0755 tmpfs $place; done
{python} -m venv --without-pip /opt/headgate
site=$(echo /opt/headgate/lib/python3*/site-packages)
{python} -m zipfile -e {wheel} $site
echo {libraries} > $site/libraries.pth
cd /opt/headgate/bin
printf '#!/opt/headgate/bin/python\\nfrom headgate.cli import main\\nmain()\\n' > headgate
chmod 0755 headgate
install -d -m 0755 /etc/headgate
(umask 077; head -c 24 /dev/urandom | od -An -tx1 | tr -d ' \\n' > /etc/headgate/admin-token)
install -d -o {user} -g {user} -m 0700 /var/lib/headgate
install -d -m 0755 /run/credentials
install -d -o {user} -g {user} -m 0500 {credentials}
install -o {user} -g {user} -m 0400 /etc/headgate/admin-token {credentials}/admin-token
"""
"""What docs/install.md has an operator do, on places that are gone afterwards; the libraries are
those of the environment that the tests use."""


def inside(folder: Path, wheel: Path) -> None:
    """Start the unit's command, and be systemd to it."""
    libraries = next(path for path in sys.path if path.endswith("site-packages"))
    prepare = PREPARE.format(
        folder=folder,
        wheel=wheel,
        python=PYTHON,
        libraries=libraries,
        user=USER,
        credentials=PLACES["%d"],
    )
    subprocess.run(["sh", "-c", prepare], check=True)
    config = subprocess.run(
        ["/opt/headgate/bin/headgate", "config", "default"], check=True, stdout=subprocess.PIPE
    ).stdout.decode()
    listeners = "".join(f"\n[{name}]\n" for name in WIRES if f"\n[{name}]\n" not in config)
    Path("/etc/headgate/headgate.toml").write_text(config + listeners)
    unit = settings(UNIT.read_text())
    heard = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    heard.bind(NOTIFY)
    os.chmod(NOTIFY, 0o777)
    heard.settimeout(1.0)
    script = SANDBOX.format(umask=unit["UMask"][0], command=shlex.join(command(unit)))
    print(f"ExecStart={unit['ExecStart'][0]}")
    child = subprocess.Popen(["unshare", "--mount", "sh", "-c", script])
    try:
        _try(child, heard)
    finally:
        if child.poll() is None:
            child.kill()
            child.wait()


def _try(child: subprocess.Popen[bytes], heard: socket.socket) -> None:
    started = time.monotonic()
    _expect(heard, child, "READY=1")
    print(f"READY=1 after {time.monotonic() - started:.1f} s")
    shown = Path(f"/proc/{child.pid}/status").read_text()
    held = {n: v.strip() for n, _, v in (line.partition(":") for line in shown.splitlines())}
    user = held["Uid"].split()[0]
    print(f"as user {user}, CapBnd {held['CapBnd']}, NoNewPrivs {held['NoNewPrivs']}")
    assert (user, int(held["CapBnd"], 16), held["NoNewPrivs"]) == (str(USER), 0, "1")
    for path in ("/healthz", "/readyz"):
        connection = http.client.HTTPConnection("127.0.0.1", 8222, timeout=SECONDS)
        connection.request("GET", path)
        status = connection.getresponse().status
        print(f"{path} answers {status}")
        assert status == 200
    for _ in range(2):
        _expect(heard, child, "WATCHDOG=1")
    print("WATCHDOG=1, and again")
    child.send_signal(signal.SIGHUP)
    _expect(heard, child, "RELOADING=1")
    _expect(heard, child, "READY=1")
    print("SIGHUP: RELOADING=1, then READY=1")
    child.send_signal(signal.SIGTERM)
    _expect(heard, child, "STOPPING=1")
    print(f"SIGTERM: STOPPING=1, and it ended with {child.wait(30)}")
    assert child.returncode == 0
    written = sorted(path.name for path in Path("/var/lib/headgate").iterdir())
    print(f"/var/lib/headgate has {', '.join(written)}")


def _expect(heard: socket.socket, child: subprocess.Popen[bytes], wanted: str) -> None:
    """Read what is sent until it is what is waited for."""
    deadline = time.monotonic() + SECONDS
    while True:
        assert time.monotonic() < deadline, f"no {wanted}"
        try:
            sent = heard.recv(4096).decode().splitlines()
        except TimeoutError:
            assert child.poll() is None, f"it ended with {child.returncode} before {wanted}"
            continue
        if wanted in sent:
            return


def main() -> None:
    """Build the wheel, and do the rest where nobody else is."""
    import tempfile

    with tempfile.TemporaryDirectory(dir=ROOT / "build") as name:
        folder = Path(name)
        subprocess.run(["mount", "-t", "tmpfs", "tmpfs", name], check=True)
        try:
            [wheel] = build(folder / "dist", "wheel")
            apart = ("--mount", "--pid", "--net", "--ipc", "--uts", "--fork", "--kill-child")
            rest = [sys.executable, "-m", __spec__.name, INSIDE, name, str(wheel)]
            subprocess.run(["unshare", *apart, "--mount-proc", *rest], cwd=ROOT, check=True)
        finally:
            subprocess.run(["umount", name], check=True)


if __name__ == "__main__":
    if sys.argv[1:2] == [INSIDE]:
        inside(Path(sys.argv[2]), Path(sys.argv[3]))
    else:
        main()
