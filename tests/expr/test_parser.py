"""Text to tree: tokens, precedence, limits, and where errors are."""

from __future__ import annotations

import time
from contextlib import suppress
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.errors import ExpressionError
from headgate.expr.nodes import (
    DEPTH_MAX,
    Binary,
    Boolean,
    Exists,
    Integer,
    Property,
    Text,
    Tree,
    Unary,
    text_of,
)
from headgate.expr.parser import ExpressionLimits, parse, read
from headgate.expr.predicate import compile_expression
from tests.expr import draw
from tests.expr.agree import ROOMY
from tests.support.exclusive_queues import calls

A, B, C, X = Property("a"), Property("b"), Property("c"), Property("x")


def refused(text: str | bytes, limits: ExpressionLimits = ROOMY) -> tuple[str, str, int]:
    with pytest.raises(ExpressionError) as caught:
        compile_expression(text, limits)
    return caught.value.code, caught.value.message, caught.value.offset


def unexpected(token: str, offset: int) -> tuple[str, str, int]:
    return "SYNTAX", f"syntax error, unexpected {token}", offset


@pytest.mark.parametrize(
    "text",
    ["", "  ", "()", "((true)", "x > ", "x x", "&&", " && 1 > 0", "() && 1 > 0", "true && (>>)"],
)
def test_syntax_errors_are_refused(text: str) -> None:
    """BMQ-4"""
    assert refused(text)[0] == "SYNTAX"


@pytest.mark.parametrize(
    ("text", "token", "offset"),
    [
        ("x > >", ">", 4),
        ("x > ", "end of expression", 2),
        ("", "end of expression", 0),
        ("((x)", "end of expression", 3),
        ("x)", ")", 1),
        ("x y", "property", 2),
        ("x 5", "integer", 2),
        ('x "s"', "string", 2),
        ("x true", "true", 2),
        ("x exists", "exists", 2),
        ("x !y", "!", 2),
        ("x (y)", "(", 2),
        ("x ? y", "invalid character", 2),
        ('"é" == x é', "invalid character", 10),
        ("exists()", ")", 7),
        ("exists(1)", "integer", 7),
        ("exists((x))", "(", 7),
        ("exists(x+1)", "+", 8),
        ("exists(x", "end of expression", 7),
        ("exists(", "end of expression", 6),
        ("exists(true)", "true", 7),
    ],
)
def test_an_error_names_the_token_and_its_byte_offset(text: str, token: str, offset: int) -> None:
    assert refused(text) == unexpected(token, offset)


@pytest.mark.parametrize(
    "text",
    ["x = 1", "x == 1 and y == 2", "x == 1 or y == 2", "x <> 1", "x & y", "x | y", "not x"],
)
def test_operators_of_other_languages_are_refused(text: str) -> None:
    """BMQ-19, S003-70"""
    assert refused(text)[0] == "SYNTAX"


@pytest.mark.parametrize(
    ("text", "offset"),
    [
        ('type == "i" && shares 1000 || shares == "all"', 22),
        ('order == "limit" and limit == 0', 17),
    ],
)
def test_the_examples_with_a_missing_operator_are_refused_at_their_place(
    text: str, offset: int
) -> None:
    """S003-79"""
    code, _, found = refused(text)
    assert (code, found) == ("SYNTAX", offset)


@pytest.mark.parametrize(
    "text",
    [
        "x\r== 1",
        "x\x0c== 1",
        "x\xa0== 1",
        "x == 0x10",
        "x == 1.5",
        "x == 'a'",
        "x ^ 1",
        "$x == 1",
        "+x == 1",
        "x ** 2 == 4",
        "x == 1 # one",
        "x ? y : z",
        "len(x) == 1",
        "\x00x",
    ],
)
def test_what_is_not_in_the_language_is_refused(text: str) -> None:
    assert refused(text)[0] == "SYNTAX"


