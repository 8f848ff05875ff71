"""SIGHUP: domains change under clients that stay connected."""

from __future__ import annotations

import pytest

from tests.interop.bmq.conftest import Connect
from tests.support.bmq_router import SUCCESS, Router, SdkError, bodies, numbered

DOMAINS = ""
DOMAIN = """\
[domains."{name}"]
mode = "fanout"
apps = [{apps}]
subscriptions = {{ {subscriptions} }}
{more}
"""


class Domain:
    """The domain of one test, as the file is to have it."""

    def __init__(self, router: Router, name: str) -> None:
        self._router = router
        self._name = name
        self.uri = f"bmq://{name}/q"

    async def reload(self, *apps: str, subscriptions: str = "", more: str = "") -> bool:
        """Whether the router took it."""
        names = ", ".join(f'"{app}"' for app in apps)
        text = DOMAIN.format(name=self._name, apps=names, subscriptions=subscriptions, more=more)
        return await self._router.reload(text)


@pytest.fixture
async def domain(router: Router, name: str) -> Domain:
    domain = Domain(router, f"test.{name}")
    assert await domain.reload("foo", "bar")
    return domain


async def test_an_app_that_is_added_gets_what_comes_from_then_on(
    router: Router, connect: Connect, domain: Domain
) -> None:
    """BMQ-77, BMQ-76: also if it was opened before."""
    producer, early, late = [await connect() for _ in range(3)]
    await producer.open(domain.uri, write=True)
    await early.open(f"{domain.uri}?id=new", read=True)
    await producer.post_all(domain.uri, numbered(2))
    assert await domain.reload("foo", "bar", "new", "newer")
    assert await early.given() == []
    await producer.post_all(domain.uri, numbered(2, first=2))
    assert bodies(await early.take(2)) == numbered(2, first=2)
    await late.open(f"{domain.uri}?id=newer", read=True)
    assert bodies(await late.take(2)) == numbered(2, first=2)
    await late.open(f"{domain.uri}?id=foo", read=True)
    assert bodies(await late.take(4)) == numbered(4)


async def test_an_app_that_is_removed_lets_go_of_its_messages(
    router: Router, connect: Connect, domain: Domain
) -> None:
    """BMQ-77: with a consumer and without."""
    producer, foo, bar = [await connect() for _ in range(3)]
    await producer.open(domain.uri, write=True)
    await foo.open(f"{domain.uri}?id=foo", read=True)
    await bar.open(f"{domain.uri}?id=bar", read=True, max_unconfirmed_messages=1)
    await producer.post_all(domain.uri, numbered(3))
    await foo.confirm(*await foo.take(3))
    await foo.settle()
    assert (await router.queue(domain.uri))["messages"] == 3
    assert await domain.reload("foo")
    await router.empties(domain.uri)
    assert await producer.post(domain.uri, b"x") == SUCCESS
    await foo.confirm(await foo.message())
    await router.empties(domain.uri)
    assert await bar.given() == [b"0"]


async def test_expressions_hold_for_messages_that_come_after_them(
    router: Router, connect: Connect, domain: Domain
) -> None:
    """BMQ-66."""
    producer = await connect()
    await producer.open(domain.uri, write=True)
    for x in (1, 2):
        assert await producer.post(domain.uri, b"before %d" % x, {"x": x}) == SUCCESS
    assert await domain.reload("foo", "bar", subscriptions='foo = ["x == 1"]')
    for x in (1, 2):
        assert await producer.post(domain.uri, b"filtered %d" % x, {"x": x}) == SUCCESS
    assert await domain.reload("foo", "bar")
    for x in (1, 2):
        assert await producer.post(domain.uri, b"after %d" % x, {"x": x}) == SUCCESS
    foo, bar = await connect(), await connect()
    await foo.open(f"{domain.uri}?id=foo", read=True)
    await bar.open(f"{domain.uri}?id=bar", read=True)
    after = [b"after 1", b"after 2"]
    assert await foo.given() == [b"before 1", b"before 2", b"filtered 1", *after]
    assert await bar.given() == [b"before 1", b"before 2", b"filtered 1", b"filtered 2", *after]


async def test_a_bad_expression_leaves_everything_as_it_was(
    router: Router, connect: Connect, domain: Domain
) -> None:
    """BMQ-65."""
    producer, foo = await connect(), await connect()
    await producer.open(domain.uri, write=True)
    assert await domain.reload("foo", "bar", subscriptions='foo = ["x == 1"]')
    assert not await domain.reload("foo", "bar", "new", subscriptions='foo = ["x == "]')
    await foo.open(f"{domain.uri}?id=foo", read=True)
    for x in (1, 2):
        assert await producer.post(domain.uri, b"%d" % x, {"x": x}) == SUCCESS
    assert await foo.given() == [b"1"]
    assert "new" not in (await router.queue(domain.uri))["apps"]
    assert await domain.reload("foo", "bar", subscriptions='foo = ["x == 2"]')
    for x in (1, 2):
        assert await producer.post(domain.uri, b"%d" % x, {"x": x}) == SUCCESS
    assert await foo.given() == [b"1", b"2"]


async def test_a_domain_that_is_added_can_be_opened(
    router: Router, connect: Connect, domain: Domain, name: str
) -> None:
    client = await connect()
    uri = f"bmq://test.new.{name}/q"
    with pytest.raises(SdkError):
        await client.open(uri, read=True, write=True)
    assert await router.reload(f'[domains."test.new.{name}"]\nmode = "priority"\n')
    await client.open(uri, read=True, write=True)
    await client.open(domain.uri, write=True)
    for other in (uri, domain.uri):
        assert await client.post(other, b"x") == SUCCESS
    assert (await client.message()).body == b"x"


async def test_limits_hold_for_what_is_stored(
    router: Router, connect: Connect, domain: Domain
) -> None:
    """BMQ-88: nothing is dropped for a quota, and a time to live removes what is too old."""
    producer = await connect()
    await producer.open(domain.uri, write=True)
    await producer.post_all(domain.uri, numbered(5))
    assert await domain.reload("foo", "bar", more="max_messages = 3")
    assert await producer.post(domain.uri, b"refused") == "LIMIT_MESSAGES"
    assert (await router.queue(domain.uri))["messages"] == 5
    assert await domain.reload("foo", "bar", more="max_messages = 6")
    assert await producer.post(domain.uri, b"taken") == SUCCESS
    assert await producer.post(domain.uri, b"refused") == "LIMIT_MESSAGES"
    assert await domain.reload("foo", "bar", more='message_ttl = "1s"')
    await router.empties(domain.uri)
