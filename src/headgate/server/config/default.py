"""The commented default file."""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections.abc import Iterator, Mapping

from headgate.server.config.kinds import Choice, Text, Unlimited, quoted
from headgate.server.config.known_keys import DOMAIN, DOMAIN_DOCS, KNOWN
from headgate.server.config.tree import Group, Key, Path_

HEAD = """\
# The configuration of Headgate. Every key is shown with its default, behind a #.
#
# An environment variable is stronger than the file: HEADGATE_ADMIN__PORT is port in [admin],
# with two underscores per level. A key of a domain in the file is named the same way, with
# underscores for whatever is neither letter nor digit.
#
# Sizes are bytes or texts: "8 MiB" is 8 * 1024 * 1024, "8 MB" is 8 * 1000 * 1000.
# Durations are seconds or texts: "500ms", "60s", "5 minutes", "2 hours", "7 days".
# A secret may be "file:PATH", relative to this file, for the text in a file.
#
# A [listen.*] section that is there opens a port, on this machine alone unless its host says
# otherwise; without the section nothing listens.
"""


def default_text() -> str:
    """The text that ``headgate config default`` prints."""
    lines = [
        HEAD,
        "# The state directory, relative to this file.",
        '#directory = "var"',
        "",
    ]
    lines += section_lines(KNOWN)
    lines += [
        "# A domain: the mode and the bounds that its queues share. Any number of them.",
        '#[domains."example"]',
        *_keys(DOMAIN),
    ]
    return "\n".join(lines).rstrip() + "\n"


def section_lines(members: Mapping[str, Key | Group]) -> Iterator[str]:
    """The sections of a tree, each key with its default and its text."""
    for name, member in members.items():
        if isinstance(member, Group):
            yield from _section((name,), member)


def _section(path: Path_, group: Group) -> Iterator[str]:
    keys = [m for m in group.members.values() if isinstance(m, Key)]
    if keys:
        assert group.source, "a group with keys has a class"
        yield from _comment(inspect.getdoc(group.source) or "")
        # A file as it comes gives a router that clients reach.
        is_off = group.optional and path[:-1] != ("listen",)
        yield f"{'#' if is_off else ''}[{'.'.join(path)}]"
        yield from _keys(group)
    for name, member in group.members.items():
        if isinstance(member, Group):
            yield from _section((*path, name), member)


def _keys(group: Group) -> Iterator[str]:
    assert group.source, "a group with keys has a class"
    docs = attribute_docs(group.source) | (DOMAIN_DOCS if group is DOMAIN else {})
    for name, member in group.members.items():
        if isinstance(member, Key):
            yield from _comment(docs[name])
            if member.default is None and not isinstance(member.kind, Unlimited):
                shown = member.kind.example if isinstance(member.kind, Text) else f"file:{name}.txt"
                yield f"#{name} = {quoted(shown)}  # not set"
            else:
                note = "" if not isinstance(member.kind, Choice) else f"  # {member.kind.form}"
                yield f"#{name} = {member.kind.show(member.default)}{note}"
    yield ""


def _comment(text: str) -> Iterator[str]:
    return (f"# {line}" for line in textwrap.wrap(" ".join(text.split()), 96))


def attribute_docs(cls: type) -> dict[str, str]:
    """The texts under the attributes of a class and of those that it is derived from, which Python
    itself does not keep."""
    docs: dict[str, str] = {}
    for each in reversed(cls.__mro__):
        if each.__module__.startswith("headgate."):
            docs |= _own_docs(each)
    return docs


def _own_docs(cls: type) -> dict[str, str]:
    body = ast.parse(textwrap.dedent(inspect.getsource(cls))).body[0]
    assert isinstance(body, ast.ClassDef), "the source of a class is a class"
    docs = {}
    for statement, after in zip(body.body, body.body[1:], strict=False):
        match statement, after:
            case (
                ast.AnnAssign(target=ast.Name(id=name)),
                ast.Expr(value=ast.Constant(value=str(text))),
            ):
                docs[name] = " ".join(text.split())
    return docs