@pytest.mark.parametrize("text", ["x==1", "x == 1", "\tx\n==\n\n1 ", "x ==1", "(x)==(1)"])
def test_blanks_tabs_and_line_feeds_are_ignored(text: str) -> None:
    """S003-47"""
    assert parse(text) == Binary("==", X, Integer(1))


def test_every_kind_of_operand_and_operator_is_read() -> None:
    """S003-46"""
    text = '(x + 1 - 2 * 3 / 4 % 5 >= -6) == true && !(s != "t") || ~b'
    assert text_of(parse(text)) == 'x + 1 - 2 * 3 / 4 % 5 >= -6 == true && !(s != "t") || !b'


@pytest.mark.parametrize(
    "name", ["ask", "Ask", "askPrice", "ask_price", "sp500", "a_", "A9_z", "trueish", "exists"]
)
def test_a_name_is_letters_digits_and_underscores_after_a_letter(name: str) -> None:
    """S003-52"""
    assert parse(name) == Property(name)


@pytest.mark.parametrize("name", ["_ask", "1Y", ".a", "é"])
def test_a_name_begins_with_a_letter(name: str) -> None:
    """S003-53"""
    assert refused(name)[0] == "SYNTAX"
    assert refused(f"x == 1 && {name} == 1")[0] == "SYNTAX"


def test_names_are_case_sensitive_in_the_tree() -> None:
    """S003-54"""
    assert parse("ask == Ask") == Binary("==", Property("ask"), Property("Ask"))


def test_a_plus_b_is_three_tokens() -> None:
    """S003-55"""
    assert parse("a+b") == Binary("+", A, B)


@pytest.mark.parametrize("name", ["a.b", "a..b", "a.", "a.b.c_1"])
def test_names_may_have_dots_after_the_first_letter(name: str) -> None:
    """S003-58"""
    assert parse(name) == Property(name)


@pytest.mark.parametrize(
    ("text", "value"),
    [("5", 5), ("-5", -5), ("010", 10), ("-0", 0), ("00000000000000000000000001", 1)],
)
def test_digits_with_or_without_a_minus_are_an_integer(text: str, value: int) -> None:
    """S003-59"""
    assert parse(f"x == {text}") == Binary("==", X, Integer(value))


@pytest.mark.parametrize("value", [2**15, 2**31, 2**63 - 1, -(2**15), -(2**31), -(2**63)])
def test_integers_of_64_bits_are_accepted(value: int) -> None:
    """BMQ-6, S003-60"""
    assert parse(f"x == {value}") == Binary("==", X, Integer(value))


@pytest.mark.parametrize("text", [str(2**63), str(-(2**63) - 1), "9" * 60_000, f"- {2**63}"])
def test_integers_of_more_than_64_bits_are_refused(text: str) -> None:
    """BMQ-6, S003-60"""
    code, message, offset = refused(f"x == {text}")
    assert (code, message) == ("SYNTAX", "integer overflow")
    assert offset == 5 + text.find(text.lstrip("- ")) * text.startswith("- ")


@pytest.mark.parametrize(
    ("text", "tree"),
    [
        ("x-2", Binary("-", X, Integer(2))),
        ("x -2", Binary("-", X, Integer(2))),
        ("x - 2", Binary("-", X, Integer(2))),
        ("x--2", Binary("-", X, Integer(-2))),
        ("x - -2", Binary("-", X, Integer(-2))),
        ("x - - 2", Binary("-", X, Unary("-", Integer(2)))),
        ("(x)-2", Binary("-", X, Integer(2))),
        ("exists-2", Binary("-", Property("exists"), Integer(2))),
        ("1-2-x", Binary("-", Binary("-", Integer(1), Integer(2)), X)),
        ("-2-x", Binary("-", Integer(-2), X)),
        ("- 2-x", Binary("-", Unary("-", Integer(2)), X)),
        ("x*-2", Binary("*", X, Integer(-2))),
        ("-x", Unary("-", X)),
    ],
)
def test_a_minus_after_an_operand_subtracts_and_elsewhere_belongs_to_its_digits(
    text: str, tree: Tree
) -> None:
    assert parse(text) == tree


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ('"a b "', "a b "),
        ('""', ""),
        ('"a\nb"', "a\nb"),
        ('"é"', "é"),
        ('"\x00"', "\x00"),
        ('"it\'s"', "it's"),
        (b'"\xff\xc3\xa9"', "\udcffé"),
        ('"\udcff"', "\udcff"),
    ],
)
def test_text_between_quotes_is_a_string(text: str | bytes, value: str) -> None:
    """S003-61"""
    source = text if isinstance(text, bytes) else text.encode("utf-8", "surrogateescape")
    assert parse(b"x == " + source) == Binary("==", X, Text(value))
    if isinstance(text, str):
        assert parse(f"x == {text}") == Binary("==", X, Text(value))


