"""RabbitMQ as a peer: a fresh server on loopback, and the load on it.

The server is the program of the Debian package, as the package configures it: its schedulers do
not spin while they wait, no plugin counts messages. It has a directory, a node name and ports of
its own, and a port mapper of Erlang of its own, so that nothing is left running in the end.

The queues of a route are consumed over one connection and one channel, and confirmed with one
frame for all that came with a read, which is the cheapest that the protocol has. What is posted
was encoded by pika before the clock runs; what comes back is counted without pika, which would
be slower than the server.
"""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from struct import Struct
from typing import Any, TypeAlias

from pika import frame, spec  # type: ignore[import-untyped]

from bench.route_load import (
    UNCONFIRMED_MAX,
    Address,
    Backlog,
    Content,
    Link,
    Route,
    Seen,
    Shape,
    plain,
    properties_of,
)
from bench.servers import Server, _running

Method: TypeAlias = Any
"""One of `pika.spec`, which has no types."""
Kind: TypeAlias = Any
"""A class of them."""

PROGRAM = Path("/usr/lib/rabbitmq/bin/rabbitmq-server")
"""Not the one on PATH, which runs as another user and in a directory of the system."""
START_SECONDS = 60.0

EXCHANGE, BACKLOG = "route", "backlog"
CHANNEL = 1
GREETING = b"AMQP\x00\x00\x09\x01"
FRAME = Struct(">BHI")
"""Type, channel and length; behind the payload is one more byte."""
METHOD = Struct(">HH")
NUMBER = Struct(">Q")
METHOD_FRAME, BODY_FRAME = 1, 3
CONSUMING, DELIVER, ACK = (60, 21), (60, 60), (60, 80)
TRANSIENT, PERSISTENT = 1, 2
BINDS_UNDER_WAY = 500


@dataclass(frozen=True, slots=True)
class RabbitServer(Server):
    """Beside the emulator are helpers that look up names and start programs."""

    def cpu_ns(self) -> int:
        return sum(Server.cpu_ns(Server("", pid, "", 0)) for pid in _tree(self.pid))


def _tree(pid: int) -> Iterator[int]:
    yield pid
    with suppress(OSError):
        for task in Path(f"/proc/{pid}/task").iterdir():
            for child in (task / "children").read_text().split():
                yield from _tree(int(child))


@contextmanager
def rabbit_server() -> Iterator[RabbitServer]:
    """A fresh server without queues, on the core of the servers."""
    epmd = shutil.which("epmd")
    if not PROGRAM.exists() or epmd is None:
        raise SystemExit(
            "this benchmark needs rabbitmq-server (Debian: apt-get install rabbitmq-server;"
            " the service of the system need not run)"
        )
    port, mapper, distribution = _free_ports(3)
    with tempfile.TemporaryDirectory() as name:
        folder, other = Path(name, "node"), Path(name, "mapper")
        folder.mkdir()
        other.mkdir()
        (folder / "plugins").write_text("[].\n")
        environment = {
            "HOME": folder,
            "ERL_EPMD_ADDRESS": "127.0.0.1",
            "ERL_EPMD_PORT": mapper,
            "RABBITMQ_CONF_ENV_FILE": folder / "none",
            "RABBITMQ_CONFIG_FILE": folder / "none",
            "RABBITMQ_DIST_PORT": distribution,
            "RABBITMQ_ENABLED_PLUGINS_FILE": folder / "plugins",
            "RABBITMQ_LOG_BASE": folder,
            "RABBITMQ_MNESIA_BASE": folder,
            "RABBITMQ_NODENAME": f"headgate{os.getpid()}x{port}@localhost",
            "RABBITMQ_NODE_IP_ADDRESS": "127.0.0.1",
            "RABBITMQ_NODE_PORT": port,
            "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS": "-kernel inet_dist_use_interface {127,0,0,1}",
            # Otherwise a shell stays between us and the server.
            "RUNNING_UNDER_SYSTEMD": "true",
        }
        line = ["env", *(f"{key}={value}" for key, value in environment.items()), str(PROGRAM)]
        mapping = [epmd, "-port", str(mapper), "-address", "127.0.0.1"]
        with _running(mapping, other), _running(line, folder) as process:
            server = RabbitServer("rabbitmq", process.pid, "127.0.0.1", port)
            end = time.monotonic() + START_SECONDS
            while not _answers(server.address):
                if process.poll() is not None or time.monotonic() > end:
                    said = (folder / "output").read_text(errors="replace")[-2000:]
                    raise SystemExit(f"rabbitmq-server did not start:\n{said}")
                time.sleep(0.1)
            yield server


