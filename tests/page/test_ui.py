"""The parts that all pages are made of, in the browser that they run in."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.page_browser import Look


@pytest.fixture
def run(look: Look) -> Any:  # noqa: ANN401
    """Runs a body of JavaScript in which `ui`, `numbers` and `properties` are our modules."""
    look.page.goto(f"{look.url}/static/login.html")

    def run(body: str) -> Any:  # noqa: ANN401
        modules = ("ui", "numbers", "properties")
        imports = "".join(f"const {m} = await import('/static/{m}.js');" for m in modules)
        return look.page.evaluate(f"async () => {{ {imports} {body} }}")

    return run


TREE = """
const box = document.body.appendChild(document.createElement("div"));
const row = (key, text) => ui.h("li", {"data-key": key}, ui.h("button", {}, text));
const texts = () => [...box.children].map((li) => li.textContent).join(" ");
"""


def test_what_is_given_as_text_stays_text(run: Any) -> None:  # noqa: ANN401
    found = run(
        TREE + 'ui.morph(box, ui.h("p", {title: "<b>"}, "<img src=x onerror=alert(1)>"));'
        "return [box.querySelectorAll('img').length, box.textContent];"
    )
    assert found == [0, "<img src=x onerror=alert(1)>"]


def test_what_is_equal_is_not_touched(run: Any) -> None:  # noqa: ANN401
    found = run(
        TREE
        + """
        ui.morph(box, row("a", "1"), row("b", "2"));
        const old = [...box.children];
        let changes = 0;
        const seen = new MutationObserver((list) => { changes += list.length; });
        seen.observe(box, {subtree: true, childList: true, characterData: true, attributes: true});
        ui.morph(box, row("a", "1"), row("b", "2"));
        await new Promise((done) => setTimeout(done));
        return [changes, box.children[0] === old[0]];
    """
    )
    assert found == [0, True]


def test_focus_stays_when_rows_come_and_go(run: Any) -> None:  # noqa: ANN401
    found = run(
        TREE
        + """
        ui.morph(box, row("a", "a"), row("b", "b"), row("c", "c"));
        box.children[1].firstChild.focus();
        const told = [];
        for (const keys of ["xabc", "bc", "cb", "cxb", "b"]) {
          ui.morph(box, [...keys].map((key) => row(key, key)));
          told.push([texts(), document.activeElement.textContent]);
        }
        return told;
    """
    )
    assert found == [
        ["x a b c", "b"],
        ["b c", "b"],
        ["c b", "b"],
        ["c x b", "b"],
        ["b", "b"],
    ]


def test_a_tree_that_looks_like_a_new_one_behaves_like_it(run: Any) -> None:  # noqa: ANN401
    found = run(
        TREE
        + """
        const told = [];
        const tell = (n) => (n === null ? null : () => told.push(n));
        const button = (n) => ui.h("button", {onclick: tell(n)}, "go");
        for (const n of [1, 2, null]) { ui.morph(box, button(n)); box.firstChild.click(); }
        return told;
    """
    )
    assert found == [1, 2]


def test_attributes_go_and_what_belongs_to_others_stays(run: Any) -> None:  # noqa: ANN401
    found = run(
        TREE
        + """
        const field = (value) => ui.h("input", {"data-keep": "q", value});
        ui.morph(box, ui.h("p", {title: "a", hidden: true}), field(""));
        box.children[1].value = "typed";
        ui.morph(box, ui.h("p", {hidden: false}), field(""));
        return [box.children[0].getAttributeNames(), box.children[1].value];
    """
    )
    assert found == [[], "typed"]


SHOWN = {
    "count(1234)": "1,234", "count(2500000)": "2.5M", "exact(2500000)": "2,500,000",
    "rate(0)": "0", "rate(3.14)": "3.1",
    "rate(123456)": "123.5K", "bytes(0)": "0 B", "bytes(1536)": "1.5 KiB",
    "bytes(1048576)": "1.0 MiB", "lasted(0.0123)": "12 ms", "lasted(0.0031)": "3.1 ms",
    "lasted(66)": "66 s", "lasted(600)": "10 min", "lasted(200000)": "2 d",
    "trend(-3.24)": "−3.2/s", "trend(0.01)": "±0/s", "some(1, 'session')": "1 session",
}  # fmt: skip


def test_numbers_are_written_as_people_read_them(run: Any) -> None:  # noqa: ANN401
    asked = ", ".join(f'"{each}": numbers.{each}' for each in SHOWN)
    assert run(f"return {{{asked}}};") == SHOWN


def test_properties_are_read_as_they_are_written(run: Any) -> None:  # noqa: ANN401
    found = run(r"""
        const text = 'kind = "express"\n\nvip=true\n amount = -12 \nraw = 0x00ff\nplain = a b\n' +
          'quoted = "1"\nhalf = 1.5\nnonsense';
        const read = properties.parsed(text);
        const large = JSON.stringify(properties.parsed("n = 9223372036854775807").properties);
        return {...read, again: properties.written(read.properties), large};
    """)
    assert found["properties"] == {
        "kind": "express", "vip": True, "amount": -12, "raw": {"hex": "00ff"}, "plain": "a b",
        "quoted": "1",
    }  # fmt: skip
    assert [mistake.split(":")[0] for mistake in found["mistakes"]] == ["line 8", "line 9"]
    assert found["again"].splitlines() == [
        'kind = "express"', "vip = true", "amount = -12", "raw = 0x00ff", 'plain = "a b"',
        'quoted = "1"',
    ]  # fmt: skip
    assert found["large"] == '{"n":9223372036854775807}'