def test_a_quote_and_a_backslash_are_written_with_a_backslash() -> None:
    """S003-62"""
    assert parse(r'x == "a\"b"') == Binary("==", X, Text('a"b'))
    assert parse(r'x == "a\\b"') == Binary("==", X, Text("a\\b"))
    assert parse(r'x == "\\\""') == Binary("==", X, Text('\\"'))


@pytest.mark.parametrize("escape", ["n", "t", "0", "x41", "'", "\n", "é", " "])
def test_any_other_escape_is_refused(escape: str) -> None:
    """S003-63: where a quote or a backslash would be taken."""
    assert parse('x == "a\\"b"') == Binary("==", X, Text('a"b'))
    assert refused(f'x == "a\\{escape}b"') == (
        "SYNTAX",
        'syntax error, only \\" and \\\\ are escapes',
        7,
    )
    assert refused(f'x == "a\\{escape}b')[1:] == (
        'syntax error, only \\" and \\\\ are escapes',
        7,
    )
    assert refused('x == "a\\')[1:] == ("syntax error, unterminated string", 5)


@pytest.mark.parametrize("text", ['"', '"abc', '"abc\\"', '"abc\\', '"\\\\\\'])
def test_an_unterminated_string_is_refused(text: str) -> None:
    """S003-64"""
    assert refused(f"x == {text}") == ("SYNTAX", "syntax error, unterminated string", 5)


def test_a_surrogate_that_is_no_byte_is_refused() -> None:
    assert refused('s == "é\ud800"') == ("SYNTAX", "syntax error, not UTF-8", 8)


def test_only_lower_case_true_and_false_are_booleans() -> None:
    """S003-65"""
    assert parse("x == true") == Binary("==", X, Boolean(True))
    assert parse("x == false") == Binary("==", X, Boolean(False))
    for name in ("True", "TRUE", "False", "FALSE", "truetrue", "false_"):
        assert parse(name) == Property(name)


@pytest.mark.parametrize(
    ("text", "explicit"),
    [
        ("a*x+b>0", "((a*x)+b)>0"),
        ("a-b-c", "(a-b)-c"),
        ("!!a", "!(!a)"),
        ("a/b*c%x", "((a/b)*c)%x"),
        ("a+b*c", "a+(b*c)"),
        ("!a == b", "(!a) == b"),
        ("-x*2", "(-x)*2"),
        ("!-~a", "!(-(~a))"),
        ("a+1 < b-1", "(a+1) < (b-1)"),
        ("a < b == true", "(a < b) == true"),
        ("a == b < c", "a == (b < c)"),
        ("a && b == c", "a && (b == c)"),
        ("a || b && c", "a || (b && c)"),
        ("a && b || c", "(a && b) || c"),
        ("a || b || c", "(a || b) || c"),
        ("a && b && c", "(a && b) && c"),
        ("a < b <= c", "(a < b) <= c"),
        ("a == b != c", "(a == b) != c"),
        ("a > b >= c", "(a > b) >= c"),
    ],
)
def test_precedence_and_associativity_are_those_of_c(text: str, explicit: str) -> None:
    """BMQ-20 (chains are accepted here, and warned of), BMQ-21, S003-80, S003-81, S003-83"""
    assert parse(text) == parse(explicit)
    is_chain = text in {"a < b <= c", "a == b != c", "a > b >= c"}
    assert read(text).chains == ((parse(text),) if is_chain else ())
    assert read(explicit).chains == ()


