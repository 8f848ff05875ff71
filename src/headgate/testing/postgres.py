"""A PostgreSQL server of one's own: made for a test, gone after it.

It listens on a socket in a folder that only its owner may enter, and nowhere else. The server
refuses to run as root; if that is who we are, it runs as the user ``postgres``.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import tempfile
import time
from itertools import count
from pathlib import Path
from types import TracebackType
from typing import Any

import psycopg

USER = "postgres"
START_SECONDS = 30.0
STOP_SECONDS = 30.0


def binaries() -> Path | None:
    """The folder of the server's programs: the newest of Debian's, or where the path leads."""
    versions = Path("/usr/lib/postgresql").glob("*/bin/initdb")
    newest = max(versions, key=lambda path: int(path.parts[-3]), default=None)
    found = newest or shutil.which("initdb")
    return Path(found).parent if found else None


class PostgresCluster:
    """A PostgreSQL server, started on entering and stopped on leaving; its files are gone then."""

    def __init__(self, *, fsync: bool = True) -> None:
        self._settings = {
            "listen_addresses": "",
            "max_connections": "40",
            "shared_buffers": "32MB",
            "fsync": "on" if fsync else "off",
            "full_page_writes": "on" if fsync else "off",
            "autovacuum": "off",
        }
        self._numbers = count(1)
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> PostgresCluster:
        programs = binaries()
        if programs is None:
            raise FileNotFoundError("initdb is not installed; on Debian: apt install postgresql")
        self._programs = programs
        # Not a folder below one that only root may enter; and a socket's path must be short.
        self.folder = Path(tempfile.mkdtemp(prefix="headgate-pg-", dir="/tmp"))
        try:
            if os.geteuid() == 0:
                shutil.chown(self.folder, USER, USER)
            self._make()
            self.start()
        except BaseException:
            self.__exit__(None, None, None)
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.stop()
        shutil.rmtree(self.folder, ignore_errors=True)

    def url(self, database: str = "postgres") -> str:
        return f"postgresql:///{database}?host={self.folder}&user={USER}"

    @property
    def socket(self) -> Path:
        """Where the server listens."""
        return self.folder / ".s.PGSQL.5432"

    def connect(self, database: str = "postgres") -> psycopg.Connection[tuple[Any, ...]]:
        """A connection for looking at a database, and for changing it behind somebody's back."""
        return psycopg.connect(self.url(database), autocommit=True)

    def create_database(self) -> str:
        """Make an empty one; return its name."""
        name = f"test_{next(self._numbers)}"
        with self.connect() as db:
            db.execute(f"CREATE DATABASE {name}")
        return name

    def clear_database(self, name: str) -> None:
        """Make it as good as new, which is much quicker than a new one."""
        with self.connect(name) as db:
            db.execute(
                "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity"
                " WHERE datname = current_database() AND pid <> pg_backend_pid()"
            )
            db.execute("DROP SCHEMA IF EXISTS headgate, headgate_ntf CASCADE")
            db.execute("DROP SCHEMA public CASCADE")
            db.execute("CREATE SCHEMA public")
            db.execute(f"ALTER DATABASE {name} RESET ALL")

    def start(self) -> None:
        assert self._process is None, "start() of a server that runs"
        arguments = [str(self._programs / "postgres"), "-D", str(self.folder / "data")]
        arguments += ["-k", str(self.folder)]
        for name, text in self._settings.items():
            arguments += ["-c", f"{name}={text}"]
        with open(self.folder / "log", "ab") as log:
            self._process = subprocess.Popen(
                arguments, stdin=subprocess.DEVNULL, stdout=log, stderr=log, **_identity()
            )
        end = time.monotonic() + START_SECONDS
        while True:
            try:
                self.connect().close()
            except psycopg.OperationalError:
                if self._process.poll() is not None or time.monotonic() > end:
                    raise RuntimeError((self.folder / "log").read_text("utf-8")) from None
                time.sleep(0.02)
            else:
                return

    def stop(self, how: signal.Signals = signal.SIGINT) -> None:
        """End the server: SIGINT cuts its connections, SIGQUIT is as if the machine had died."""
        process, self._process = self._process, None
        if process is None:
            return
        process.send_signal(how)
        try:
            process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()

    def _make(self) -> None:
        arguments = [str(self._programs / "initdb"), "-D", str(self.folder / "data")]
        arguments += ["--username", USER, "--auth", "trust", "--encoding", "UTF8"]
        arguments += ["--locale", "C", "--no-sync", "--no-instructions"]
        made = subprocess.run(
            arguments, cwd=self.folder, capture_output=True, text=True, **_identity()
        )
        if made.returncode != 0:
            raise RuntimeError(made.stderr)


def _identity() -> dict[str, Any]:
    """As whom to run the server's programs."""
    if os.geteuid() != 0:
        return {}
    return {"user": USER, "group": USER, "extra_groups": []}
