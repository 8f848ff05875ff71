from __future__ import annotations

import re
import tomllib
from collections.abc import Callable
from contextlib import suppress
from dataclasses import fields
from pathlib import Path
from typing import TypeAlias

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from headgate.core.model.domain import Domain, Mode
from headgate.core.model.ids import QueueId
from headgate.core.model.limits import KiB, Limits, MiB
from headgate.core.model.property_type import PropertyType
from headgate.errors import ConfigError
from headgate.server.config import (
    Config,
    attribute_docs,
    default_text,
    is_loopback,
    load_config,
)
from headgate.server.config.binding_kinds import Feeds
from headgate.server.config.kinds import Duration, Size
from headgate.server.config.known_keys import DOMAIN_KINDS, KNOWN
from headgate.server.config.reading import FILE_BYTES
from headgate.server.config.tree import Group

STREAMS = """
[domains.jobs]
mode = "fanout"
apps = ["g"]
streams = ["taskiq", "mail.*"]
groups = "fixed"
consumer_grace = "never"
body_field = "payload"
fields = { zip = "string", amount = "int64" }
"""

Load: TypeAlias = Callable[..., Config]

HERE = settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)


@pytest.fixture
def load(tmp_path: Path) -> Load:
    def load(text: str | bytes = "", **environ: str) -> Config:
        path = tmp_path / "headgate.toml"
        path.write_bytes(text.encode() if isinstance(text, str) else text)
        return load_config(path, environ)

    return load


def origins(config: Config) -> dict[str, str]:
    return {entry.key: entry.origin for entry in config.entries}


def test_without_a_file_everything_is_the_default() -> None:
    config = load_config(None, {"PATH": "/bin"})
    assert config.directory == Path.cwd() / "var"
    assert config.store.url == "sqlite:queues.db"
    assert config.admin.host == "127.0.0.1"
    assert config.admin.port == 8222
    assert config.limits == Limits()
    assert config.domains == {}
    assert config.listen.smp is None
    assert set(origins(config).values()) == {"default"}


def test_paths_are_relative_to_the_folder_of_the_file(load: Load, tmp_path: Path) -> None:
    assert load('directory = "state"').directory == tmp_path / "state"


def test_files_of_tls_are_relative_to_the_folder_of_the_file(load: Load, tmp_path: Path) -> None:
    config = load(
        '[listen.resp.tls]\ncertificate = "../here/./server.crt"\nkey = "/keys/server.key"'
    )
    assert config.listen.resp is not None
    assert config.listen.resp.tls is not None
    assert config.listen.resp.tls.certificate == str(tmp_path.parent / "here" / "server.crt")
    assert config.listen.resp.tls.key == "/keys/server.key"


def test_the_environment_is_stronger_than_the_file(load: Load) -> None:
    config = load("[admin]\nport = 1", HEADGATE_ADMIN__PORT="2", HEADGATE_DIRECTORY="/state")
    assert config.admin.port == 2
    assert config.directory == Path("/state")
    assert origins(config)["admin.port"] == "environment HEADGATE_ADMIN__PORT"


def test_a_variable_makes_a_section_that_the_file_does_not_have(load: Load) -> None:
    config = load("", HEADGATE_LISTEN__BMQ__PORT="30115", HEADGATE_LISTEN__BMQ__TLS__KEY="k.pem")
    assert config.listen.bmq is not None
    assert config.listen.bmq.port == 30115
    assert config.listen.bmq.tls is not None
    assert Path(config.listen.bmq.tls.key).name == "k.pem"


def test_a_variable_changes_a_domain_of_the_file(load: Load) -> None:
    text = '[domains."my.orders"]\nmode = "fanout"\napps = ["a"]'
    config = load(
        text,
        HEADGATE_DOMAINS__MY_ORDERS__MAX_MESSAGES="7",
        HEADGATE_DOMAINS__MY_ORDERS__APPS='["a", "b"]',
        HEADGATE_DOMAINS__MY_ORDERS__JOURNAL_BODIES="true",
        HEADGATE_DOMAINS__MY_ORDERS__SUBSCRIPTIONS='{ b = ["x > 1"] }',
    )
    domain = config.domains["my.orders"]
    assert domain.max_messages == 7
    assert domain.apps == ("a", "b")
    assert domain.journal_bodies
    assert [p.text for p in domain.filters["b"]] == ["x > 1"]


