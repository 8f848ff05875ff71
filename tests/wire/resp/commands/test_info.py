"""INFO: how the router does, in sections."""

from __future__ import annotations

import pytest

from headgate.core.model.domain import Domain
from headgate.wire.resp.commands.info import SECTIONS, human
from tests.support.resp_hub import Guest, House


def fields(guest: Guest, *sections: str) -> dict[str, str]:
    lines = guest.ask("INFO", *sections).split("\r\n")
    return dict(line.split(":", 1) for line in lines if ":" in line)


def titles(guest: Guest, *sections: str) -> list[str]:
    lines = guest.ask("INFO", *sections).split("\r\n")
    return [line[2:] for line in lines if line.startswith("# ")]


@pytest.mark.parametrize(
    ("section", "names"),
    [
        ("server", "redis_version redis_mode process_id tcp_port uptime_in_seconds"),
        ("replication", "role connected_slaves"),
        ("clients", "connected_clients"),
        ("memory", "used_memory used_memory_rss"),
        (
            "stats",
            "total_connections_received total_commands_processed expired_keys pubsub_channels"
            " pubsub_patterns pubsubshard_channels dispatch_queue_subscriber_bytes",
        ),
        ("cluster", "cluster_enabled"),
    ],
)
def test_sections_have_what_tools_look_for(section: str, names: str) -> None:
    """RESP-23."""
    guest = House().guest()
    told = fields(guest, section)
    assert [name for name in names.split() if name not in told] == []
    assert guest.ask("INFO", section).startswith(f"# {section.capitalize()}\r\n")


def test_a_section_is_written_as_in_redis() -> None:
    """RESP-23."""
    guest = House().guest()
    replication = "# Replication\r\nrole:master\r\nconnected_slaves:0\r\n"
    cluster = "# Cluster\r\ncluster_enabled:0\r\n"
    assert guest.ask("INFO", "replication") == replication
    assert guest.ask("INFO", "cluster", "replication") == f"{replication}\r\n{cluster}"
    assert guest.ask("INFO", "keyspace") == "# Keyspace\r\n"


def test_all_sections_are_told_unless_some_are_asked_for() -> None:
    """RESP-23."""
    guest = House().guest()
    everything = list(SECTIONS)
    assert titles(guest) == everything
    for word in ("all", "everything", "DEFAULT"):
        assert titles(guest, word) == everything
    assert titles(guest, "keyspace", "all") == everything
    assert titles(guest, "STATS", "nosuch", "server") == ["Server", "Stats"]
    assert guest.ask("INFO", "nosuch") == ""


def test_info_is_verbatim_in_resp3() -> None:
    """RESP-23."""
    text = b"# Cluster\r\ncluster_enabled:0\r\n"
    assert House().guest(3).raw("INFO", "cluster") == b"=34\r\ntxt:%b\r\n" % text


def test_channels_and_patterns_are_counted() -> None:
    """RESP-23."""
    house = House()
    subscriber, guest = house.guest(), house.guest()
    subscriber.raw("SUBSCRIBE", "a", "b")
    subscriber.raw("PSUBSCRIBE", "*")
    subscriber.raw("SSUBSCRIBE", "a", "b", "c")
    told = fields(guest, "stats")
    names = ("pubsub_channels", "pubsub_patterns", "pubsubshard_channels")
    assert [told[name] for name in names] == ["2", "1", "3"]


def test_sessions_and_commands_are_counted() -> None:
    house = House()
    first, guest = house.guest(), house.guest()
    first.ask("QUIT")
    told = fields(guest)
    assert (told["connected_clients"], told["total_connections_received"]) == ("1", "2")
    assert told["total_commands_processed"] == "1"
    house.now += 100_000
    assert fields(guest, "server")["uptime_in_seconds"] == "100000"
    assert fields(guest, "server")["uptime_in_days"] == "1"


def test_bytes_that_wait_for_subscribers_are_told() -> None:
    """RESP-60, S002-55."""
    house = House()
    slow, guest = house.guest(), house.guest()
    slow.raw("SUBSCRIBE", "c")
    slow.is_stuck = True
    assert fields(guest, "stats")["dispatch_queue_subscriber_bytes"] == "0"
    guest.ask("PUBLISH", "c", "x" * 1000)
    waiting = fields(guest, "stats")["dispatch_queue_subscriber_bytes"]
    assert int(waiting) == slow.mailbox.bytes > 1000
    assert fields(guest, "stats")["dispatch_queue_subscriber_bytes"] == waiting
    slow.close("gone")
    assert fields(guest, "stats")["dispatch_queue_subscriber_bytes"] == "0"


def test_a_publisher_that_waits_is_counted() -> None:
    house = House()
    slow, publisher, guest = house.guest(), house.guest(), house.guest()
    slow.raw("SUBSCRIBE", "c")
    slow.is_stuck = True
    guest.ask("CONFIG", "SET", "mailbox-hard", "100")
    publisher.ask("PUBLISH", "c", "x" * 1000)
    publisher.raw("PUBLISH", "c", "y")
    assert fields(guest, "clients")["blocked_clients"] == "1"


def test_readers_of_streams_that_wait_are_counted() -> None:
    house = House(domains=(Domain.fanout("jobs", "g", streams=("s",)),))
    reader, guest = house.guest(), house.guest()
    reader.raw("XREADGROUP", "GROUP", "g", "c", "BLOCK", 0, "STREAMS", "s", ">")
    assert fields(guest, "clients")["blocked_clients"] == "1"
    guest.ask("XADD", "s", "*", "a", "1")
    assert fields(guest, "clients")["blocked_clients"] == "0"


def test_keys_are_counted_by_database() -> None:
    """RESP-23."""
    guest = House().guest()
    guest.ask("SET", "a", "1")
    guest.ask("SET", "b", "1", "EX", "100")
    guest.ask("SELECT", "9")
    guest.ask("SET", "c", "1")
    assert fields(guest, "keyspace") == {
        "db0": "keys=2,expires=1,avg_ttl=0",
        "db9": "keys=1,expires=0,avg_ttl=0",
    }


def test_keys_that_expired_are_counted() -> None:
    """RESP-23."""
    house = House()
    guest = house.guest()
    guest.ask("SET", "a", "1", "PX", "10")
    house.now += 1
    house.hub.sweep()
    assert fields(guest, "stats")["expired_keys"] == "1"


def test_memory_is_told_for_machines_and_people() -> None:
    told = fields(House().guest(), "memory")
    assert (told["used_memory"], told["used_memory_human"]) == ("3145728", "3.00M")
    assert [human(size) for size in (0, 1023, 1536, 2**31)] == ["0B", "1023B", "1.50K", "2.00G"]
