"""Users and their rights: to run commands, to use keys, to use channels.

Rules are written as in Redis. A request to change a user is applied to a copy of its rules, which
then replaces the old ones: a bad rule changes nothing, and every session of that user is under the
new rules at once, since it refers to the user and not to the rules.

The last rule that names a command decides.
"""

from __future__ import annotations

import hmac
import re
from collections.abc import Callable, Container, Sequence
from hashlib import sha256

from headgate.core.model.glob import Glob
from headgate.core.model.limits import Limits
from headgate.errors import LimitReached, Refused

DEFAULT_USER = b"default"
"""The user of a session without authentication, if it needs no password."""

ALL = b"*"
DIGEST = re.compile(rb"[0-9a-f]{64}")
UNWANTED = re.compile(rb"[\s\0]")
"""Characters that would break a list of rules separated by blanks."""

SYNTAX = "Syntax error"
UNKNOWN = "Unknown command or category name in ACL"
NO_SUCH_PASSWORD = "The password you are trying to remove from the user does not exist"
BAD_DIGEST = (
    "The password hash must be exactly 64 characters and contain only lowercase hexadecimal"
    " characters"
)


SLOW_STEPS = 6
"""Cost of a pattern with classes between its stars, for which a name has to be searched."""


class AccessError(Refused):
    """A user or a rule that is not possible; nothing was changed."""


class Patterns:
    """The keys or channels that may be used: all, or those that match a pattern."""

    __slots__ = ("globs", "is_all", "mark", "steps", "whole")

    def __init__(self, mark: bytes, whole: str) -> None:
        self.mark = mark
        self.whole = whole
        """The names that the patterns are for: keys, or channels."""
        self.is_all = False
        self.globs: dict[bytes, Glob] = {}
        self.steps = 0
        """Cost of comparing one name with all of them, about, in microseconds."""

    def copy(self) -> Patterns:
        copy = Patterns(self.mark, self.whole)
        copy.is_all, copy.globs, copy.steps = self.is_all, self.globs.copy(), self.steps
        return copy

    def add(self, pattern: bytes) -> None:
        if pattern == ALL:
            self.set(True)
            return
        if self.is_all:
            listed = "patterns" if self.whole == "keys" else "channels"
            raise AccessError(
                f"Adding a pattern after the * pattern (or the 'all{self.whole}' flag) is not valid"
                f" and does not have any effect. Try 'reset{self.whole}' to start with an empty"
                f" list of {listed}"
            )
        if UNWANTED.search(pattern):
            raise AccessError(SYNTAX)
        if pattern not in self.globs:
            # Parsed here, one by one: the user's first command would wait for all of them.
            glob = self.globs[pattern] = Glob(pattern)
            self.steps += SLOW_STEPS if glob.weigh() else 1

    def set(self, is_all: bool) -> None:
        self.is_all = is_all
        self.globs.clear()
        self.steps = 0

    def match(self, name: bytes) -> bool:
        # RESP-77: names match by glob.
        return self.is_all or any(glob.matches(name) for glob in self.globs.values())

    def have(self, pattern: bytes) -> bool:
        """Whether this very pattern was allowed. Whether other patterns cover it is undecided in
        general, so Redis does not try."""
        # RESP-77: patterns match literally.
        return self.is_all or pattern in self.globs

    def cover(self, others: Patterns) -> bool:
        """Whether all that the others allow is allowed by the same patterns."""
        return self.is_all or (not others.is_all and others.globs.keys() <= self.globs.keys())

    def __bytes__(self) -> bytes:
        patterns = [ALL] if self.is_all else self.globs
        return b" ".join([self.mark + pattern for pattern in patterns])

    def __len__(self) -> int:
        return len(self.globs)