def test_every_section_and_key_that_is_documented_can_be_written(
    load: Load, tmp_path: Path
) -> None:
    for name in ("password", "create_password", "token"):
        (tmp_path / f"{name}.txt").write_text("secret\n")
    (tmp_path / "operator_token.txt").write_text("another\n")
    uncommented = re.sub(r"^#(?! )", "", default_text(), flags=re.MULTILINE)
    config = load(uncommented)
    plain = load_config(None, {})
    assert config.listen.resp is not None
    assert config.listen.resp.password is not None
    assert config.listen.resp.password.reveal() == "secret"
    assert config.domains == {"example": Domain(name="example", mode=Mode.PRIORITY)}
    assert config.limits == plain.limits
    assert config.store == plain.store
    assert config.smp.queue_quota == plain.smp.queue_quota
    assert len(config.entries) == len(re.findall("^[a-z_]+ = ", uncommented, re.MULTILINE))


def test_the_default_file_changes_nothing(load: Load) -> None:
    """But that clients can connect, from this machine."""
    config = load(default_text())
    assert [e.origin for e in config.entries if e.origin != "default"] == []
    assert [listen.host for listen in config.listen.each().values()] == ["127.0.0.1"] * 3


def test_a_domain_gets_its_mode_its_bounds_and_its_predicates(load: Load) -> None:
    config = load(
        """
        [domains.orders]
        mode = "fanout"
        apps = ["billing", "audit"]
        subscriptions = { billing = ["price > 10", "express"] }
        max_bytes = "1 MiB"
        domain_max_messages = "none"
        message_ttl = "2 hours"
        max_idle_time = 1.5
        suspicious_delay_low = 0
        suspicious_delay_high = "2 minutes"
        """
    )
    domain = config.domains["orders"]
    assert domain.mode is Mode.FANOUT
    assert domain.apps == ("billing", "audit")
    assert [p.text for p in domain.filters["billing"]] == ["price > 10", "express"]
    assert domain.max_bytes == MiB
    assert domain.domain_max_messages is None
    assert domain.message_ttl == 7200
    assert domain.max_idle_time == 1.5
    assert (domain.suspicious_delay_low, domain.suspicious_delay_high) == (0, 120)
    assert domain.max_queues == 10_000
    assert not config.warnings


def test_a_subscription_of_an_app_that_is_not_there_is_a_warning(load: Load) -> None:
    config = load('[domains.d]\nsubscriptions = { x = ["a > 1"], "" = ["a > 2"] }')
    assert config.warnings == ("domains.d.subscriptions.x: ignored, the domain has no such app",)
    assert set(config.domains["d"].filters) == {""}


def test_an_expression_that_is_probably_not_meant_is_a_warning(load: Load) -> None:
    config = load('[domains.d]\nsubscriptions = { "" = ["1 < a < 2"] }')
    assert len(config.warnings) == 1
    assert "1 < a < 2" in config.warnings[0]


def test_more_properties_than_a_message_can_carry_are_no_limit(load: Load) -> None:
    with pytest.raises(ConfigError, match=r"limits\.message_properties.* is above 255"):
        load("[limits]\nmessage_properties = 256")


