"""The container built and tried without a registry: `python -m tools.packages.container FOLDER`.

debootstrap makes a Debian with Python, buildah makes it the base of the house's own container file
and runs the result. Both are Debian packages and need root. FOLDER keeps the base and the images,
about a gigabyte; what is there is used again.
"""

from __future__ import annotations

import http.client
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path

from headgate.server.net.listener import bind
from tools.packages.distribution import ROOT, build

PLACE = ROOT / "packaging" / "container"
SUITE = "bookworm"
EXTRAS = "postgres,push"
"""Of the wheel in the container."""
USER = "10001"
CONFIG = "/etc/headgate/headgate.toml"
DEADLINE_SECONDS = 60
NEEDED = ("debootstrap", "buildah")


def missing() -> str:
    """Why the container cannot be built here; empty if it can."""
    programs = [name for name in NEEDED if shutil.which(name) is None]
    if programs:
        return f"{' and '.join(programs)} not installed (apt-get install {' '.join(programs)})"
    return "" if os.geteuid() == 0 else "debootstrap needs root"


class Workshop:
    """A folder with a base, and images of buildah's that nobody else sees."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.tag = f"localhost/headgate:{version('headgate')}"
        self._places = ("--root", str(folder / "storage"), "--runroot", str(folder / "run"))
        self._environment = {**os.environ, "STORAGE_DRIVER": "vfs", "BUILDAH_ISOLATION": "chroot"}

    def buildah(self, *arguments: str | Path) -> str:
        """What buildah prints; it has to end well."""
        command = ("buildah", *self._places, *arguments)
        environment = self._environment
        done = subprocess.run(
            command, env=environment, stdout=subprocess.PIPE, text=True, check=True
        )
        return done.stdout.strip()

    def make_base(self) -> str:
        """A Debian with Python and nothing to install packages of Python with."""
        name, tree = f"localhost/{SUITE}-python", self.folder / "base"
        if not (tree / "usr/bin/python3").exists():
            shutil.rmtree(tree, ignore_errors=True)
            options = ("--variant=minbase", "--include=python3")
            command = ("debootstrap", *options, SUITE, tree)
            subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
            shutil.rmtree(tree / "var/cache/apt/archives", ignore_errors=True)
        container = self.buildah("from", "scratch")
        self.buildah("add", "-q", container, tree, "/")
        self.buildah("commit", "-q", "--rm", container, name)
        return name

    def collect_wheels(self) -> None:
        """The house's own wheel and what it needs, at the versions that were tested."""
        wheels = PLACE / "wheels"
        shutil.rmtree(wheels, ignore_errors=True)
        [wheel] = build(wheels, "wheel")
        pip = (sys.executable, "-m", "pip", "wheel", "--quiet", "--disable-pip-version-check")
        options = ("-c", ROOT / "constraints.txt", "-w", wheels)
        subprocess.run([*pip, *options, f"{wheel}[{EXTRAS}]"], check=True)

    def make_image(self, base: str) -> None:
        """By the container file; in Docker's form, as the other has no HEALTHCHECK."""
        settings = (f"BASE={base}", f"VERSION={version('headgate')}")
        arguments = [part for each in settings for part in ("--build-arg", each)]
        self.buildah("bud", "-q", "--format", "docker", *arguments, "-t", self.tag, PLACE)

    @contextmanager
    def container(self) -> Iterator[str]:
        name = self.buildah("from", self.tag)
        try:
            yield name
        finally:
            self.buildah("rm", name)

    def run(self, container: str, *command: str, **variables: str) -> subprocess.Popen[str]:
        """A command in the container, as its user."""
        given = [f"--env={name}={value}" for name, value in variables.items()]
        whole = ("buildah", *self._places, "run", "--user", USER, *given, container, "--", *command)
        return subprocess.Popen(
            whole,
            env=self._environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )


def serve_and_stop(workshop: Workshop, container: str) -> None:
    """The router of the image becomes ready, is healthy, and ends when it is told to."""
    with bind("admin", "127.0.0.1", 0) as free:
        port = str(free.getsockname()[1])
    # On loopback of this machine, whose network it has.
    variables = {
        "HEADGATE_ADMIN__PORT": port,
        "HEADGATE_LISTEN__SMP__HOST": "127.0.0.1",
        "HEADGATE_LISTEN__SMP__PORT": "0",
    }
    served = workshop.run(container, "headgate", "serve", "--config", CONFIG, **variables)
    try:
        end = time.monotonic() + DEADLINE_SECONDS
        while _status(int(port), "/readyz") != 200:
            assert served.poll() is None, served.communicate()[0]
            assert time.monotonic() < end, "it did not become ready"
            time.sleep(0.2)
        print("ready: /readyz answers 200")
        for command in (
            ("python", "/opt/headgate/healthcheck.py"),
            ("headgate", "check", "--config", CONFIG),
        ):
            looked = workshop.run(container, *command, **variables)
            print(looked.communicate()[0], end="")
            assert looked.returncode == 0, command
    finally:
        _stop(int(port), served)
    print("stopped in order")


def _status(port: int, path: str) -> int | None:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
    try:
        connection.request("GET", path)
        return connection.getresponse().status
    except OSError:
        return None
    finally:
        connection.close()


def _stop(port: int, served: subprocess.Popen[str]) -> None:
    """buildah does not pass signals on, so the router below it is sent one."""
    os.kill(_router_below(served.pid), signal.SIGTERM)
    output = served.communicate(timeout=DEADLINE_SECONDS)[0]
    assert '"stopped"' in output, output
    assert _status(port, "/healthz") is None


def _router_below(parent: int) -> int:
    """The process of the router, among those that buildah started."""
    tasks = Path(f"/proc/{parent}/task").glob("*/children")
    children = [int(child) for path in tasks for child in path.read_text().split()]
    for child in children:
        words = Path(f"/proc/{child}/cmdline").read_bytes().split(b"\0")
        if b"python" in words[0]:
            return child
    for child in children:
        return _router_below(child)
    raise AssertionError("the router does not run")


def main(folder: Path) -> None:
    reason = missing()
    if reason:
        print(f"the container is not built: {reason}")
        return
    folder.mkdir(parents=True, exist_ok=True)
    workshop = Workshop(folder)
    workshop.collect_wheels()
    began = time.monotonic()
    workshop.make_image(workshop.make_base())
    print(f"built in {time.monotonic() - began:.0f} s")
    print(workshop.buildah("images"))
    with workshop.container() as container:
        looked = workshop.run(container, "sh", "-c", "id -u; python -c 'import pip'")
        said = looked.communicate()[0]
        assert said.startswith(f"{USER}\n"), said
        assert "No module named 'pip'" in said, said
        print("no pip, not root")
        serve_and_stop(workshop, container)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
