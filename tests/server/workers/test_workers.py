"""A router of several processes, with redis-py on all of them."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest
import redis

from tests.support.resp_workers import (
    Workers,
    children_of,
    eventually,
    is_alive,
    resident_bytes,
    started,
    worker_of,
)

MiB = 1 << 20


@pytest.fixture(scope="module")
def two(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Workers]:
    with started(tmp_path_factory.mktemp("two")) as workers:
        yield workers


class Subscriber:
    """The connection of a client as a subscriber. Unlike redis-py's own, it does not connect again
    when it is lost."""

    def __init__(self, client: redis.Redis, *channels: str) -> None:
        self.client = client
        """Kept: it closes the connection when nobody has it."""
        assert client.connection is not None
        self.connection = client.connection
        if channels:
            self.subscribe(*channels)

    def subscribe(self, *channels: str) -> None:
        """Return when all are confirmed."""
        self.connection.send_command("SUBSCRIBE", *channels)  # type: ignore[no-untyped-call]
        assert [self.next()[0] for _ in channels] == [b"subscribe"] * len(channels)

    def next(self) -> list[bytes]:
        found: list[bytes] = self.connection.read_response(disconnect_on_error=True)
        return found

    def take(self, count: int) -> list[bytes]:
        """The bodies of so many messages."""
        found = [self.next() for _ in range(count)]
        assert {each[0] for each in found} == {b"message"}
        return [each[2] for each in found]

    def close(self) -> None:
        self.connection.disconnect()  # type: ignore[no-untyped-call]


def test_clients_are_spread_evenly(two: Workers) -> None:
    clients = [two.client() for _ in range(10)]
    places = [worker_of(client, 2) for client in clients]
    assert sorted(places) == [0] * 5 + [1] * 5
    for client in clients:
        client.close()


@pytest.mark.parametrize(("here", "there"), [(0, 1), (1, 0), (0, 0), (1, 1)])
def test_what_is_published_on_one_worker_is_heard_on_the_other(
    two: Workers, here: int, there: int
) -> None:
    """In the order of its publisher, however it is sent; and counted exactly."""
    channel = f"order-{here}-{there}"
    subscriber = Subscriber(two.client_on(here), channel)
    publisher = two.client_on(there)
    alone = [publisher.publish(channel, number) for number in range(100)]
    pipe = publisher.pipeline(transaction=False)
    for number in range(100, 2000):
        pipe.publish(channel, number)
    assert alone + pipe.execute() == [1] * 2000
    assert subscriber.take(2000) == [b"%d" % number for number in range(2000)]
    publisher.close()
    subscriber.close()


def test_nothing_is_missed_after_a_confirmed_subscription(two: Workers) -> None:
    publisher, subscriber = two.client_on(0), Subscriber(two.client_on(1))
    for number in range(200):
        channel = f"fresh-{number}"
        subscriber.subscribe(channel)
        assert publisher.publish(channel, number) == 1
        assert subscriber.take(1) == [b"%d" % number]
    assert sorted(publisher.pubsub_channels("fresh-*")) == sorted(
        b"fresh-%d" % number for number in range(200)
    )
    subscriber.close()
    eventually(lambda: publisher.pubsub_channels("fresh-*") == [], "all left")
    publisher.close()


def test_counts_are_sums(two: Workers) -> None:
    subscribers = [Subscriber(two.client_on(worker), "counted") for worker in (0, 0, 1)]
    for worker in (0, 1):
        asking = two.client_on(worker)
        assert asking.pubsub_numsub("counted") == [(b"counted", 3)]
        assert asking.publish("counted", "x") == 3
        asking.close()
    assert [each.take(2) for each in subscribers] == [[b"x", b"x"]] * 3
    for each in subscribers:
        each.close()
    asking = two.client()
    eventually(lambda: asking.pubsub_numsub("counted") == [(b"counted", 0)], "all are gone")
    asking.close()


def test_keys_settings_and_users_are_the_same_for_all(two: Workers) -> None:
    zero, one = two.client_on(0), two.client_on(1)
    assert zero.set("k", "v")
    assert one.get("k") == b"v"
    with one.pipeline() as pipe:
        pipe.watch("k")  # type: ignore[no-untyped-call]
        zero.set("k", "other")
        pipe.multi()
        pipe.set("k", "mine")
        with pytest.raises(redis.WatchError):
            pipe.execute()
    assert one.config_set("slow-timeout", 33)
    assert zero.config_get("slow-timeout") == {"slow-timeout": "33"}
    assert one.acl_setuser(
        "ann", enabled=True, passwords=["+pw"], commands=["+@all"], keys=["*"], channels=["*"]
    )
    ann = two.client_on(0, username="ann", password="pw")
    assert ann.acl_whoami() == "ann"
    assert one.acl_deluser("ann") == 1
    with pytest.raises(redis.ConnectionError):
        ann.ping()
    for client in (zero, one):
        client.close()


def test_a_large_answer_comes_whole_from_worker_0(two: Workers) -> None:
    one = two.client_on(1)
    one.set("large", b"x" * (8 * MiB))
    assert one.get("large") == b"x" * (8 * MiB)
    one.delete("large")
    one.close()


def test_status_tells_of_the_workers_and_the_journal_of_their_sessions(two: Workers) -> None:
    client = two.client_on(1)
    workers = two.status()["workers"]
    assert [worker["number"] for worker in workers] == [0, 1]
    assert {worker["process"] for worker in workers} == {*children_of(two.process.pid)}
    assert all(worker["is_ready"] for worker in workers)
    opened = b'headgate_sessions_opened_total{wire="resp"}'

    def count() -> float:
        lines = two.ask("/metrics")[1].splitlines()
        return sum(float(line.split()[-1]) for line in lines if line.startswith(opened))

    before = count()
    other = two.client_on(1)
    eventually(lambda: count() > before, "the session of worker 1 is counted")
    for each in (client, other):
        each.close()


# Faults.


def test_a_worker_that_is_killed_is_started_again_and_others_go_on(tmp_path: Path) -> None:
    with started(tmp_path, 3) as workers:
        publisher = workers.client_on(0)
        gone = Subscriber(workers.client_on(1), "news", "only there")
        stays = Subscriber(workers.client_on(2), "news")
        assert publisher.publish("news", "before") == 2
        assert gone.take(1) == [b"before"]
        before = workers.process_of(1)
        os.kill(before, signal.SIGKILL)
        with pytest.raises(redis.ConnectionError):
            gone.next()
        eventually(lambda: publisher.publish("only there", "x") == 0, "it is known to be gone")
        assert publisher.publish("news", "after") == 1
        assert stays.take(2) == [b"before", b"after"]
        eventually(lambda: workers.start_of(1) == 2, "it is there again")
        assert workers.process_of(1) != before
        again = Subscriber(workers.client_on(1), "news")
        assert publisher.publish("news", "again") == 2
        assert again.take(1) == stays.take(1) == [b"again"]
        assert workers.events("a worker died")[0]["worker"] == 1


def test_worker_0_is_killed_and_channels_of_others_go_on(tmp_path: Path) -> None:
    with started(tmp_path, 3) as workers:
        publisher, subscriber = workers.client_on(1), Subscriber(workers.client_on(2), "news")
        publisher.set("k", "v")
        os.kill(workers.process_of(0), signal.SIGKILL)
        for number in range(20):
            assert publisher.publish("news", number) == 1
        assert subscriber.take(20) == [b"%d" % number for number in range(20)]

        def has_keys() -> bool:
            try:
                return publisher.get("k") is None  # memory of a process that is gone
            except redis.BusyLoadingError:
                return False

        eventually(has_keys, "worker 0 is there again")
        eventually(lambda: workers.start_of(0) == 2, "all are")
        assert workers.client_on(0).publish("news", "x") == 1


def test_a_worker_that_is_stopped_is_ended_and_those_who_waited_go_on(tmp_path: Path) -> None:
    with started(tmp_path, 2) as workers:
        waits = Subscriber(workers.client_on(0))
        os.kill(workers.process_of(1), signal.SIGSTOP)
        waits.subscribe("anything")  # confirmed when worker 1 knows, or is gone
        assert workers.events("a worker does not answer, and is ended")
        eventually(lambda: workers.start_of(1) == 2, "it is there again")


def test_workers_stop_when_the_supervisor_is_killed(tmp_path: Path) -> None:
    with started(tmp_path, 2) as workers:
        processes = children_of(workers.process.pid)
        assert len(processes) == 2
        workers.process.kill()
        workers.process.wait()
        eventually(lambda: not any(map(is_alive, processes)), "all are gone")
        assert workers.events("the supervisor is gone")


def has_started(workers: Workers, times: int) -> bool:
    return workers.start_of(1) == times


def test_a_worker_that_keeps_dying_is_told(tmp_path: Path) -> None:
    """Each time after a longer pause; /readyz says so, and all is well after a while."""
    with started(tmp_path, 2) as workers:
        for life in (1, 2):
            eventually(partial(has_started, workers, life), "it lives")
            os.kill(workers.process_of(1), signal.SIGKILL)
            eventually(lambda: not workers.is_ready(), "that is told")
        eventually(lambda: b"died 2 times" in workers.ask("/readyz")[1], "how often, too")
        pauses = [event["pause"] for event in workers.events("a worker died")]
        assert pauses == [0.1, 0.5]
        eventually(lambda: workers.start_of(1) == 3, "it is there again")


def test_workers_stop_in_order_and_leave_nothing(tmp_path: Path) -> None:
    with started(tmp_path, 2) as workers:
        processes = children_of(workers.process.pid)
        client = workers.client_on(1)
        assert workers.stop() == 0
        assert not any(map(is_alive, processes))
        assert [event.get("worker") for event in workers.events("stopped")] == [1, 0, None]
        assert not (tmp_path / "ready.json").exists()
        with pytest.raises(redis.ConnectionError):
            client.ping()


def test_a_reload_reaches_all_workers(tmp_path: Path) -> None:
    with started(tmp_path, 2, more="[log]\nlevel = 'info'") as workers:
        config = tmp_path / "headgate.toml"
        config.write_text(config.read_text().replace("'info'", "'debug'"))
        workers.process.send_signal(signal.SIGHUP)
        eventually(lambda: bool(workers.events("configuration reloaded")), "worker 0 reloaded")
        assert workers.ask("/readyz")[0] == 200, workers.log


SMALL = "mailbox_soft = 262144\nmailbox_hard = 1048576"


def test_a_slow_subscriber_on_another_worker_makes_the_publisher_wait(tmp_path: Path) -> None:
    """S002-58, RESP-59: memory stays bounded, strangers go on, and when it reads all of it is
    there."""
    with started(tmp_path, 2, resp=SMALL + '\nslow_timeout = "0s"') as workers:
        slow = Subscriber(workers.client_on(1), "news")
        publisher, stranger = workers.client_on(0), workers.client_on(0)
        processes = [workers.process_of(0), workers.process_of(1)]
        before = [resident_bytes(process) for process in processes]
        count, body = 2000, b"x" * 65_536
        sent: list[int] = []

        def publish() -> None:
            sent.extend(publisher.publish("news", body) for _ in range(count))

        thread = threading.Thread(target=publish)
        thread.start()
        eventually(lambda: int(stranger.info("clients")["blocked_clients"]) > 0, "it waits")
        assert stranger.publish("other", "x") == 0
        assert len(sent) < count
        for process, size in zip(processes, before, strict=True):
            assert resident_bytes(process) < size + 32 * MiB
        assert slow.take(count) == [body] * count
        thread.join(60)
        assert sent == [1] * count


def test_a_stopped_worker_holds_no_more_than_a_mailbox(tmp_path: Path) -> None:
    """Publishers to it wait; the memory of the others is bounded."""
    with started(tmp_path, 2, resp=SMALL) as workers:
        subscriber = Subscriber(workers.client_on(1), "news")
        publisher, stranger = workers.client_on(0), workers.client_on(0)
        home, other = workers.process_of(0), workers.process_of(1)
        before = resident_bytes(home)
        os.kill(other, signal.SIGSTOP)
        pipe = publisher.pipeline(transaction=False)
        for _ in range(500):
            pipe.publish("news", b"x" * 65_536)
        thread = threading.Thread(target=pipe.execute)
        thread.start()
        blocked = "blocked_clients"

        def waits() -> bool:
            # Asked of one that does not ask everybody: the other worker would not answer.
            return any(
                session.get("waits_for") is not None or session.get("is_waiting")
                for session in workers.status()["sessions"]
            )

        eventually(lambda: waits() or not thread.is_alive(), blocked)
        assert stranger.publish("other", "x") == 0
        assert resident_bytes(home) < before + 80 * MiB
        thread.join(60)
        assert not thread.is_alive()
        subscriber.close()


# What is refused.


@pytest.mark.parametrize(
    ("lines", "advice"),
    [
        ("[workers]\ncount = 2\n[listen.resp]\nport = 0\ncluster = true", "cluster needs one"),
        (
            '[workers]\ncount = 2\n[listen.resp]\nport = 0\n[domains.jobs]\nspeaks = "x"',
            "channels of the domain jobs (feeds, speaks) need one process",
        ),
        ("[workers]\ncount = 0\n[listen.resp]", "a whole number from 1 to 64"),
    ],
)
def test_what_several_workers_cannot_do_is_refused_at_the_start(
    tmp_path: Path, lines: str, advice: str
) -> None:
    config = tmp_path / "headgate.toml"
    config.write_text(lines)
    done = subprocess.run(
        [sys.executable, "-c", "from headgate.cli import main; main()", "serve"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode != 0
    assert advice in done.stderr


def test_a_port_that_is_taken_is_said_once(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        config = tmp_path / "headgate.toml"
        config.write_text(
            f"[admin]\nport = 0\n[workers]\ncount = 2\n[listen.resp]\nport = {port}\n"
        )
        done = subprocess.run(
            [sys.executable, "-c", "from headgate.cli import main; main()", "serve"],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
    assert done.returncode == 1
    assert done.stderr.count("cannot listen on") == 1


# One process.


def test_a_router_of_one_process_imports_nothing_of_it() -> None:
    """The store, the wires, the service: what `headgate serve` imports before it opens."""
    code = (
        "import sys\n"
        "import headgate.server.serve, headgate.server.wires.all_wires, headgate.embedded\n"
        "found = [name for name in sys.modules if name.startswith('headgate') and\n"
        "    ('.workers' in name or name.endswith(('.peers', '.announcements')))]\n"
        "print(found)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout.strip() == "[]"


def _family(workers: Workers) -> list[int]:
    return [workers.process.pid, *children_of(workers.process.pid)]


def test_the_default_is_one_process(tmp_path: Path) -> None:
    with started(tmp_path, 1) as workers:
        lines = [Path(f"/proc/{each}/cmdline").read_bytes() for each in _family(workers)]
        assert not any(b"headgate.server.workers" in line for line in lines)
        assert "workers" not in workers.status()