def test_limits_bound_the_expressions_of_domains(load: Load) -> None:
    with pytest.raises(ConfigError, match=r"domains\.d\.subscriptions"):
        load('[limits]\nexpression_bytes = 5\n[domains.d]\nsubscriptions = {"" = ["price > 10"]}')


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[admni]", "admni: unknown section; did you mean admin?"),
        ("[admin]\nprot = 1", "admin.prot: unknown key; did you mean port?"),
        ("[limits]\nturn_command = 1", "limits.turn_command: unknown key; did you mean turn_comm"),
        ("[listen.reps]", "listen.reps: unknown section; did you mean resp?"),
        ("[domain.x]", "domain: unknown section; did you mean domains?"),
        ("[domains.x]\nmod = 'priority'", "domains.x.mod: unknown key; did you mean mode?"),
        ("zzz = 1", "zzz: unknown key; known are admin, desk, directory, domains, "),
        ("admin = 3", "admin: 3 is not a table"),
        ("domains = 3", "domains: 3 is not a table"),
        ("[domains]\nx = 3", "domains.x: 3 is not a table"),
        ('[domains.""]', 'domains."": a domain\'s name is a text of 1 to 255 characters'),
        ("[admin]\nport = 65536", "admin.port: 65536 is not a whole number from 0 to 65535"),
        ("[admin]\nport = -1", "admin.port: -1 is not a whole number from 0 to 65535"),
        ("[admin]\nport = true", "admin.port: true is not a whole number"),
        ("[admin]\nport = 1979-05-27", "admin.port: a date or a time is not a whole number"),
        ("[admin]\nport = [1]", "admin.port: a list is not a whole number"),
        (f"[admin]\nport = 0x{'f' * 9999}", "admin.port: a huge number is not a whole number"),
        ('[admin]\nhost = "a b"', 'admin.host: "a b" is not a host name or an address'),
        ("[smp]\nqueue_quota = 0", "smp.queue_quota: 0 is not a whole number from 1 on"),
        ("[limits]\nturn_bytes = 0", "limits.turn_bytes: 0 is not a size, such as 65536, "),
        ('[limits]\nturn_bytes = "8 MiBs"', 'limits.turn_bytes: "8 MiBs" is not a size'),
        ('[smp]\nend_flush = "1 fortnight"', 'smp.end_flush: "1 fortnight" is not a duration, '),
        ("[smp]\nend_flush = nan", "smp.end_flush: nan is not a duration"),
        ("[smp]\nend_flush = inf", "smp.end_flush: inf is not a duration"),
        ("[log]\nlevel = 'loud'", 'log.level: "loud" is not one of "debug", "info", '),
        ("[listen.resp]\ncluster = 1", "listen.resp.cluster: 1 is not true or false"),
        (
            '[listen.resp]\nnotify_keyspace_events = "KEA"',
            'notify_keyspace_events: "KEA" is not "" or',
        ),
        (
            "[listen.resp]\nmailbox_soft = '64 MiB'",
            "listen.resp.mailbox_soft: mailbox_soft is above mailbox_hard",
        ),
        (
            "[listen.resp]\nmailbox_hard = '1 MiB'",
            "listen.resp.mailbox_hard: mailbox_soft is above mailbox_hard",
        ),
        (
            "[listen.resp]\nworkers = 1",
            "listen.resp.workers: is no key any more: set workers.count instead",
        ),
        ("[limits]\nmailbox_bytes_soft = '64 MiB'", "limits.mailbox_bytes_soft: is above"),
        ("[domains.x]\nmode = 'exclusive'", 'domains.x.mode: "exclusive" is not one of "priorit'),
        ("[domains.x]\nmode = 'fanout'", "domains.x.apps: a fanout domain needs at least one app"),
        ("[domains.x]\napps = ['a']", "domains.x.apps: a priority domain has no apps"),
        ("[domains.x]\napps = ['a', 'a']", "domains.x.apps: a list is not a list of different"),
        ("[domains.x]\napps = ['']", "domains.x.apps: a list is not a list of different texts"),
        ("[domains.x]\nsubscriptions = 1", "domains.x.subscriptions: 1 is not a table of lists"),
        ("[domains.x]\nsubscriptions = {a = 1}", "domains.x.subscriptions: a table is not a tabl"),
        ("[domains.x]\nsubscriptions = {a = [1]}", "domains.x.subscriptions: a table is not a ta"),
        ('[admin]\nhost = "0.0.0.0"', "admin.host: 0.0.0.0 is beyond loopback, where a token is"),
        ('[admin]\nhost = "::"', "admin.host: :: is beyond loopback"),
        (
            '[listen.bmq]\nhost = "0.0.0.0"',
            "listen.bmq.host: 0.0.0.0 is beyond loopback, where clients have to say who they are:"
            " set listen.bmq.clients (tokens) or listen.bmq.tls.client_ca (certificates), or"
            " listen.bmq.insecure = true",
        ),
        (
            '[listen.bmq]\nhost = "::"\n[listen.bmq.tls]\ncertificate = "a"',
            "listen.bmq.host: :: is beyond loopback",
        ),
        (
            '[listen.bmq]\ninsecure = true\nclients = { a = "b" }',
            "listen.bmq.insecure: lets everybody in, and clients or client_ca does not",
        ),
        (
            '[listen.bmq]\nclients = ["a"]',
            "listen.bmq.clients: the value is not a table of secrets",
        ),
        (
            '[listen.bmq]\nclients = { "a:b" = "c" }',
            "listen.bmq.clients: the value is not a table of secrets by name",
        ),
        ("[domains.x]\nreaders = 'a'", 'domains.x.readers: "a" is not a list of different texts'),
        ('directory = ""', 'directory: "" is not the path of a folder'),
        ('directory = "a\\u0000b"', "directory: "),
        ("a = [", "line 1, column 6: Invalid value"),
        ("\n\n a = 1 1", "line 3, column 8: "),
        ("a = 1\na = 2", "line 2, column 6: Cannot overwrite a value"),
        ("a = " + "9" * 9999, "a number is too long"),
        ("a = " + "[" * 20_000, "values are nested too deeply"),
    ],
)
def test_what_is_wrong_is_said_with_its_path(load: Load, text: str, message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load(text)
    assert message in str(caught.value)
    assert "headgate.toml: " in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_wrong_expression_is_shown_with_a_caret(load: Load) -> None:
    """BMQ-65: such a domain is not loaded."""
    with pytest.raises(ConfigError) as caught:
        load('[domains.d]\nsubscriptions = { "" = ["price = 10"] }')
    lines = str(caught.value).splitlines()
    assert lines[0].endswith('domains.d.subscriptions."": wrong expression')
    assert lines[1:3] == ["  price = 10", "        ^"]


@pytest.mark.parametrize(
    ("environ", "message"),
    [
        ({"HEADGATE_ADMIN__PROT": "1"}, "HEADGATE_ADMIN__PROT; did you mean HEADGATE_ADMIN__PORT?"),
        ({"HEADGATE_ADMIN": "1"}, "unknown environment variable HEADGATE_ADMIN"),
        ({"HEADGATE_ADMIN_PORT": "1"}, "did you mean HEADGATE_ADMIN__PORT?"),
        ({"HEADGATE_DIRECTORY__X": "1"}, "unknown environment variable HEADGATE_DIRECTORY__X"),
        ({"HEADGATE_": "1"}, "unknown environment variable HEADGATE_"),
        ({"HEADGATE_DOMAINS": "1"}, "unknown environment variable HEADGATE_DOMAINS"),
        ({"HEADGATE_DOMAINS__D": "1"}, "unknown environment variable HEADGATE_DOMAINS__D"),
        ({"HEADGATE_DOMAINS__E__MODE": "1"}, "HEADGATE_DOMAINS__E__MODE names no domain of the"),
        ({"HEADGATE_DOMAINS__X_Y__MODE": "1"}, "names several domains of the file"),
        ({"HEADGATE_DOMAINS__D__MOOD": "1"}, "unknown environment variable HEADGATE_DOMAINS__D__"),
        ({"HEADGATE_ADMIN__PORT": "http"}, 'HEADGATE_ADMIN__PORT: "http" is not a whole number'),
        ({"HEADGATE_ADMIN__PORT": ""}, 'HEADGATE_ADMIN__PORT: "" is not a whole number'),
        ({"HEADGATE_DOMAINS__D__JOURNAL_BODIES": "yes"}, '"yes" is not true or false'),
        ({"HEADGATE_DOMAINS__D__APPS": "a,b"}, '"a,b" is not a list of different texts'),
        ({"HEADGATE_DOMAINS__D__SUBSCRIPTIONS": "["}, '"[" is not a table of lists'),
        ({"HEADGATE_DIRECTORY": "\udcff"}, "HEADGATE_DIRECTORY: "),
    ],
)
def test_a_wrong_variable_is_named(load: Load, environ: dict[str, str], message: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(message)):
        load('[domains.d]\n[domains."x.y"]\n[domains.x_y]', **environ)


def test_a_variable_leaves_what_the_file_has_wrong_to_the_file(load: Load) -> None:
    with pytest.raises(ConfigError, match="listen: 3 is not a table"):
        load("listen = 3", HEADGATE_LISTEN__SMP__PORT="1")
    with pytest.raises(ConfigError, match="admin: 3 is not a table"):
        load("admin = 3", HEADGATE_ADMIN__PORT="1")


def test_variables_of_the_command_line_are_not_keys(load: Load) -> None:
    load("", HEADGATE_CONFIG="x.toml", HEADGATE_READY_FILE="r", HEADGATE_DEBUG="1")


def test_a_secret_is_shown_nowhere(load: Load) -> None:
    config = load('[admin]\ntoken = "open sesame"', HEADGATE_SMP__CREATE_PASSWORD="open sesame")
    assert config.admin.token is not None
    assert config.admin.token.reveal() == "open sesame"
    assert "sesame" not in repr(config)
    assert "sesame" not in repr(config.entries)
    assert {e.value for e in config.entries if e.origin != "default"} == {'"(hidden)"'}


@pytest.mark.parametrize(
    "text",
    [
        "[admin]\ntoken = ['sesame']",
        "[admin]\ntoken = 'sesame\\u0000'",
        "[store]\nurl = 'mysql://me:sesame@host/db'",
        "[store]\nurl = 'postgresql://me:sesame@host/d b'",
    ],
)
def test_a_wrong_secret_is_not_echoed(load: Load, text: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load(text.replace("'", '"'))
    assert "sesame" not in str(caught.value)


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("memory:", "memory:"),
        ("sqlite:a:b@c?password=x", "sqlite:a:b@c?password=x"),
        ("postgresql://me@host/db", "postgresql://me@host/db"),
        ("postgresql://me:sesame@host:5432/db", "postgresql://me:***@host:5432/db"),
        ("postgres://me:se@s/a?m:e@host/db", "postgres://me:***@host/db"),
        (
            "postgresql://host/db?user=me&password=sesame&sslmode=require",
            "postgresql://host/db?user=me&password=***&sslmode=require",
        ),
        ("postgresql://host/db?p%61ssword=sesame", "postgresql://host/db?p%61ssword=***"),
        (
            "postgresql://host/db?password=sesame&user=a@b",
            "postgresql://host/db?password=***&user=a@b",
        ),
    ],
)
def test_the_password_of_a_database_is_not_shown(load: Load, url: str, shown: str) -> None:
    config = load(f'[store]\nurl = "{url}"')
    assert config.store.url == url
    [value] = [entry.value for entry in config.entries if entry.key == "store.url"]
    assert value == f'"{shown}"'