def _free_ports(count: int) -> list[int]:
    held = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [listener.getsockname()[1] for listener in held]
    for listener in held:
        listener.close()
    return ports


def _answers(address: Address) -> bool:
    with suppress(OSError), socket.create_connection(address, 1.0) as asked:
        asked.sendall(GREETING)
        return asked.recv(1) == bytes([METHOD_FRAME])
    return False


def version() -> str:
    """What is installed."""
    asked = ["dpkg-query", "--show", "--showformat=${Version}"]
    found = []
    for package in ("rabbitmq-server", "erlang-base"):
        said = subprocess.run([*asked, package], capture_output=True, text=True, check=False)
        found.append(f"{package} {said.stdout.rpartition(':')[2] or 'of unknown version'}")
    return ", ".join(found)


# The load.


class AmqpLink(Link):
    """One connection with one channel."""

    def __init__(self, address: Address, *, is_confirmed: bool = False) -> None:
        super().__init__(address)
        self._held = b""
        self._tag = b""
        self._delivered = 0
        """The number of the last delivery."""
        self._acked_to = 0
        self._acked_beyond: set[int] = set()
        """Publishes are acked one by one in any order, or all to a number."""
        self.socket.sendall(GREETING)
        self._expect(spec.Connection.Start)
        login = spec.Connection.StartOk(
            client_properties={}, mechanism="PLAIN", response="\0guest\0guest", locale="en_US"
        )
        tune = self.ask(login, spec.Connection.Tune, channel=0)
        self.send(spec.Connection.TuneOk(tune.channel_max, tune.frame_max, heartbeat=0), channel=0)
        self.ask(spec.Connection.Open(), spec.Connection.OpenOk, channel=0)
        self.ask(spec.Channel.Open(), spec.Channel.OpenOk)
        if is_confirmed:
            self.ask(spec.Confirm.Select(), spec.Confirm.SelectOk)

    # Before the clock runs.

    def ask(self, method: Method, reply: Kind, channel: int = CHANNEL) -> Method:
        self.send(method, channel)
        return self._expect(reply)

    def send(self, method: Method, channel: int = CHANNEL) -> None:
        self.socket.sendall(_framed(method, channel))

    def ask_many(self, methods: Sequence[Method], reply: Kind) -> None:
        """The answers are awaited for many together."""
        for start in range(0, len(methods), BINDS_UNDER_WAY):
            some = methods[start : start + BINDS_UNDER_WAY]
            self.socket.sendall(b"".join(map(_framed, some)))
            for _ in some:
                self._expect(reply)

    def _expect(self, reply: Kind) -> Method:
        while True:
            length, value = frame.decode_frame(self._held)
            if value is not None:
                break
            received = self.socket.recv(1 << 16)
            assert received, "the server hung up"
            self._held += received
        self._held = self._held[length:]
        assert isinstance(value.method, reply), f"{value}, not {reply}"
        return value.method

    # While it runs.

    def take(self, data: bytes) -> Seen:
        """Count what came, and confirm it all with one frame."""
        held = self._held + data if self._held else data
        start = arrived = 0
        before = self._acked
        while len(held) - start > FRAME.size:
            kind, _, size = FRAME.unpack_from(held, start)
            payload = start + FRAME.size
            end = payload + size + 1
            if end > len(held):
                break
            if kind == METHOD_FRAME:
                self._method(held, payload)
            elif kind == BODY_FRAME:
                arrived += 1
                whole = self._delivered
                if self.noted is not None:
                    self.noted.append((int(self._tag), held[payload : end - 1]))
            start = end
        self._held = held[start:]
        if arrived:
            self.write(_framed(spec.Basic.Ack(whole, multiple=True)))
        return Seen(arrived, self._acked - before)

    def _method(self, held: bytes, place: int) -> None:
        method = METHOD.unpack_from(held, place)
        place += METHOD.size
        if method == DELIVER:
            end = place + 1 + held[place]
            self._tag = held[place + 1 : end]
            (self._delivered,) = NUMBER.unpack_from(held, end)
            return
        if method == CONSUMING:
            return
        assert method == ACK, f"the server said {method}"
        (number,) = NUMBER.unpack_from(held, place)
        if held[place + NUMBER.size]:
            self._acked_to = number
            self._acked_beyond = {beyond for beyond in self._acked_beyond if beyond > number}
        else:
            self._acked_beyond.add(number)

    @property
    def _acked(self) -> int:
        return self._acked_to + len(self._acked_beyond)


