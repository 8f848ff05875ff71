"""The supervisor: binds, accepts, hands clients over, restarts workers, stops them in order.

It has no sessions and decides nothing about messages. Each worker is a process that it starts, with
a control socket; each two workers are linked by a socket pair that it makes. A worker that dies is
started again after a pause, longer each time. One that does not answer is ended: its links would
hold up the others.
"""

from __future__ import annotations

import asyncio
import logging
import signal
import socket
import subprocess
import sys
from collections.abc import Mapping
from contextlib import AsyncExitStack, suppress
from functools import partial
from itertools import count
from pathlib import Path
from typing import Never

from headgate.errors import ConfigError, HeadgateError
from headgate.server import log, standby, systemd
from headgate.server.config import Config
from headgate.server.net.listener import Listener, bind
from headgate.server.net.passed_sockets import passed_sockets
from headgate.server.service import Service, run_service
from headgate.server.workers import control
from headgate.server.workers.control import Control, Message
from headgate.server.workers.restarts import Restarts
from headgate.server.workers.stand_in import StandIn

STOP_SECONDS = 20.0
"""Seconds from the signal to the end, even if a process hangs; a worker has 15 of them."""
TICK_SECONDS = 0.25
HANDED_MOST = 256
"""Clients that wait for a worker that does not take them. Beyond this it is given no more."""
HOME = 0
CHANNELS = "resp"
"""The wire whose clients are the same work for every worker."""

logger = logging.getLogger("headgate")


class WorkerProcess:
    """A worker in one of its lives, as the supervisor knows it."""

    def __init__(self, number: int, start: int, process: subprocess.Popen[bytes]) -> None:
        self.number = number
        self.start = start
        self.process = process
        self.control: Control | None = None
        self.is_ready = False
        self.clients = 0
        self.given = self.taken = 0
        """Clients handed to it, and clients that it reported to have taken."""
        self.unanswered = 0
        """Pings since its last answer."""

    @property
    def load(self) -> int:
        """Clients that it has, or is about to get."""
        return self.clients + self.given - self.taken


