"""Addresses of queues are taken apart, and what names no queue is refused with a reason."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.core.model.queue_uri import QueueUri, parse_uri
from headgate.errors import Refused

EXAMPLES = {
    "bmq://d/q": QueueUri("d", "", "q", ""),
    "bmq://d.fanout/q?id=foo": QueueUri("d.fanout", "", "q", "foo"),
    "bmq://d.~prod/q": QueueUri("d", "prod", "q", ""),
    "bmq://my-d_1.com.~t-1/q~1._-?id=a-1_.b": QueueUri("my-d_1.com", "t-1", "q~1._-", "a-1_.b"),
    f"bmq://{'d' * 255}/{'q' * 64}": QueueUri("d" * 255, "", "q" * 64, ""),
}


@pytest.mark.parametrize("text", EXAMPLES, ids=range(len(EXAMPLES)))
def test_an_address_has_its_parts(text: str) -> None:
    uri = EXAMPLES[text]
    assert parse_uri(text) == uri
    assert uri.canonical == text.partition("?")[0]


WRONG = {
    "": "begins with",
    "d/q": "begins with",
    "BMQ://d/q": "begins with",
    "http://d/q": "begins with",
    "bmq://": "names no queue",
    "bmq://d": "names no queue",
    "bmq://d/": "queue of the address is empty",
    "bmq:///q": "domain of the address is empty",
    "bmq://d.~/q": "tier of the address is empty",
    "bmq://.~t/q": "domain of the address is empty",
    "bmq://d/q?id=": "app of the address is empty",
    "bmq://d/q?": "nothing but",
    "bmq://d/q?app=x": "nothing but",
    "bmq://d/q/r": "queue of the address has a character",
    "bmq://d~t/q": "domain of the address has a character",
    "bmq://d.~t.u/q": "tier of the address has a character",
    "bmq://d.~t.~u/q": "tier of the address has a character",
    "bmq://d d/q": "domain of the address has a character",
    "bmq://d/q\n": "queue of the address has a character",
    "bmq://d/é": "queue of the address has a character",
    "bmq://d/q?id=a&id=b": "app of the address has a character",
    f"bmq://d/{'q' * 65}": "more than 64",
    f"bmq://{'d' * 256}/q": "more than 255",
    f"bmq://d.~{'t' * 256}/q": "more than 255",
    f"bmq://d/q?id={'a' * 256}": "more than 255",
}


@pytest.mark.parametrize("text", WRONG, ids=range(len(WRONG)))
def test_what_names_no_queue_is_refused(text: str) -> None:
    with pytest.raises(Refused, match=WRONG[text]):
        parse_uri(text)


uris = st.builds(
    QueueUri,
    st.from_regex(r"[-a-zA-Z0-9._]{1,10}", fullmatch=True),
    st.from_regex(r"[-a-zA-Z0-9]{0,5}", fullmatch=True),
    st.from_regex(r"[-a-zA-Z0-9_~.]{1,10}", fullmatch=True),
    st.from_regex(r"[-a-zA-Z0-9_.]{0,5}", fullmatch=True),
)


@given(uris)
def test_an_address_comes_back(uri: QueueUri) -> None:
    text = uri.canonical + (f"?id={uri.app}" if uri.app else "")
    assert parse_uri(text) == uri