def test_a_secret_may_be_in_a_file_beside_the_configuration(load: Load, tmp_path: Path) -> None:
    (tmp_path / "token").write_text("open sesame\n")
    config = load('[admin]\nhost = "0.0.0.0"\ntoken = "file:token"')
    assert config.admin.token is not None
    assert config.admin.token.reveal() == "open sesame"
    assert [e.value for e in config.entries if e.key == "admin.token"] == ['"file:token"']


@pytest.mark.parametrize("content", [None, b"", b"\n", b"\xff\xff", b"x" * (64 * KiB + 1)])
def test_a_secret_file_that_has_no_secret_is_an_error(
    load: Load, tmp_path: Path, content: bytes | None
) -> None:
    if content is not None:
        (tmp_path / "token").write_bytes(content)
    with pytest.raises(ConfigError, match=r'admin\.token: .*"file:token"'):
        load('[admin]\ntoken = "file:token"')


def test_two_secrets_are_equal_if_their_texts_are(load: Load) -> None:
    one, two = load('[admin]\ntoken = "a"').admin.token, load('[admin]\ntoken = "a"').admin.token
    assert one == two
    assert hash(one) == hash(two)
    assert one != "a"


def test_a_file_that_cannot_be_read_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"none\.toml: cannot be read: No such file"):
        load_config(tmp_path / "none.toml", {})
    with pytest.raises(ConfigError, match="cannot be read: Is a directory"):
        load_config(tmp_path, {})
    with pytest.raises(ConfigError, match="cannot be read"):
        load_config(Path("a\0b"), {})