class Rules:
    """The rights of one user at one moment.

    A value: a change makes another one, so a command that is being checked sees either the old
    rights or the new.
    """

    def __init__(self) -> None:
        self.is_enabled = False
        """Whether clients may authenticate as this user; existing sessions are not affected."""
        self.needs_password = True
        self.passwords: dict[str, None] = {}
        """Their SHA-256 digests. Without any, a user that needs one cannot be used."""
        self.all_commands = False
        """Whether commands are allowed that no rule of `commands` names."""
        self.commands: dict[str, bool] = {}
        """``publish``, ``client|id`` or ``@pubsub``, in the order in which the rules came."""
        self.keys = Patterns(b"~", "keys")
        self.channels = Patterns(b"&", "channels")

    def copy(self) -> Rules:
        copy = Rules()
        copy.is_enabled, copy.needs_password = self.is_enabled, self.needs_password
        copy.passwords = self.passwords.copy()
        copy.all_commands, copy.commands = self.all_commands, self.commands.copy()
        copy.keys, copy.channels = self.keys.copy(), self.channels.copy()
        return copy

    # Single rules.

    def enable(self, is_enabled: bool) -> None:
        self.is_enabled = is_enabled

    def reset(self) -> None:
        self.enable(False)
        self.set_password_free(False)
        self.set_commands(False)
        self.keys.set(False)
        self.channels.set(False)

    def set_password_free(self, is_free: bool) -> None:
        self.needs_password = not is_free
        self.passwords.clear()

    def set_commands(self, are_allowed: bool) -> None:
        self.all_commands = are_allowed
        self.commands.clear()

    def rule(self, name: str, is_allowed: bool) -> None:
        """Allow or forbid a command with its subcommands, one subcommand, or a category."""
        if name == "@all":
            self.set_commands(is_allowed)
            return
        for over in [each for each in self.commands if each == name or each.startswith(name + "|")]:
            del self.commands[over]
        self.commands[name] = is_allowed

    def add_password(self, digest: str) -> None:
        self.passwords[digest] = None
        self.needs_password = True

    def remove_password(self, digest: str) -> None:
        if digest not in self.passwords:
            raise AccessError(NO_SUCH_PASSWORD)
        del self.passwords[digest]

    # Questions about the rules.

    @property
    def allow_everything(self) -> bool:
        return (
            self.all_commands
            and all(self.commands.values())
            and self.keys.is_all
            and self.channels.is_all
        )

    def allow_command(self, name: str, categories: tuple[str, ...]) -> bool:
        whole = name.partition("|")[0]
        for ruled, is_allowed in reversed(self.commands.items()):
            if ruled in (name, whole) or (ruled[0] == "@" and ruled[1:] in categories):
                return is_allowed
        return self.all_commands

    def accept(self, password: bytes) -> bool:
        if not self.is_enabled or not self.needs_password:
            return self.is_enabled
        given, found = _digest(password), False
        for digest in self.passwords:
            # All are compared, each as a whole: the time reveals nothing.
            found |= hmac.compare_digest(digest, given)
        return found

    @property
    def flags(self) -> tuple[str, ...]:
        return ("on" if self.is_enabled else "off", *(() if self.needs_password else ("nopass",)))

    @property
    def command_text(self) -> str:
        ruled = [("+" if is_allowed else "-") + name for name, is_allowed in self.commands.items()]
        return " ".join(["+@all" if self.all_commands else "-@all", *ruled])

    def __bytes__(self) -> bytes:
        """The rules as text that makes the same ones."""
        parts = [" ".join(self.flags).encode()]
        parts += [b"#" + digest.encode() for digest in self.passwords]
        if self.keys or self.keys.is_all:
            parts.append(bytes(self.keys))
        if not self.channels.is_all:
            parts.append(b"resetchannels")
        if self.channels or self.channels.is_all:
            parts.append(bytes(self.channels))
        return b" ".join([*parts, self.command_text.encode()])

    def __len__(self) -> int:
        return len(self.passwords) + len(self.commands) + len(self.keys) + len(self.channels)