def _framed(method: Method, channel: int = CHANNEL) -> bytes:
    framed: bytes = frame.Method(channel, method).marshal()
    return framed


class Publishes:
    """Makes frames that post."""

    def __init__(
        self,
        exchange: str,
        key: str | Callable[[int], str] | None,
        *,
        is_durable: bool,
        content: Content | None = None,
    ) -> None:
        self._exchange = exchange
        self._content = content or plain
        self._key = key
        """The customer if None, or what a function says of the message."""
        self._mode = PERSISTENT if is_durable else TRANSIENT
        self._known: dict[int, bytes] = {}

    def encode(self, customers: Sequence[int]) -> bytes:
        return b"".join(self._known.get(some) or self._make(some) for some in customers)

    def _make(self, customer: int) -> bytes:
        properties, body = self._content(customer)
        about = spec.BasicProperties(headers=properties, delivery_mode=self._mode)
        key = about.headers["customer"] if self._key is None else self._key
        if callable(key):
            key = key(customer)
        made: bytes = _framed(spec.Basic.Publish(exchange=self._exchange, routing_key=key))
        made += frame.Header(CHANNEL, len(body), about).marshal()
        made += frame.Body(CHANNEL, body).marshal()
        self._known[customer] = made
        return made


class RabbitRoute(Route):
    """An exchange with a queue for each consumer and a binding for each customer. A headers
    exchange looks at properties; a direct one at a key, which is the customer here."""

    def __init__(self, address: Address, shape: Shape, exchange: str, *, is_durable: bool) -> None:
        poster, reader = AmqpLink(address, is_confirmed=is_durable), AmqpLink(address)
        is_keyed = exchange == "direct"
        reader.ask(
            spec.Exchange.Declare(exchange=EXCHANGE, type=exchange, durable=is_durable),
            spec.Exchange.DeclareOk,
        )
        names = [f"route{consumer}" for consumer in range(shape.consumers)]
        for name in names:
            reader.ask(spec.Queue.Declare(queue=name, durable=is_durable), spec.Queue.DeclareOk)
        binds = [
            spec.Queue.Bind(queue=name, exchange=EXCHANGE, **_binding(customer, is_keyed=is_keyed))
            for consumer, name in enumerate(names)
            for customer in shape.of(consumer)
        ]
        reader.ask_many(binds, spec.Queue.BindOk)
        for consumer, name in enumerate(names):
            asked = spec.Basic.Consume(queue=name, consumer_tag=str(consumer))
            reader.ask(asked, spec.Basic.ConsumeOk)
        poster.free()
        reader.free()
        super().__init__(shape, poster, [reader], is_acked=is_durable)
        self._publishes = Publishes(EXCHANGE, None if is_keyed else "", is_durable=is_durable)

    def encode(self, customers: Sequence[int]) -> bytes:
        return self._publishes.encode(customers)


def _binding(customer: int, *, is_keyed: bool) -> dict[str, Any]:
    name = properties_of(customer)["customer"]
    if is_keyed:
        return {"routing_key": name}
    return {"routing_key": "", "arguments": {"x-match": "all", "customer": name}}


class RabbitBacklog(Backlog):
    """A durable queue, posted to by its name."""

    def __init__(self, address: Address) -> None:
        self._address = address
        self._publishes = Publishes("", BACKLOG, is_durable=True)
        link = AmqpLink(address)
        link.ask(spec.Queue.Declare(queue=BACKLOG, durable=True), spec.Queue.DeclareOk)
        link.close()

    def encode(self, customers: Sequence[int]) -> bytes:
        return self._publishes.encode(customers)

    def poster(self) -> Link:
        link = AmqpLink(self._address, is_confirmed=True)
        link.free()
        return link

    def reader(self) -> Link:
        link = AmqpLink(self._address)
        link.ask(spec.Basic.Qos(prefetch_count=UNCONFIRMED_MAX), spec.Basic.QosOk)
        # Messages may come with the answer, so it is not waited for.
        link.send(spec.Basic.Consume(queue=BACKLOG, consumer_tag="0"))
        link.free()
        return link