def test_a_file_that_is_too_large_is_an_error(load: Load) -> None:
    with pytest.raises(ConfigError, match="is larger than"):
        load(b"#" * (FILE_BYTES + 1))


def test_a_file_that_is_not_utf_8_is_an_error_with_its_place(load: Load) -> None:
    with pytest.raises(ConfigError, match=r"headgate\.toml: line 2, column 5: not UTF-8"):
        load(b"a = 1\nb = \xe4")


@pytest.mark.parametrize("char", ["[", "{", "a.", "[[", '"', "\0", "a=", "'''"])
def test_a_megabyte_of_anything_is_an_error(load: Load, char: str) -> None:
    count = 20_000 if char == "a." else FILE_BYTES // len(char)  # tomllib is slow with those
    with pytest.raises(ConfigError):
        load(char * count)


@HERE
@given(data=st.binary(max_size=200))
def test_any_bytes_are_a_configuration_or_an_error(load: Load, data: bytes) -> None:
    with suppress(ConfigError):
        load(data)


def _toml(value: object) -> str:
    match value:
        case bool():
            return str(value).lower()
        case str():
            return '"' + "".join(f"\\U{ord(c):08X}" for c in value) + '"'
        case list():
            return f"[{', '.join(map(_toml, value))}]"
        case dict():
            return "{" + ", ".join(f"{_toml(k)} = {_toml(v)}" for k, v in value.items()) + "}"
        case _:
            return str(value)


TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
VALUES = st.recursive(
    st.booleans()
    | st.integers()
    | st.integers(min_value=10**400, max_value=10**401)
    | st.floats()
    | TEXTS
    | st.sampled_from(["8 MiB", "7 days", "none", "fanout", "file:x", "memory:", "1e5 s", "9 kb"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=6,
)
PLACES = [
    "directory",
    "store.url",
    "listen.smp",
    "listen.resp.tls",
    "listen.resp.slow_timeout",
    "listen.resp.password",
    "smp.message_ttl",
    "admin.host",
    "admin.token",
    "journal.max_bytes",
    "log.level",
    "limits.turn_bytes",
    "limits.sessions",
    "domains",
    "domains.d",
    "domains.d.mode",
    "domains.d.apps",
    "domains.d.subscriptions",
    "domains.d.subscriptions.x",
    "domains.d.max_bytes",
]


@HERE
@given(place=st.sampled_from(PLACES), value=VALUES)
def test_any_value_at_any_place_is_a_configuration_or_an_error(
    load: Load, place: str, value: object
) -> None:
    text = f"{place} = {_toml(value)}"
    tomllib.loads(text)
    with suppress(ConfigError):
        for entry in load(text).entries:
            tomllib.loads(f"{entry.key} = {entry.value}" if entry.value is not None else "")


VARIABLES = st.sampled_from(
    ["HEADGATE_" + place.replace(".", "__").upper() for place in PLACES]
) | st.text(st.characters(min_codepoint=32, max_codepoint=126)).map("HEADGATE_".__add__)


@HERE
@given(name=VARIABLES, text=st.text(max_size=12))
def test_any_variable_is_a_configuration_or_an_error(load: Load, name: str, text: str) -> None:
    with suppress(ConfigError):
        load("[domains.d]", **{name: text})


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("64kb", 64_000),
        ("64 KiB", 65_536),
        ("8 MiB", 8 * MiB),
        ("1.5 GiB", 1536 * MiB),
        ("2TB", 2 * 10**12),
        ("17", 17),
        ("17 B", 17),
        (17, 17),
        (0, 0),
    ],
)
def test_sizes_are_written_as_people_write_them(text: object, count: int) -> None:
    assert Size().read(text) == count


@pytest.mark.parametrize("text", ["", "MiB", "-1", -1, 1.5, "0.3 B", "8 MiB 2", "9" * 30, None])
def test_other_texts_are_no_sizes(text: object) -> None:
    with pytest.raises(ValueError):  # noqa: PT011  there is nothing to say here
        Size().read(text)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("500ms", 0.5),
        ("60s", 60),
        ("1 minute", 60),
        ("7 days", 604_800),
        ("1w", 604_800),
        ("1.5h", 5400),
        ("3", 3),
        (2, 2),
        (0.25, 0.25),
    ],
)
def test_durations_are_written_as_people_write_them(text: object, seconds: float) -> None:
    assert Duration().read(text) == seconds


@given(st.integers(0, 2**53))
def test_a_size_is_shown_as_it_is_read(count: int) -> None:
    assert Size().read(tomllib.loads(f"a = {Size().show(count)}")["a"]) == count


@given(st.floats(0, 1e9) | st.integers(0, 10**6).map(float))
def test_a_duration_is_shown_as_it_is_read(seconds: float) -> None:
    shown = tomllib.loads(f"a = {Duration().show(seconds)}")["a"]
    assert Duration().read(shown) == pytest.approx(seconds)


@pytest.mark.parametrize("host", ["127.0.0.1", "127.8.8.8", "::1", "localhost"])
def test_loopback_is_this_machine(host: str) -> None:
    assert is_loopback(host)


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "10.0.0.1", "example.org", "localhost.org"])
def test_everything_else_is_beyond_loopback(host: str) -> None:
    assert not is_loopback(host)


def test_every_limit_and_every_bound_of_a_domain_can_be_configured() -> None:
    limits = KNOWN["limits"]
    assert isinstance(limits, Group)
    assert set(limits.members) == {f.name for f in fields(Limits)} == set(attribute_docs(Limits))
    # A marker for the quota is a matter of the SMP wire, and of its own domain.
    bounds = {f.name for f in fields(Domain)} - {"name", "filters", "marks_quota"}
    assert set(DOMAIN_KINDS) - {"subscriptions"} == bounds


