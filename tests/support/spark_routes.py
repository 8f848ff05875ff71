"""Routing on Spark against the router's own, at length.

``python -m tests.support.spark_routes --messages 100000 --subscriptions 10000 --seed 7``

Expressions are of three sorts: trees drawn at random, with values where things go wrong; shapes
over few values, so that much matches; and shapes over many, as subscriptions mostly are.
"""

from __future__ import annotations

import argparse
import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from random import Random, SystemRandom

from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F

from headgate.core.delivery.gate import Gate
from headgate.core.model.domain import Domain, Mode
from headgate.core.model.ids import AppId, Seq, SessionId
from headgate.core.model.window import Window
from headgate.core.shared.dispatch import Groups
from headgate.core.shared.dispatch import Subscription as Member
from headgate.core.turn.undo import Undo
from headgate.expr.nodes import names_of, text_of
from headgate.expr.parser import DEFAULT_LIMITS
from headgate.expr.predicate import compile_expression
from headgate.expr.types import INT64_MAX, INT64_MIN, Value, octets
from headgate.pipeline.routing.routing import route
from headgate.pipeline.routing.shapes import CODE_MAX, planned
from headgate.pipeline.routing.subscriptions import Filter, Subscription, Subscriptions
from headgate.pipeline.session import open_session
from tests.expr import draw
from tests.expr.route import shaped

Message = Mapping[str, Value]
Decision = tuple[str, int | None, tuple[str, ...]]
"""Outcome, priority, winners."""

APPS = ("", "audit", "billing")
LOOSE = 200
"""At most so many expressions that may match everything; else the winners would be too many."""
RAW = "number bigint, properties map<string, struct<i:bigint, s:binary, b:boolean>>"


class Router:
    """What a router would do, by its own parts."""

    def __init__(self, subscriptions: Subscriptions) -> None:
        self.apps = subscriptions.apps
        self.domain = Domain(
            "d",
            Mode.FANOUT,
            tuple(map(AppId, self.apps)),
            {
                AppId(app): tuple(
                    compile_expression(each.expression)
                    for each in subscriptions.filters
                    if each.app == app
                )
                for app in self.apps
            },
        )
        self.groups = {app: Groups() for app in self.apps}
        self.ids: dict[SessionId, str] = {}
        members: dict[tuple[str, str | None], list[Member]] = {}
        for place, each in enumerate(subscriptions.consumers):
            predicate = None if each.expression is None else compile_expression(each.expression)
            gate: Gate[Seq] = Gate(Window(1, None))
            member = Member(SessionId(place), 0, predicate, each.priority, gate)
            member.place = place
            self.ids[member.session] = each.id
            members.setdefault((each.app, each.expression), []).append(member)
        for (app, text), found in members.items():
            for member in found:
                self.groups[app].add(member, Undo())
            self.groups[app].file(text, Undo())

    def decide(self, app: str, properties: Message) -> Decision:
        if not self.domain.wants(AppId(app), properties):
            return "auto-confirmed", None, ()
        best: int | None = None
        winners: list[str] = []
        for group in self.groups[app].matching(properties):
            if best is not None and group.priority < best:
                break
            best = group.priority
            winners += [self.ids[member.session] for member in group.rotation]
        return ("put-aside" if best is None else "routed"), best, tuple(winners)

    def matching(self, properties: Message, app: str) -> set[str]:
        return {
            self.ids[member.session]
            for group in self.groups[app].matching(properties)
            for member in group.members
        }


def drawn_message(random: Random, values: int) -> dict[str, Value]:
    """A message as a journal can tell it: no bytes, and no integer of over 64 bits."""
    drawn = draw.properties(random)
    if random.random() < 0.7:
        drawn["x"] = random.randrange(12)
        drawn["s"] = random.choice(("a", "ab", "b", "1", "zz"))
    drawn |= {
        "kind": f"k{random.randrange(4)}",
        "customer": f"c{random.randrange(values)}",
        "price": random.randrange(values),
        "urgent": random.random() < 0.5,
    }
    if random.random() < 0.1:
        drawn[random.choice(("kind", "customer", "price", "urgent"))] = random.choice(draw.ANYTHING)
    return {
        name: value
        for name, value in drawn.items()
        if not isinstance(value, bytes)
        and (isinstance(value, str) or INT64_MIN <= value <= INT64_MAX)
    }


def loose_expression(random: Random, values: int) -> str:
    """One that may match much, or has no keys."""
    chance = random.random()
    if chance < 0.45:
        return shaped(random)
    if chance < 0.55:
        number = random.randrange(values)
        kind = f'"k{random.randrange(4)}"'
        return random.choice(
            (f"urgent || price == {number}", f"price > {number}", f"kind == {kind} || urgent")
        )
    while True:
        tree = draw.tree(random, random.randint(0, 6))
        text = text_of(tree)
        if names_of(tree) and len(octets(text)) <= DEFAULT_LIMITS.bytes:
            return text


