"""What the tables say of a few facts."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, date, datetime

from pyspark.sql import DataFrame, SparkSession

from headgate.core import facts as f
from headgate.core import ntf_facts as n
from headgate.core.model.ids import MessageId, QueueId, ServiceId, SessionId
from headgate.pipeline.tables import transforms as t
from tests.support.spark_frames import frame, rows

Q = QueueId(b"bmq://shop.orders/new")
LINE = QueueId(b"\x00\xff" * 8)
"""The digest of an exclusive queue."""
M = MessageId(b"m1")
ONE, TWO = SessionId(1), SessionId(2)
NOON = datetime(2026, 11, 15, 12, tzinfo=UTC).timestamp()
MIDNIGHT = datetime(2026, 11, 16, tzinfo=UTC).timestamp()


def moment(seconds: float) -> datetime:
    """A time as a session in UTC gives it."""
    return datetime.fromtimestamp(NOON + seconds, UTC).replace(tzinfo=None)


def test_a_message_has_the_domain_and_the_readable_address_of_its_queue(
    spark: SparkSession,
) -> None:
    facts = frame(
        spark,
        [f.Accepted(NOON, Q, M, 7, {"x": 1}), f.Accepted(NOON, LINE, M, 5)],
    )
    assert rows(t.messages(facts), "number", "address", "domain", "size") == [
        (1, "bmq://shop.orders/new", "shop.orders", 7),
        (2, "00ff" * 8, None, 5),
    ]


def test_a_day_is_a_day_in_utc_whatever_the_time_zone_of_the_session(spark: SparkSession) -> None:
    facts = frame(spark, [f.Accepted(MIDNIGHT - 1, Q, M, 7), f.Accepted(MIDNIGHT, Q, M, 7)])
    zone = spark.conf.get("spark.sql.session.timeZone")
    spark.conf.set("spark.sql.session.timeZone", "America/Los_Angeles")
    try:
        days = rows(t.messages(facts), "number", "day")
    finally:
        spark.conf.set("spark.sql.session.timeZone", zone or "UTC")
    assert days == [(1, date(2026, 11, 15)), (2, date(2026, 11, 16))]


def test_each_end_of_a_delivery_says_how_long_the_message_was_in_the_queue(
    spark: SparkSession,
) -> None:
    facts = frame(
        spark,
        [
            f.Confirmed(NOON, Q, "a", M, ONE, 0.5, 2.0),
            f.Returned(NOON, Q, "a", M, ONE, True),
            f.AutoConfirmed(NOON, Q, "b", M),
            f.Poisoned(NOON, Q, "a", M, 5),
            f.Expired(NOON, Q, M, 60.0),
        ],
    )
    ends = t.deliveries(facts).orderBy("number")
    assert [
        tuple(row)
        for row in ends.select("outcome", "app", "seconds_in_queue", "seconds_to_confirm").collect()
    ] == [
        ("confirmed", "a", 2.0, 0.5),
        ("returned", "a", None, None),
        ("auto-confirmed", "b", None, None),
        ("poisoned", "a", None, None),
        ("expired", None, 60.0, None),
    ]


def test_a_subscription_ends_when_its_session_changes_it_or_leaves(spark: SparkSession) -> None:
    facts = frame(
        spark,
        [
            f.Subscribed(NOON, Q, "a", ONE),
            f.Interested(NOON, Q, "a", ONE, 0, 2, "x > 1", 3),
            f.Interested(NOON, Q, "a", ONE, 1, 2, None, 0),
            f.Interested(NOON + 5, Q, "a", ONE, 0, 1, "x > 2", 3),
            f.Unsubscribed(NOON + 9, Q, "a", ONE),
        ],
    )
    found = t.spans(t.subscriptions(facts)).orderBy("since", "priority")
    assert [
        tuple(r) for r in found.select("since", "until", "expression", "priority").collect()
    ] == [
        (moment(0), moment(5), None, 0),
        (moment(0), moment(5), "x > 1", 3),
        (moment(5), moment(9), "x > 2", 3),
    ]


def test_a_session_that_wants_nothing_has_no_subscription_meanwhile(spark: SparkSession) -> None:
    facts = frame(
        spark,
        [
            f.Interested(NOON, Q, "", ONE, 0, 1, "x > 1", 0),
            f.Interested(NOON + 1, Q, "", ONE, 0, 0, None, 0),
            f.Interested(NOON + 2, Q, "", ONE, 0, 1, "x > 1", 0),
        ],
    )
    assert rows(t.spans(t.subscriptions(facts)), "since", "until") == [
        (moment(0), moment(1)),
        (moment(2), None),
    ]


def test_a_restart_ends_everything_and_gives_numbers_of_sessions_again(
    spark: SparkSession,
) -> None:
    facts = frame(
        spark,
        [
            f.RouterStarted(NOON, "1"),
            f.Interested(NOON + 1, Q, "", ONE, 0, 1, "x > 1", 0),
            f.ChannelSubscribed(NOON + 2, TWO, "pattern", b"news.*"),
            f.RouterStarted(NOON + 10, "1"),
            f.Interested(NOON + 11, Q, "", ONE, 0, 1, "x > 2", 0),
        ],
    )
    found = rows(t.spans(t.subscriptions(facts)), "since", "until", "family", "address")
    assert found == [
        (moment(1), moment(10), "queue", "bmq://shop.orders/new"),
        (moment(2), moment(10), "pattern", "news.*"),
        (moment(11), None, "queue", "bmq://shop.orders/new"),
    ]


def test_the_minutes_of_two_batches_add_up_and_their_quantiles_are_those_of_all(
    spark: SparkSession,
) -> None:
    def batch(first: int, seconds: range) -> list[f.Fact]:
        return [
            f.Accepted(NOON + 1, Q, M, 10),
            f.Delivered(NOON + 1, Q, "", M, ONE, 0),
            f.Delivered(NOON + 2, Q, "", M, ONE, 1),
            *(f.Confirmed(NOON + 3, Q, "", M, ONE, float(each), 0.0) for each in seconds),
        ]

    parts = t.minutes(frame(spark, batch(1, range(1, 51)))).unionAll(
        t.minutes(frame(spark, batch(1000, range(51, 101))))
    )
    (row,) = t.whole_minutes(parts).collect()
    assert (row.minute, row.accepted, row.delivered, row.redelivered) == (moment(0), 2, 4, 2)
    assert (row.confirmed, row.bytes, row.expired) == (100, 20, 0)
    assert (row.p50, row.p95, row.p99) == (50.0, 95.0, 99.0)


def test_a_minute_without_confirms_has_no_quantiles(spark: SparkSession) -> None:
    (row,) = t.whole_minutes(t.minutes(frame(spark, [f.Accepted(NOON, Q, M, 10)]))).collect()
    assert (row.accepted, row.confirmed, row.p50) == (1, 0, None)


def test_channels_displacements_pressure_and_services_keep_what_their_facts_say(
    spark: SparkSession,
) -> None:
    service = ServiceId(b"\xab\xcd")
    facts = frame(
        spark,
        [
            f.ChannelCounted(NOON, b"n\xff", 1, 3, 30, 9, 3),
            f.Displaced(NOON, LINE, ONE, TWO),
            f.ServiceDisplaced(NOON, service, ONE, TWO, 7),
            f.SessionSlowed(NOON, ONE, "phone", 9000),
            f.CapacityChanged(NOON, "queue", "bmq://shop.orders/new", "high", "here"),
            f.ServiceSubscribed(NOON, service, ONE, 7, "count"),
            f.Associated(NOON, LINE, service),
        ],
    )

    def by_kind(*names: str) -> DataFrame:
        return facts.where(facts.kind.isin(*names))

    assert rows(t.channels(by_kind("ChannelCounted")), "channel", "published", "bytes") == [
        ("n\ufffd", 3, 30)
    ]
    displaced = t.displacements(by_kind("Displaced", "ServiceDisplaced"))
    assert rows(displaced, "number", "address", "service", "by", "queues") == [
        (2, "00ff" * 8, None, 2, None),
        (3, None, "abcd", 2, 7),
    ]
    pressed = t.pressure(by_kind("SessionSlowed", "CapacityChanged"))
    assert rows(pressed, "event", "name", "state", "amount") == [
        ("capacity", "bmq://shop.orders/new", "high", None),
        ("slowed", "phone", None, 9000),
    ]
    services = t.services(by_kind("ServiceSubscribed", "Associated"))
    assert rows(services, "event", "service", "address", "queues", "drift") == [
        ("associated", "abcd", "00ff" * 8, None, None),
        ("subscribed", "abcd", None, 7, "count"),
    ]


def test_facts_of_a_notification_server_have_tables_of_their_own(spark: SparkSession) -> None:
    token, notifier = b"\x01" * 16, b"\x02" * 16
    facts = frame(
        spark,
        [
            n.TokenRegistered(NOON, token, "web_push"),
            n.TokenChanged(NOON, token, "web_push", "ACTIVE"),
            n.TokenRemoved(NOON, token, 3),
            n.NotifierAdded(NOON, notifier, token, "relay:5223"),
            n.NotifierEnded(NOON, notifier, "relay:5223", "AUTH"),
            n.NotifiersActive(NOON, "relay:5223", 900),
            n.NoticesCounted(NOON, "pushed", 5),
            n.PushesCounted(NOON, "web_push", "notices", "delivered", 4),
        ],
    )

    def by_kind(kinds: Iterable[type]) -> DataFrame:
        return facts.where(facts.kind.isin([kind.__name__ for kind in kinds]))

    assert rows(t.tokens(by_kind(t.TOKENS)), "event", "token", "status", "notifiers") == [
        ("changed", "01" * 16, "ACTIVE", None),
        ("registered", "01" * 16, None, None),
        ("removed", "01" * 16, None, 3),
    ]
    found = rows(t.notifiers(by_kind(t.NOTIFIERS)), "event", "notifier", "status", "notifiers")
    assert found == [
        ("active", None, None, 900),
        ("added", "02" * 16, None, 1),
        ("ended", "02" * 16, "AUTH", 1),
    ]
    assert rows(t.notices(by_kind([n.NoticesCounted])), "outcome", "notices") == [("pushed", 5)]
    pushes = t.pushes(by_kind([n.PushesCounted]))
    assert rows(pushes, "provider", "push", "outcome", "pushes") == [
        ("web_push", "notices", "delivered", 4)
    ]