def test_the_budget_of_publishers_is_128_mib_unless_told_otherwise(load: Load) -> None:
    """S002-59."""
    for text, expected in (
        ("", 128 * MiB),
        ("publish_buffer_limit = '1 MiB'", MiB),
        ("[limits]\nbudget_bytes = '2 MiB'", 2 * MiB),
        ("publish_buffer_limit = '1 MiB'\n[limits]\nbudget_bytes = '2 MiB'", MiB),
    ):
        config = load(f"[listen.resp]\n{text}")
        assert config.listen.resp is not None
        assert config.listen.resp.mailboxes(config.limits)[0] == expected
    assert Limits().budget_bytes == 128 * MiB


def test_the_queues_of_smp_have_a_domain_of_their_own(load: Load) -> None:
    domain = load("[smp]\nqueue_quota = 7\nmessage_ttl = '1 day'").all_domains()["smp"]
    assert (domain.mode, domain.max_messages, domain.message_ttl) == (
        Mode.EXCLUSIVE,
        7,
        86_400.0,
    )
    with pytest.raises(ConfigError, match="the domain of the SMP queues"):
        load('[domains."smp"]\nmode = "priority"')


# Clients of queues.


@pytest.mark.parametrize(
    "text",
    [
        'clients = { shop = "secret" }',
        '[listen.bmq.tls]\nclient_ca = "clients.crt"',
        "insecure = true",
    ],
)
def test_beyond_loopback_clients_show_who_they_are_or_everybody_may_come(
    load: Load, text: str
) -> None:
    bmq = load(f'[listen.bmq]\nhost = "0.0.0.0"\n{text}').listen.bmq
    assert bmq is not None
    assert bmq.host == "0.0.0.0"


def test_what_is_open_or_unencrypted_beyond_loopback_is_a_warning(load: Load) -> None:
    beyond = '[listen.bmq]\nhost = "0.0.0.0"\n'
    assert "may read and write every queue" in load(beyond + "insecure = true").warnings[0]
    assert "as they are" in load(beyond + 'clients = { shop = "secret" }').warnings[0]
    assert load('[listen.bmq]\nclients = { shop = "secret" }').warnings == ()


def test_tokens_are_read_from_files_and_shown_nowhere(load: Load, tmp_path: Path) -> None:
    (tmp_path / "shop.token").write_text("sesame\n")
    config = load('[listen.bmq.clients]\nshop = "file:shop.token"\nbilling = "sesame too"')
    assert config.listen.bmq is not None
    assert config.listen.bmq.clients["shop"].reveal() == "sesame"
    [entry] = [e for e in config.entries if e.key == "listen.bmq.clients"]
    assert entry.value == '{ "shop" = "file:shop.token", "billing" = "(hidden)" }'
    assert "sesame" not in repr(config)
    with pytest.raises(ConfigError, match=r"listen\.bmq\.clients\.shop: cannot read"):
        load('[listen.bmq.clients]\nshop = "file:nowhere"')


def test_a_list_of_a_domain_names_clients_or_all(load: Load) -> None:
    clients = '[listen.bmq]\nclients = { shop = "secret" }\n'
    config = load(clients + '[domains.x]\nreaders = ["shop"]\nwriters = []\ncreators = "all"')
    domain = config.domains["x"]
    assert (domain.readers, domain.writers, domain.creators) == (("shop",), (), None)
    assert config.warnings == ()
    [warning] = load(clients + '[domains.x]\nreaders = ["ship"]').warnings
    assert warning == 'domains.x.readers: no client is named "ship"; did you mean shop?'
    users = '[listen.resp]\nport = 0\n[listen.resp.users]\nann = "on >pw"\n'
    assert load(clients + users + '[domains.x]\nreaders = ["ann", "default"]').warnings == ()


def test_streams_of_a_domain(load: Load) -> None:
    jobs = load(STREAMS).domains["jobs"]
    assert jobs.streams == ("taskiq", "mail.*")
    assert jobs.consumer_grace is None
    assert jobs.body_field == "payload"
    assert jobs.fields == {"zip": PropertyType.STRING, "amount": PropertyType.INT64}
    assert load("[domains.d]").domains["d"].consumer_grace == 30.0
    assert load('[domains.d]\ngroup = "team"').domains["d"].app_of("team") == ""


