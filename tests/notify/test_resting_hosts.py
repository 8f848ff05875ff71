"""Hosts that give no answer rest, longer each time."""

from __future__ import annotations

from headgate.notify.resting_hosts import REST_SECONDS, REST_SECONDS_MAX, RestingHosts


def test_a_host_that_gives_no_answer_rests_longer_each_time() -> None:
    hosts = RestingHosts()
    now, rests = 0.0, []
    for _ in range(8):
        assert hosts.seconds_left("a", now) == 0
        hosts.failed("a", now, now)
        rests.append(hosts.seconds_left("a", now))
        now += rests[-1]
    assert rests == [10, 20, 40, 80, 160, 320, REST_SECONDS_MAX, REST_SECONDS_MAX]
    assert hosts.seconds_left("b", now) == 0


def test_a_host_that_answers_is_asked_again() -> None:
    hosts = RestingHosts()
    for now in (0.0, 100.0):
        hosts.failed("a", now, now)
        assert hosts.seconds_left("a", now) == REST_SECONDS
        hosts.answered("a", now + 1)
        assert hosts.seconds_left("a", now + 1) == 0


def test_those_that_began_together_are_one_failure() -> None:
    hosts = RestingHosts()
    for _ in range(100):
        hosts.failed("a", 0.0, 10.0)
    assert hosts.seconds_left("a", 10.0) == REST_SECONDS


def test_one_failure_among_answers_stops_nobody() -> None:
    hosts = RestingHosts()
    hosts.answered("a", 5.0)
    hosts.failed("a", 0.0, 10.0)
    assert hosts.seconds_left("a", 10.0) == 0
    hosts.failed("a", 5.0, 15.0)
    assert hosts.seconds_left("a", 15.0) == REST_SECONDS


def test_what_is_remembered_is_bounded() -> None:
    hosts = RestingHosts(hosts_max=3)
    for n in range(10):
        hosts.failed(str(n), 0.0, 0.0)
    assert [n for n in range(10) if hosts.seconds_left(str(n), 0.0)] == [7, 8, 9]


def test_a_clock_that_was_set_back_makes_nobody_rest_longer() -> None:
    hosts = RestingHosts()
    hosts.failed("a", 10_000.0, 10_000.0)
    assert hosts.seconds_left("a", 10_000.0) == REST_SECONDS
    assert hosts.seconds_left("a", 5_000.0) == 0
