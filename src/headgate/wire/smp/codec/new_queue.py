"""NEW, the command that makes a queue, in the forms of all versions."""

from __future__ import annotations

from typing import ClassVar, Final

from headgate.core.model.parties import Purpose
from headgate.core.model.value import value
from headgate.errors import Malformed
from headgate.wire.smp.codec.encoding import (
    FieldReader,
    boolean,
    large,
    maybe,
    maybe_string,
    string,
)

PASSWORD: Final = bytes(n for n in range(256) if chr(n).isprintable() and chr(n) not in " @:/")
"""The characters of a password: those that an address can hold."""


@value
class NKey:
    """Add a notifier to a queue."""

    tag: ClassVar = b"NKEY"
    key: bytes
    dh: bytes


@value
class NewLink:
    """The link that a queue has from the start."""

    sender: bytes
    """The id for the sender, which the client derives from the correlation id."""
    fixed: bytes
    user: bytes
    id: bytes | None = None
    """Chosen by the client for a contact's queue, otherwise by the router."""


@value
class New:
    """Make a queue."""

    tag: ClassVar = b"NEW"
    key: bytes
    dh: bytes
    password: bytes | None
    subscribe: bool
    purpose: Purpose | None = None
    link: NewLink | None = None
    notifier: NKey | None = None
    """The keys of an NKEY."""


def read_password(reader: FieldReader) -> bytes:
    password = reader.string()
    if password.translate(None, PASSWORD):
        raise Malformed("a character that no password has")
    return password


def _old_password(reader: FieldReader) -> bytes | None:
    """Before version 9 a letter announces a password; without one there is nothing."""
    mark = reader.mark()
    if reader.byte() == 0x41:  # A
        return read_password(reader)
    reader.rewind(mark)
    return None


def read_notifier(reader: FieldReader) -> NKey:
    return NKey(reader.queue_key(), reader.dh_key())


def _wanted(reader: FieldReader) -> tuple[Purpose, NewLink | None]:
    purpose = reader.purpose()
    if purpose is Purpose.MESSAGING:
        return purpose, reader.maybe(_new_link)
    return purpose, reader.maybe(_contact_link)


def _new_link(reader: FieldReader, link: bytes | None = None) -> NewLink:
    return NewLink(reader.string(), reader.large(), reader.large(), link)


def _contact_link(reader: FieldReader) -> NewLink:
    return _new_link(reader, reader.string())


def read_new(reader: FieldReader, version: int) -> New:
    key = reader.queue_key()
    dh = reader.dh_key()
    password = _old_password(reader) if version < 9 else reader.maybe(read_password)
    mode = reader.char()
    if mode not in (b"S", b"C"):
        raise Malformed("neither to subscribe nor to create only")
    subscribe = mode == b"S"
    if version < 9:
        return New(key, dh, password, subscribe)
    if version < 15:
        secured = Purpose.MESSAGING if reader.boolean() else Purpose.CONTACT
        return New(key, dh, password, subscribe, secured)
    purpose, link = reader.maybe(_wanted) or (None, None)
    notifier = reader.maybe(read_notifier) if version >= 17 else None
    return New(key, dh, password, subscribe, purpose, link, notifier)


def new_parameters(new: New, version: int) -> bytes:
    # WIRE-13, WIRE-14, WIRE-15, WIRE-16: each version has more fields after the keys.
    keys = string(new.key) + string(new.dh)
    mode = b"S" if new.subscribe else b"C"
    if version < 9:
        return keys + (b"" if new.password is None else b"A" + string(new.password)) + mode
    common = keys + maybe_string(new.password) + mode
    if version < 15:
        return common + boolean(new.purpose is Purpose.MESSAGING)
    wanted = None
    if new.purpose is not None:
        wanted = new.purpose.value.encode() + maybe(_link_parameters(new.link))
    if version < 17:
        return common + maybe(wanted)
    notifier = None if new.notifier is None else notifier_parameters(new.notifier)
    return common + maybe(wanted) + maybe(notifier)


def notifier_parameters(notifier: NKey) -> bytes:
    return string(notifier.key) + string(notifier.dh)


def _link_parameters(link: NewLink | None) -> bytes | None:
    if link is None:
        return None
    chosen = b"" if link.id is None else string(link.id)
    return chosen + string(link.sender) + large(link.fixed) + large(link.user)