class User:
    """A user and its present rules.

    Owned by `AccessControl`; sessions keep it from AUTH on. It is the same object for as long as
    the user exists.
    """

    __slots__ = ("has_lost_channels", "is_unrestricted", "name", "rules")

    def __init__(self, name: str, rules: Rules) -> None:
        self.name = name
        self.rules = rules
        self.take(rules)

    def take(self, rules: Rules) -> None:
        """Replace the rules."""
        self.has_lost_channels = not rules.channels.cover(self.rules.channels)
        """Whether the new rules allow fewer channels than the old. Otherwise no session is looked
        at: one that subscribed before it became this user keeps its subscriptions, as in Redis."""
        self.rules = rules
        self.is_unrestricted = rules.allow_everything
        """Computed in advance: a run of messages reads it each time."""

    def may_run(self, command: str, categories: tuple[str, ...]) -> bool:
        return self.rules.allow_command(command, categories)

    def may_use_key(self, key: bytes) -> bool:
        return self.rules.keys.match(key)

    def may_use_channel(self, channel: bytes) -> bool:
        return self.rules.channels.match(channel)

    def may_use_pattern(self, pattern: bytes) -> bool:
        return self.rules.channels.have(pattern)

    def __bytes__(self) -> bytes:
        """Its line in a list of users."""
        return b"user %b %b" % (self.name.encode(), bytes(self.rules))


class AccessControl:
    """All users by name.

    Shared by the sessions of the Redis wire; ACL commands change it. There is always a default
    user, which may do everything at first.
    """

    def __init__(self, password: str | None = None, limits: Limits | None = None) -> None:
        self._limits = limits or Limits()
        self._users: dict[bytes, User] = {}
        rules = (b"on", b"allcommands", b"allkeys", b"allchannels")
        self._default = self.set_user(DEFAULT_USER, rules)
        self.set_default_password(password)
        self._initial = self._default.rules.copy()
        """The rules of the default user, where a list has none for it."""

    @property
    def needs_password(self) -> bool:
        """Whether the default user has a password."""
        return self._default.rules.needs_password

    def entrant(self) -> User | None:
        """The user of a new session, before it authenticates."""
        rules = self._default.rules
        return self._default if rules.is_enabled and not rules.needs_password else None

    def authenticate(self, name: bytes, password: bytes) -> User | None:
        user = self._users.get(name)
        return user if user is not None and user.rules.accept(password) else None

    def get(self, name: bytes) -> User | None:
        return self._users.get(name)

    def users(self) -> list[User]:
        """The users in the order of their names."""
        return [self._users[name] for name in sorted(self._users)]

    def set_user(
        self, name: bytes, rules: Sequence[bytes], known: Container[str] = frozenset()
    ) -> User:
        """Make a user, or change one. `known` are the commands, subcommands and categories that
        rules may name, such as ``publish``, ``client|id`` and ``@pubsub``."""
        user = self._users.get(name) or self._new(name)
        draft = user.rules.copy()
        for rule in rules:
            try:
                _apply(draft, rule, known)
            except AccessError as bad:
                quoted = rule.decode(errors="surrogateescape")
                raise AccessError(f"Error in ACL SETUSER modifier '{quoted}': {bad}") from None
        if len(draft) > self._limits.rules_per_user:
            raise LimitReached("rules_per_user", self._limits.rules_per_user)
        user.take(draft)
        self._users[name] = user
        return user

    def load(self, text: bytes, source: str, known: Container[str]) -> list[User]:
        """Replace all users by those of a list; return those that are gone. An error in it changes
        nothing, and the exception lists all errors by their lines in the source."""
        drafts: dict[bytes, Rules] = {}
        wrong: list[str] = []
        for number, line in enumerate(text.split(b"\n"), 1):
            words = line.split()
            if not words:
                continue
            if words[0] != b"user" or len(words) < 2:
                wrong.append(
                    f"{source}:{number} should start with user keyword followed by the username."
                )
                continue
            name = words[1]
            if name in drafts:
                shown = name.decode(errors="surrogateescape")
                wrong.append(f"WARNING: Duplicate user '{shown}' found on line {number}.")
                continue
            drafts[name] = Rules()
            try:
                _checked_name(name)
                self._apply(drafts[name], words[2:], known)
            except (AccessError, LimitReached) as error:
                wrong.append(f"{source}:{number}: {error}.")
        if len(drafts.keys() | {DEFAULT_USER}) > self._limits.users:
            wrong.append(f"{LimitReached('users', self._limits.users)}.")
        if wrong:
            raise AccessError(" ".join(wrong))
        drafts.setdefault(DEFAULT_USER, self._initial.copy())
        gone = [user for name, user in self._users.items() if name not in drafts]
        users: dict[bytes, User] = {}
        for name, rules in drafts.items():
            user = users[name] = self._users.get(name) or User(name.decode(), rules)
            user.take(rules)
        self._users = users
        return gone

    def _apply(self, draft: Rules, rules: Sequence[bytes], known: Container[str]) -> None:
        """Apply the rules of a list: an error quotes a rule only if it cannot be a secret."""
        for rule in rules:
            try:
                _apply(draft, rule, known)
            except AccessError as bad:
                if str(bad) != UNKNOWN:
                    raise
                quoted = rule.decode(errors="surrogateescape")
                raise AccessError(f"Error in applying operation '{quoted}': {bad}") from None
        if len(draft) > self._limits.rules_per_user:
            raise LimitReached("rules_per_user", self._limits.rules_per_user)

    def __bytes__(self) -> bytes:
        """The list of all users, from which `load` makes the same ones."""
        return b"".join([b"%b\n" % bytes(user) for user in self.users()])

    def set_default_password(self, password: str | None) -> None:
        """Give the default user this password only, or none."""
        if password:
            secret = password.encode(errors="surrogateescape")
            self.set_user(DEFAULT_USER, [b"resetpass", b">" + secret])
        else:
            self.set_user(DEFAULT_USER, [b"nopass"])

    def delete_users(self, names: Sequence[bytes]) -> list[User]:
        """Remove these users; return those that existed."""
        if DEFAULT_USER in names:
            raise AccessError("The 'default' user cannot be removed")
        there = [name for name in dict.fromkeys(names) if name in self._users]
        return [self._users.pop(name) for name in there]

    def _new(self, name: bytes) -> User:
        """A user without rights, not added yet."""
        if len(self._users) >= self._limits.users:
            raise LimitReached("users", self._limits.users)
        return User(_checked_name(name), Rules())