@pytest.mark.parametrize(
    ("text", "is_true"),
    [
        ("true || x == 1 && false", True),
        ("false && x == 1 || true", True),
        ("!false && x == 1", True),
        ("!true || x == 1", True),
        ("!(false || x == 1)", False),
        ("x == 1 == true", True),
        ("x == 1 == false", False),
        ("2 > x == true", True),
        ("7 - x - 2 == 4", True),
        ("24 / 4 / (x + 1) == 3", True),
        ("2 + x * 3 == 5", True),
        ("3 > 2 > x", False),
        ("3 > 2 >= x", False),
        ("(x == 1) >= (x == 1)", False),
        ("3 > 2 == x", False),
        ("x == 1 == 1", False),
        ("!x || x == 1", False),
    ],
)
def test_what_groups_as_in_c_has_the_value_that_it_has_in_c(text: str, is_true: bool) -> None:
    """BMQ-21, S003-80, S003-81, S003-83: constants included; what C takes for 0 or 1, as the order
    of booleans, is no value here."""
    assert compile_expression(text).matches({"x": 1}) is is_true


def test_parentheses_go_first_the_innermost_before_the_outer() -> None:
    """S003-82"""
    tree = parse("(a-(b-c))*x")
    assert tree == Binary("*", Binary("-", A, Binary("-", B, C)), X)


def test_exists_is_a_function_before_a_parenthesis_and_a_name_elsewhere() -> None:
    assert parse("exists(x)") == Exists("x")
    assert parse("exists ( exists )") == Exists("exists")
    assert parse("exists == exists") == Binary("==", Property("exists"), Property("exists"))
    assert parse("!exists(x)") == Unary("!", Exists("x"))