class Supervisor(Service):
    """The process that the operator started, of a router with several workers."""

    def __init__(self, config: Config, ready_file: Path | None, environ: Mapping[str, str]) -> None:
        super().__init__(STOP_SECONDS)
        self._config = config
        self._ready_file = ready_file
        self._environ = environ
        self._count = config.workers.number
        self._home_weight = 2 if self._count == 2 else 8
        """Weight of a client of a durable wire at worker 0, which carries out all commands, in
        clients of another worker. Of two workers it gets a third of them."""
        self._workers: dict[int, WorkerProcess] = {}
        self._restarts = [Restarts() for _ in range(self._count)]
        self._addresses: dict[str, tuple[str, int]] = {}
        self._listeners: list[Listener] = []
        self._bound: dict[str, socket.socket] = {}
        self._is_draining = False
        self._has_store = False
        """Whether worker 0 has had the store: until then it may wait for another router."""
        self._has_started = False
        self._is_stopping = False
        self._reported: control.State | None = None
        self._failed: HeadgateError | None = None
        """The reason why the router cannot start."""
        self._admin: socket.socket
        self._stand_in: StandIn

    async def _open(self, stack: AsyncExitStack, stop: asyncio.Event) -> None:
        self._refuse_passed()
        stack.callback(self._unbind)
        admin = self._config.admin
        self._admin = bind("admin", admin.host, admin.port)
        self._stand_in = StandIn(self._admin)
        stack.callback(self._stand_in.close)
        stack.push_async_callback(self._stop_all)
        for number in range(self._count):
            self._start(number)
        fields = {"workers": self._count, "processes": [w.process.pid for w in self._all()]}
        logger.info("workers started", extra={"fields": fields})
        for number in count():
            with suppress(TimeoutError):
                async with asyncio.timeout(TICK_SECONDS):
                    await stop.wait()
            if stop.is_set():
                return
            self._look(number)
            if self._failed is not None:
                raise self._failed

    def _refuse_passed(self) -> None:
        """Refuse passed sockets: a socket unit of systemd is for one process."""
        if passed_sockets().names:
            raise ConfigError(
                "sockets were passed by systemd, which several workers cannot use: remove the"
                " socket unit, or set workers.count = 1"
            )

    def _all(self) -> list[WorkerProcess]:
        return list(self._workers.values())

    # Starting.

    def _start(self, number: int) -> None:
        """Start a worker, and link it to all that run."""
        restarts = self._restarts[number]
        start = restarts.started()
        ours, theirs = control.pair()
        worker = WorkerProcess(number, start, self._spawn(number, start, theirs))
        theirs.close()
        worker.control = Control(ours, partial(self._take, worker), partial(self._ended, worker))
        others = [other for other in self._all() if other.process.poll() is None]
        # Workers started later in this pass link themselves to this one.
        awaited = [other.number for other in others]
        if not self._has_started:
            awaited = [other for other in range(self._count) if other != number]
        # Worker 0 has the admin port; it stays the same across restarts.
        passed = self._admin.dup() if number == HOME else None
        worker.control.send(control.Welcome(awaited), passed)
        if self._has_store:
            worker.control.send(control.Listening(self._addresses))
        for other in others:
            self._link(worker, other)
        self._workers[number] = worker

    def _spawn(self, number: int, start: int, end: socket.socket) -> subprocess.Popen[bytes]:
        program = [sys.executable, "-m", "headgate.server.workers"]
        place = [str(number), str(self._count), str(start), str(end.fileno())]
        source = self._config.source
        files = ["" if source is None else str(source)]
        files.append("" if self._ready_file is None else str(self._ready_file))
        environ = {
            name: value
            for name, value in self._environ.items()
            if name not in ("NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID")
        }
        return subprocess.Popen(
            [*program, *place, *files],
            env=environ,
            stdin=subprocess.DEVNULL,
            pass_fds=[end.fileno()],
            start_new_session=True,  # or Ctrl-C would stop all at once
        )

    def _link(self, one: WorkerProcess, other: WorkerProcess) -> None:
        ends = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
        for end, mine, yours in zip(ends, (one, other), (other, one), strict=True):
            assert mine.control is not None, "started"
            mine.control.send(control.Link(yours.number, yours.start), end)

    def _bind(self) -> None:
        """Listen for clients, now that worker 0 has the store. Clients of a standby would wait with
        it."""
        if self._has_store:
            return
        self._has_store = True
        try:
            for wire, section in self._config.listen.each().items():
                bound = self._bound[wire] = bind(f"listen.{wire}", section.host, section.port)
                self._addresses[wire] = bound.getsockname()[:2]
        except HeadgateError as error:
            self._failed = error
            return
        for worker in self._all():
            assert worker.control is not None, "started"
            worker.control.send(control.Listening(self._addresses))

    def _unbind(self) -> None:
        for bound in self._bound.values():
            bound.close()

    # Regular work.

    def _look(self, number: int) -> None:
        now = self._loop_time()
        for worker in self._all():
            self._look_at(worker, now)
        for each in range(self._count):
            restarts = self._restarts[each]
            if each not in self._workers and restarts.is_due(now):
                self._start(each)
        if number % 4 == 0:
            self._ping()
            self.watchdog.feed(has_moved=True)
        self._report_home()

    def _look_at(self, worker: WorkerProcess, now: float) -> None:
        code = worker.process.poll()
        if code is None:
            return
        del self._workers[worker.number]
        if worker.control is not None:
            worker.control.close()
        if worker.number == HOME and self._has_store and self._config.store.standby:
            self._start_anew(code)
        pause = self._restarts[worker.number].died(now)
        if not self._has_started:
            # The worker printed the reason, and a restart would fail again.
            text = f"worker {worker.number} could not start; the log says why"
            self._failed = HeadgateError(text)
            return
        fields = {"worker": worker.number, "code": code, "pause": pause}
        logger.error("a worker died", extra={"fields": fields})

    def _start_anew(self, code: int) -> Never:
        """Drop everything, with every connection: worker 0 was the owner of a store that a standby
        takes now, or has taken."""
        fields = {"code": code, "advice": "nothing has to be done: this router waits now"}
        logger.error("worker 0 and the store are gone", extra={"fields": fields})
        others = [worker.process for worker in self._all()]
        for process in others:
            process.kill()
        systemd.notify("STATUS=standby")
        logging.shutdown()
        standby.start_anew(process.pid for process in others)

    def _ping(self) -> None:
        for worker in self._all():
            worker.unanswered += 1
            if worker.is_ready and worker.unanswered > self._config.workers.timeout:
                seconds = worker.unanswered - 1
                fields = {"worker": worker.number, "seconds": seconds}
                logger.error("a worker does not answer, and is ended", extra={"fields": fields})
                worker.unanswered = 0
                worker.process.kill()
            elif worker.control is not None:
                worker.control.send(control.Ping(0))

    def _report_home(self) -> None:
        """Report the state of all workers to worker 0, if it changed."""
        home = self._workers.get(HOME)
        is_away = home is None or not home.is_ready or home.unanswered > 2
        self._stand_in.stand_in(is_needed=self._has_started and is_away)
        if home is None or home.control is None:
            return
        rows = [
            control.Worker(w.number, w.process.pid, w.start, w.clients, w.is_ready)
            for w in sorted(self._all(), key=lambda w: w.number)
        ]
        state = control.State(rows, self.problems())
        if state != self._reported:
            self._reported = state
            home.control.send(state)

    def problems(self) -> list[str]:
        """Workers that keep dying, or are not there."""
        found = []
        for number, restarts in enumerate(self._restarts):
            worker = self._workers.get(number)
            is_ready = worker is not None and worker.is_ready
            if restarts.is_failing and not is_ready:
                found.append(f"workers: worker {number} died {restarts.deaths} times in a row")
            elif self._has_started and not is_ready:
                found.append(f"workers: worker {number} is being started again")
            elif worker is not None and worker.unanswered > 2:
                found.append(f"workers: worker {number} does not answer")
        return found

    # Messages of workers.

    def _take(self, worker: WorkerProcess, message: Message, passed: socket.socket | None) -> None:
        match message:
            case control.Ready():
                worker.is_ready, worker.unanswered = True, 0
                self._restarts[worker.number].ready(self._loop_time())
                logger.debug("worker ready", extra={"fields": {"worker": worker.number}})
                self._go()
                self._report_home()
            case control.Load():
                worker.unanswered = 0
                worker.clients, worker.taken = message.clients, message.given
                if worker.is_ready:
                    self._restarts[worker.number].lives(self._loop_time())
            case control.Opened():
                self._bind()
            case control.Notify():
                systemd.notify(message.state)
            case control.Lost():
                self._lost(message)
            case control.Drain():
                self._is_draining = message.is_draining
            case _:
                pass

    def _go(self) -> None:
        """Accept clients when all workers are ready for the first time."""
        if not self._has_started:
            is_ready = [worker.is_ready for worker in self._all()]
            if len(is_ready) < self._count or not all(is_ready):
                return
            self._has_started = True
            loop = asyncio.get_running_loop()
            self._listeners = [
                Listener(loop, bound, partial(self._welcome, wire))
                for wire, bound in self._bound.items()
            ]
            self.stage = ""
            self._announce_ready()
        home = self._workers.get(HOME)
        if home is not None and home.is_ready and home.control is not None:
            home.control.send(control.Go())

    def _lost(self, lost: control.Lost) -> None:
        worker = self._workers.get(lost.worker)
        if worker is None or worker.start != lost.start or self._is_stopping:
            return
        if worker.process.poll() is not None:
            return
        fields = {"worker": lost.worker, "reason": lost.reason}
        logger.error("a worker without a link is ended", extra={"fields": fields})
        worker.process.kill()

    def _ended(self, worker: WorkerProcess) -> None:
        """Handle a closed control socket: its worker is dead, or about to be."""
        worker.is_ready = False
        self._report_home()

    def _welcome(self, wire: str, connected: socket.socket, peer: str) -> None:
        """Hand a client to the worker with the lowest load."""
        able = [
            worker
            for worker in self._all()
            if worker.is_ready and worker.control is not None and len(worker.control) < HANDED_MOST
        ]
        if not able or self._is_draining:
            connected.close()
            return
        weight = 1 if wire == CHANNELS else self._home_weight

        def rank(worker: WorkerProcess) -> tuple[bool, int]:
            load = worker.load * weight if worker.number == HOME else worker.load
            return worker.unanswered > 2, load

        chosen = min(able, key=rank)
        chosen.given += 1
        assert chosen.control is not None, "ready"
        chosen.control.send(control.Client(wire, peer), connected)

    # Stopping.

    def reload(self) -> None:
        """Have each worker read the file again."""
        with systemd.reloading():
            for worker in self._all():
                with suppress(ProcessLookupError):
                    worker.process.send_signal(signal.SIGHUP)

    async def _stop_all(self) -> None:
        """Accept no more clients, then end the workers, worker 0 last, so that it gets the last
        reports of the others."""
        self._is_stopping = True
        self._stand_in.stand_in(is_needed=False)
        for listener in self._listeners:
            listener.close()
        fronts = [worker for worker in self._all() if worker.number != HOME]
        await _end(fronts)
        await _end([worker for worker in self._all() if worker.number == HOME])
        for worker in self._all():
            if worker.control is not None:
                worker.control.close()

    def _log_given_up(self) -> None:
        fields = {"waited_for": [w.number for w in self._all() if w.process.poll() is None]}
        logger.error("ended without waiting any longer", extra={"fields": fields})
        for worker in self._all():
            with suppress(ProcessLookupError):
                worker.process.kill()

    def _loop_time(self) -> float:
        return asyncio.get_running_loop().time()


async def _end(workers: list[WorkerProcess]) -> None:
    for worker in workers:
        if worker.process.poll() is None:
            worker.process.terminate()
    for worker in workers:
        await asyncio.to_thread(worker.process.wait)


def supervise(config: Config, ready_file: Path | None, environ: Mapping[str, str]) -> None:
    """Run a router of several workers until SIGTERM or SIGINT."""
    log.set_up(config.log.level, config.log.format)
    run_service(Supervisor(config, ready_file, environ))


__all__ = ["Supervisor", "supervise"]