WORDS: dict[bytes, Callable[[Rules], None]] = {
    b"on": lambda rules: rules.enable(True),
    b"off": lambda rules: rules.enable(False),
    b"nopass": lambda rules: rules.set_password_free(True),
    b"resetpass": lambda rules: rules.set_password_free(False),
    b"allcommands": lambda rules: rules.set_commands(True),
    b"nocommands": lambda rules: rules.set_commands(False),
    b"allkeys": lambda rules: rules.keys.set(True),
    b"resetkeys": lambda rules: rules.keys.set(False),
    b"allchannels": lambda rules: rules.channels.set(True),
    b"resetchannels": lambda rules: rules.channels.set(False),
    b"reset": Rules.reset,
    # Lists that Redis wrote have these, for a command that does not exist here.
    b"sanitize-payload": lambda rules: None,
    b"skip-sanitize-payload": lambda rules: None,
}

MARKS: dict[bytes, Callable[[Rules, bytes], None]] = {
    b">": lambda rules, text: rules.add_password(_digest(text)),
    b"<": lambda rules, text: rules.remove_password(_digest(text)),
    b"#": lambda rules, text: rules.add_password(_checked_digest(text)),
    b"!": lambda rules, text: rules.remove_password(_checked_digest(text)),
    b"~": lambda rules, text: rules.keys.add(text),
    b"&": lambda rules, text: rules.channels.add(text),
}


def _apply(rules: Rules, rule: bytes, known: Container[str]) -> None:
    mark, text = rule[:1], rule[1:]
    if mark in (b"+", b"-"):
        name = text.decode(errors="replace").lower()
        if name != "@all" and name not in known:
            raise AccessError(UNKNOWN)
        rules.rule(name, mark == b"+")
    elif mark in MARKS:
        MARKS[mark](rules, text)
    elif rule.lower() in WORDS:
        WORDS[rule.lower()](rules)
    else:
        raise AccessError(SYNTAX)


def _digest(password: bytes) -> str:
    return sha256(password).hexdigest()


def _checked_digest(text: bytes) -> str:
    if not DIGEST.fullmatch(text):
        raise AccessError(BAD_DIGEST)
    return text.decode()


def _checked_name(name: bytes) -> str:
    """The name of a new user. It will be in facts, which are text."""
    if UNWANTED.search(name):
        raise AccessError("Usernames can't contain spaces or null characters")
    try:
        return name.decode()
    except UnicodeDecodeError:
        raise AccessError("Usernames must be UTF-8") from None