@pytest.mark.parametrize(
    ("line", "text"),
    [
        ('groups = "some"', 'groups: "some" is not one of "fixed", "open"'),
        ('groups = "open"', "only a fanout domain has open groups"),
        ('mode = "broadcast"\nkeep_messages = 1', "a broadcast domain stores nothing"),
        ('dead_letter = "x"', 'there is no domain "x"'),
        ('dead_letter = "d/q"', 'they would come back to the domain "d"'),
        ('dead_letter = "n"\n[domains.n]\nmode = "broadcast"', 'the domain "n" stores nothing'),
        ('dead_letter = "a b"', "is not a domain, DOMAIN/QUEUE, or nothing"),
        ('fields = { zip = "text" }', "is not a table of types by name"),
        ("fields = 5", "is not a table of types by name"),
        ('consumer_grace = "soon"', "is not a duration"),
        ('group = ""', "is not the name of a group"),
    ],
)
def test_wrong_settings_of_streams(load: Load, line: str, text: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(text)):
        load(f"[domains.d]\n{line}")


def test_open_groups_history_and_dead_letters(load: Load) -> None:
    config = load(
        '[domains.log]\nmode = "fanout"\ngroups = "open"\nmax_groups = 4\ngroup_idle = "1 day"\n'
        'keep_messages = 10\nkeep_time = "1 h"\ndead_letter = "dead/all"\n[domains.dead]'
    )
    log = config.domains["log"]
    assert (log.apps, log.max_groups, log.group_idle) == ((), 4, 86_400.0)
    assert (log.keep_messages, log.keep_time, log.keeps) == (10, 3600.0, True)
    assert log.dead_letters_of(QueueId(b"bmq://log/q")) == ("dead", b"bmq://dead/all")
    by_name = Domain.priority("d", dead_letter="dead")
    assert by_name.dead_letters_of(QueueId(b"bmq://d/q")) == ("dead", b"bmq://dead/q")
    unlimited = '[domains.log]\nmode = "fanout"\ngroups = "open"\nmessage_ttl = "none"'
    assert "give them a time" in load(unlimited).warnings[0]


def test_a_stream_of_two_domains_is_warned_of(load: Load) -> None:
    """Check 17: the first in the file has it."""
    config = load('[domains.a]\nstreams = ["x"]\n[domains.b]\nstreams = ["x"]')
    assert config.warnings == ('domains.b.streams: "x" is a stream of the domain a already',)


def test_channels_and_bodies_of_a_domain(load: Load) -> None:
    text = """
[domains.orders]
properties = { amount = "total.amount:int64" }
envelope = "faststream"
speaks = "orders.{kind}"
speaks_as = "json"
[[domains.orders.feeds]]
channels = ["orders.*", "returns"]
queue = "incoming"
id = "event.id"
when_full = "drop"
kinds = ["plain", "sharded"]
"""
    orders = load(text).domains["orders"]
    assert orders.properties["amount"].steps == ("total", "amount")
    [feed] = orders.feeds
    assert (feed.channels, feed.queue, feed.when_full) == (
        ("orders.*", "returns"),
        "incoming",
        "drop",
    )
    assert feed.id is not None
    assert (orders.speaks, orders.speaks_as) == ("orders.{kind}", "json")
    shown = Feeds().show(orders.feeds)
    assert Feeds().parse(shown) == orders.feeds


@pytest.mark.parametrize(
    "line",
    [
        'properties = { a = "a..b" }',
        'properties = { a = "a:float" }',
        'envelope = "none"',
        "feeds = [{}]",
        "feeds = [{ channels = [] }]",
        'feeds = [{ channels = ["a"], more = 1 }]',
        'feeds = [{ channels = ["a"], kinds = ["all"] }]',
        'feeds = [{ channels = ["a"], when_full = "sometimes" }]',
        'feeds = [{ channels = ["a"], queue = "a b" }]',
    ],
)
def test_wrong_settings_of_channels_and_bodies(load: Load, line: str) -> None:
    with pytest.raises(ConfigError, match=line.partition(" ")[0]):
        load(f"[domains.orders]\n{line}")


def test_bound_channels_need_one_process(load: Load) -> None:
    with pytest.raises(ConfigError, match="need one process"):
        load('[workers]\ncount = 2\n[listen.resp]\n[domains.a]\nspeaks = "x"')
