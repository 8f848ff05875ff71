from __future__ import annotations

import io
import json
import logging
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.core import facts as f
from headgate.core.model.ids import WHOLE, MessageId, QueueId, ServiceId, SessionId
from headgate.core.model.tally import name_of
from headgate.server.log import LEVELS, FactLog, Formatter, fields_of, set_up

QUEUE, MESSAGE = QueueId(bytes(range(24))), MessageId(b"m" * 16)
ONE, TWO = SessionId(1), SessionId(2)
DISPLACED = f.Displaced(0, QUEUE, ONE, TWO)


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def lines() -> Iterator[io.StringIO]:
    """What is logged, as JSON; the loggers are put back afterwards."""
    root, ours = logging.getLogger(), logging.getLogger("headgate")
    before = root.handlers[:], root.level, ours.level
    for handler in root.handlers[:]:
        root.removeHandler(handler)  # basicConfig would close those of pytest
    stream = io.StringIO()
    set_up("info", "auto", stream)
    yield stream
    for handler in root.handlers[:]:
        root.removeHandler(handler)
    for handler in before[0]:
        root.addHandler(handler)
    root.setLevel(before[1])
    ours.setLevel(before[2])


def told(stream: io.StringIO) -> list[dict[str, object]]:
    return [json.loads(line) for line in stream.getvalue().splitlines()]


def test_a_fact_worth_a_line_is_one(lines: io.StringIO, clock: Clock) -> None:
    FactLog(10, clock).observe([DISPLACED])
    [line] = told(lines)
    assert line["event"] == "Displaced"
    assert line["level"] == "info"
    assert line["queue"] == name_of(DISPLACED.queue)[:4].hex() + "…"
    assert (line["session"], line["by"]) == (1, 2)


def test_a_queue_is_called_by_its_name_if_it_has_one_and_else_by_its_digest() -> None:
    """The journal does the same: no id of a party of a queue is written anywhere."""
    drawn = QueueId(bytes(range(100, 124)) + b"\xff")
    for queue, shown in (
        (QueueId(b"bmq://orders/incoming"), "bmq://orders/incoming"),
        (QueueId(b"n" * 100), "n" * 64 + "…"),
        (QueueId(b"two\nlines"), name_of(QueueId(b"two\nlines"))[:4].hex() + "…"),
        (drawn, name_of(drawn)[:4].hex() + "…"),
    ):
        fact = f.QueueDamaged(1.0, queue)
        assert fields_of(fact) == {"queue": shown}


def test_what_happens_for_every_message_is_not_a_line(lines: io.StringIO, clock: Clock) -> None:
    FactLog(10, clock).observe(
        [
            f.Accepted(0, QUEUE, MESSAGE, 10),
            f.Delivered(0, QUEUE, WHOLE, MESSAGE, ONE, 0),
            f.Confirmed(0, QUEUE, WHOLE, MESSAGE, ONE, 0.2),
            f.Expired(0, QUEUE, MESSAGE, 1.0),
        ]
    )
    assert told(lines) == []


def test_only_a_service_that_disagrees_is_a_line(lines: io.StringIO, clock: Clock) -> None:
    log = FactLog(10, clock)
    for drift in ("none", "unknown", "more"):
        log.observe([f.ServiceSubscribed(0, ServiceId(b"s"), ONE, 3, drift)])
    assert [line["drift"] for line in told(lines)] == ["more"]


def test_a_flood_of_one_kind_is_cut_and_counted(lines: io.StringIO, clock: Clock) -> None:
    """The limit log_lines_per_second, at and one above."""
    log = FactLog(3, clock)
    log.observe([DISPLACED] * 10)
    log.observe([f.TurnFailed(0, 5, "disk full")])
    assert [line["event"] for line in told(lines)] == ["Displaced"] * 3 + ["TurnFailed"]
    clock.now += 1
    log.flush()
    assert told(lines)[-1] | {"at": 0} == {
        "at": 0,
        "level": "warning",
        "event": "LinesLeftOut",
        "kind": "Displaced",
        "left_out": 7,
    }
    log.observe([DISPLACED])
    assert told(lines)[-1]["event"] == "Displaced"
    assert len(told(lines)) == 6


def test_a_level_that_is_too_low_is_not_written(lines: io.StringIO, clock: Clock) -> None:
    logging.getLogger("headgate").setLevel("WARNING")
    FactLog(10, clock).observe([DISPLACED, f.LimitReached(0, "sessions", 1, ONE)])
    assert [line["event"] for line in told(lines)] == ["LimitReached"]


def test_what_a_peer_chose_is_cut() -> None:
    assert fields_of(f.SessionOpened(0, ONE, "resp", "x" * 1000))["name"] == "x" * 64 + "…"
    assert len(str(fields_of(f.TurnFailed(0, 1, "y" * 9000))["reason"])) == 2001


def test_every_fact_that_is_a_line_is_a_fact() -> None:
    assert set(LEVELS) <= set(f.KINDS)


def record(text: str, **fields: object) -> logging.LogRecord:
    made = logging.LogRecord("headgate", logging.INFO, "", 0, text, (), None)
    made.created = 0.0
    made.fields = fields
    return made


def test_a_terminal_gets_key_and_value() -> None:
    line = Formatter(as_json=False).format(
        record("two words", plain="a-b", space="a b", none="", number=1.5, nothing=None)
    )
    assert line == (
        "1970-01-01T00:00:00.000+00:00 info    two words"
        ' plain=a-b space="a b" none="" number=1.5 nothing=null'
    )


@given(st.text(), st.booleans())
def test_nothing_can_make_a_second_line(text: str, as_json: bool) -> None:
    line = Formatter(as_json).format(record(text, name=text))
    assert len(line.splitlines()) == 1
    assert line.isprintable()


def test_another_logger_is_named_and_a_traceback_kept(lines: io.StringIO) -> None:
    try:
        raise ValueError("oh")
    except ValueError:
        logging.getLogger("elsewhere").exception("it %s", "broke")
    [line] = told(lines)
    assert line["logger"] == "elsewhere"
    assert line["event"] == "it broke"
    assert "ValueError: oh" in str(line["traceback"])


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(
    ("form", "stream", "is_json"),
    [
        ("auto", io.StringIO(), True),
        ("auto", Terminal(), False),
        ("json", Terminal(), True),
        ("text", io.StringIO(), False),
    ],
)
@pytest.mark.usefixtures("lines")
def test_the_form_follows_the_stream_unless_it_is_said(
    form: str, stream: io.StringIO, is_json: bool
) -> None:
    set_up("info", form, stream)
    logging.getLogger("headgate").info("hello")
    assert stream.getvalue().startswith("{") is is_json


def test_sessions_that_come_and_go_are_lines_only_for_who_looks_for_them(
    lines: io.StringIO, clock: Clock
) -> None:
    facts: list[f.Fact] = [
        f.SessionOpened(0, ONE, "resp", "127.0.0.1:5"),
        f.SessionClosed(0, ONE, "resp", "127.0.0.1:5", "closed by the client"),
    ]
    log = FactLog(10, clock)
    log.observe(facts * 1000)
    assert told(lines) == []
    logging.getLogger("headgate").setLevel("DEBUG")
    log.observe(facts)
    assert [line["event"] for line in told(lines)] == ["SessionOpened", "SessionClosed"]
