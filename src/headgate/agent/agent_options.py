"""Options for opening an agent."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Literal, TypeAlias

from headgate.agent.clock import AgentClock, SystemClock
from headgate.agent.engine.engine import NOT_TOGETHER
from headgate.agent.engine.settings import MESSAGING
from headgate.agent.model import SessionMode
from headgate.agent.shell_settings import ShellSettings
from headgate.agent.slot_sessions import ConnectLink
from headgate.client.smp.link import Link
from headgate.client.smp.timing import BACKGROUND
from headgate.core.model.value import value
from headgate.errors import ConfigError
from headgate.wire.smp.codec.router_address import RouterAddress

SessionWord: TypeAlias = Literal["shared", "entity"]


@value
class AgentOptions:
    """The options of one agent."""

    routers: tuple[RouterAddress, ...] = ()
    services: bool = False
    mode: SessionMode = SessionMode.SHARED
    settings: ShellSettings = ShellSettings()
    on_error: Callable[[Exception], None] | None = None
    subscribe: bool = True
    clock: AgentClock = SystemClock()
    connect: ConnectLink = Link.connect
    draw: Callable[[int], bytes] = secrets.token_bytes
    """A simulated world replaces time, links and randomness."""


def options_of(
    addresses: Iterable[str | RouterAddress],
    services: bool,
    session: SessionWord,
    repair: bool,
    seconds: float,
    on_error: Callable[[Exception], None] | None,
    settings: ShellSettings | None,
) -> AgentOptions:
    """The options that the arguments of `Agent.open` mean. Raises `ConfigError` and `Malformed`."""
    parsed = [parsed_router(each) for each in addresses]
    mode = session_mode(session)
    if services and mode is SessionMode.ENTITY:
        # S004-15: refused before anything is opened.
        raise ConfigError(NOT_TOGETHER)
    if settings is None:
        settings = ShellSettings(
            replace(MESSAGING, repair=repair), replace(BACKGROUND, answer_seconds=seconds)
        )
    return AgentOptions(tuple(parsed), services, mode, settings, on_error)


def parsed_router(address: str | RouterAddress) -> RouterAddress:
    """The address of a router, given as such or as text. Raises `Malformed`."""
    return RouterAddress.parse(address) if isinstance(address, str) else address


def session_mode(session: SessionWord) -> SessionMode:
    """The session mode of this name. Raises `ConfigError`."""
    try:
        return SessionMode(session)
    except ValueError:
        raise ConfigError(f"session is 'shared' or 'entity', not {session!r}") from None