def narrow_expression(random: Random, values: int) -> str:
    """One that matches few messages."""
    number, other = random.randrange(values), random.randrange(values)
    kind = f'"k{random.randrange(4)}"'
    return random.choice(
        (
            f'kind == {kind} && customer == "c{number}"',
            f"price >= {number} && price < {number + random.randint(1, 40)}",
            f"kind == {kind} && price > {number} && price <= {number + 9}",
            f'customer == "c{number}" || customer == "c{other}"',
            f'customer == "c{number}" || price == {other} || x == {number}',
            f'(customer == "c{number}" || price == {other}) && kind != {kind}',
            f"price * 2 + 7 == {2 * number + 7}",
            f"!(price != {number} || urgent)",
            f"urgent && price == {number}",
            f'customer >= "c{number}" && customer < "c{number}9"',
            f"price / 10 == {number // 10} && kind == {kind}",
        )
    )


def drawn_subscriptions(random: Random, count: int, values: int) -> Subscriptions:
    """Texts, priorities and apps that meet; sometimes a subscription without an expression."""
    loose = min(count // 2, LOOSE)
    texts = [loose_expression(random, values) for _ in range(loose)]
    texts += [narrow_expression(random, values) for _ in range(count - loose)]
    consumers = []
    for number in range(count):
        text = None if random.random() < 1 / count else random.choice(texts)
        app = random.choice(APPS)
        consumers.append(Subscription(f"s{number}", app, text, random.randint(-2, 3)))
    filters = [
        Filter(app, random.choice((loose_expression, narrow_expression))(random, values))
        for app in (*APPS[1:], "quiet")
        for _ in range(random.choice((0, 1, 3)))
    ]
    return Subscriptions(consumers, filters)


def framed(spark: SparkSession, messages: Iterable[Message]) -> DataFrame:
    """The messages as the journal has them; broken UTF-8 stays as it is."""
    rows = [
        (number, {name: _struct(value) for name, value in message.items()})
        for number, message in enumerate(messages)
    ]
    frame = spark.createDataFrame(rows, RAW)
    text = F.transform_values(
        "properties",
        lambda _, v: F.struct(
            v["i"].alias("i"), v["s"].cast("string").alias("s"), v["b"].alias("b")
        ),
    )
    return frame.select("number", text.alias("properties"))


def _struct(value: Value) -> tuple[int | None, bytes | None, bool | None]:
    if isinstance(value, bool):
        return None, None, value
    if isinstance(value, int):
        return value, None, None
    assert isinstance(value, str), "bytes are not told"
    return None, octets(value), None


def decision(row: Row) -> Decision:
    return row["outcome"], row["priority"], tuple(row["winners"])


def differences(
    messages: Sequence[Message], subscriptions: Subscriptions, rows: Iterable[Row]
) -> tuple[list[str], Counter[str]]:
    """What is not as the router has it, and how often there was what."""
    router = Router(subscriptions)
    wrong: list[str] = []
    seen: Counter[str] = Counter()
    left = Counter((number, app) for number in range(len(messages)) for app in router.apps)
    for row in rows:
        message, found = messages[row["number"]], decision(row)
        wanted = router.decide(row["app"], message)
        left[row["number"], row["app"]] -= 1
        seen[found[0]] += 1
        seen["winners"] += len(found[2])
        if found != wanted:
            wrong.append(f"{message!r}, app {row['app']!r}: {wanted}, but {found}")
    wrong += [f"{place}: {times} rows too few" for place, times in left.items() if times]
    return wrong, seen


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--messages", type=int, default=100_000)
    parser.add_argument("--subscriptions", type=int, default=10_000)
    parser.add_argument("--code", type=int, default=CODE_MAX)
    parser.add_argument("--seed", type=int, default=SystemRandom().randrange(2**32))
    parser.add_argument("--ansi", choices=("true", "false"), default="true")
    options = parser.parse_args()
    random = Random(options.seed)
    subscriptions = drawn_subscriptions(random, options.subscriptions, options.subscriptions)
    messages = [drawn_message(random, options.subscriptions) for _ in range(options.messages)]
    plan = planned(subscriptions.trees, options.code)
    spark = open_session(
        master="local[2]",
        settings={"spark.driver.memory": "2g", "spark.sql.ansi.enabled": options.ansi},
    )
    started = time.monotonic()
    routed = route(framed(spark, messages).repartition(2), subscriptions, code_max=options.code)
    wrong, seen = differences(messages, subscriptions, routed.toLocalIterator())
    seconds = time.monotonic() - started
    spark.stop()
    print(
        f"seed {options.seed}, ANSI {options.ansi}: {len(messages)} messages,"
        f" {len(subscriptions.consumers)} subscriptions, {len(subscriptions.filters)} filters:"
        f" {len(wrong)} differences; {seconds:.0f} s"
    )
    print(
        f"{len(plan.shapes)} shapes, {len(plan.probes)} probes, {len(plan.rows)} rows,"
        f" {len(plan.rest)} expressions left to the matcher"
    )
    for outcome, times in seen.most_common():
        print(f"{outcome:>15} {times}")
    for line in wrong[:20]:
        print(line)
    raise SystemExit(bool(wrong))


if __name__ == "__main__":
    main()