@pytest.mark.parametrize("filler", [" ", "é"])
def test_128_bytes_are_accepted_and_129_refused(filler: str) -> None:
    """BMQ-16, S003-50"""
    size = len(filler.encode())
    head = 'x == "' if filler == "é" else "x == 1"
    tail = '"' if filler == "é" else ""
    fits = head + filler * ((128 - len(head + tail)) // size) + tail
    fits += " " * (128 - len(fits.encode()))
    assert len(fits.encode()) == 128
    compile_expression(fits)
    message = "expression is too long (129 bytes), the limit is 128"
    assert refused(fits + " ", ExpressionLimits()) == ("TOO_LONG", message, 128)
    assert refused((fits + " ").encode(), ExpressionLimits()) == ("TOO_LONG", message, 128)


def test_what_is_far_too_long_is_refused_unread() -> None:
    short, long = "(" * 129, "(" * 10_000_000
    steps = calls(lambda: refused(short, ExpressionLimits()))
    assert calls(lambda: refused(long, ExpressionLimits())) == steps
    assert refused(long, ExpressionLimits())[0] == "TOO_LONG"


def test_a_wrong_expression_that_is_too_long_is_too_long() -> None:
    assert refused("(" * 129, ExpressionLimits())[0] == "TOO_LONG"
    assert refused("\ud800" * 129, ExpressionLimits())[0] == "TOO_LONG"


def test_64_operators_are_accepted_and_65_refused() -> None:
    """BMQ-17 with the limits of this router: names are not counted"""
    compile_expression("!" * 64 + "x")
    code, message, offset = refused("!" * 65 + "x", ExpressionLimits())
    assert (code, offset) == ("TOO_COMPLEX", 64)
    assert message == "too many operators (65), the limit is 64"


def test_exists_parentheses_names_and_negative_literals_are_not_operators() -> None:
    """BMQ-17"""
    limits = ExpressionLimits(operators=3)
    compile_expression("((exists(x))) && x - -5 == y", limits)
    assert refused("((exists(x))) && x - - 5 == y", limits)[0] == "TOO_COMPLEX"


def test_operators_nest_to_a_fixed_depth_whatever_the_limits() -> None:
    deepest = "!" * (DEPTH_MAX - 1) + "x"
    assert compile_expression(deepest, ROOMY).matches({"x": False})
    code, message, offset = refused("!" + deepest, ROOMY)
    assert (code, offset) == ("TOO_COMPLEX", 0)
    assert message == f"operators are nested too deep, the limit is {DEPTH_MAX} levels"


def test_generated_code_may_nest_as_deep_as_the_tree() -> None:
    text = "b"
    for level in range(DEPTH_MAX - 2):
        text = f"b {'&&' if level % 2 else '||'} ({text})"
    assert not compile_expression(f"!({text})", ROOMY).matches({"b": True})


@pytest.mark.parametrize("text", ["true", "1 == 1", '"a" == "b"', "!false", "true || false"])
def test_an_expression_without_a_property_is_refused(text: str) -> None:
    """BMQ-18, S003-51"""
    message = "expression does not use any property"
    assert refused(text, ExpressionLimits()) == ("NO_PROPERTIES", message, 0)


def test_a_constant_beside_a_property_is_taken_for_what_it_is() -> None:
    """BMQ-18, S003-51: it is the property that counts; what is constant keeps its value."""
    for text, matches in (("true", True), ("!false", True), ("false", False), ("1 == 2", False)):
        predicate = compile_expression(f"exists(x) && ({text})")
        assert predicate.matches({"x": 1}) is matches
        assert not predicate.matches({})


def test_exists_counts_as_a_property() -> None:
    compile_expression("exists(x)")


def test_checks_come_in_their_order() -> None:
    tight = ExpressionLimits(bytes=5, operators=1)
    assert refused("1 + +1 ", tight)[0] == "TOO_LONG"
    assert refused("!!!", tight)[0] == "SYNTAX"
    assert refused("!!1", tight)[0] == "TOO_COMPLEX"
    assert refused("!1", tight)[0] == "NO_PROPERTIES"


LONG = 64 * 1024
PIECES = [b"(", b"!", b"-", b"x", b" ", b")", b'"', b"\\", b"1", b"&&", b"==", b"exists(", b"\xff"]


@pytest.mark.parametrize("piece", [*PIECES, b"x||", b"x+", b"(x)+", b"!(", b"-(", b'"\\"', b"a!"])
def test_64_kib_of_one_thing_is_refused_without_harm(piece: bytes) -> None:
    source = (piece * LONG)[:LONG]
    started = time.process_time()
    attempt(source)
    attempt(source[:-1] + b"x")
    # Tenths of a second, a few under coverage; what is quadratic takes minutes.
    assert time.process_time() - started < 10.0


def test_parentheses_alone_may_nest_without_limit() -> None:
    assert parse("(" * 30_000 + "x" + ")" * 30_000, ROOMY) == X


def attempt(source: bytes | str) -> None:
    """Compile, with limits that let everything through to the parser."""
    with suppress(ExpressionError):
        compile_expression(source, ExpressionLimits(bytes=LONG, operators=LONG))


@draw.relaxed
@given(st.binary(max_size=200) | st.text(max_size=100))
def test_any_input_parses_or_is_an_expression_error(source: bytes | str) -> None:
    attempt(source)


@draw.relaxed
@given(st.lists(st.sampled_from(PIECES), max_size=60).map(b"".join))
def test_any_mix_of_tokens_parses_or_is_an_expression_error(source: bytes) -> None:
    attempt(source)


@pytest.mark.parametrize("seed", range(40))
def test_long_random_input_parses_or_is_an_expression_error(seed: int) -> None:
    random = Random(seed)
    attempt(random.randbytes(random.randrange(LONG)))
    attempt(b"".join(random.choices([*PIECES, b"||", b"<", b"y "], k=5_000))[:LONG])
