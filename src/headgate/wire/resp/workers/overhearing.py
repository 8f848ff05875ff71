"""MONITOR over workers: a listener on one worker gets the commands of all."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headgate.core.model.ids import SessionId
from headgate.wire.resp.session import RespSession
from headgate.wire.resp.workers import link_frames as frames

if TYPE_CHECKING:
    from headgate.wire.resp.workers.link_session import LinkSession
    from headgate.wire.resp.workers.relay import Relay


class LinkMonitor:
    """Stands for the monitors of another worker among those of this one."""

    def __init__(self, link: LinkSession) -> None:
        self._link = link
        self.outlet = self

    def deliver(self, line: bytes, messages: int) -> None:
        self._link.port.write(frames.overheard(line))


class Overhearing:
    """The listeners of the workers. Owned by the relay."""

    def __init__(self, relay: Relay) -> None:
        self._relay = relay
        self._is_announced = False
        """Whether the other workers know that there are listeners here."""
        self._beginning: set[SessionId] = set()
        """Sessions that will listen once all workers know."""

    def begin(self, session: SessionId) -> None:
        """Announce that a session here is about to listen."""
        self._beginning.add(session)
        self._announce(True)

    def settle(self) -> None:
        """Tell the other workers if the last listener here is gone."""
        hub = self._relay.hub
        here = any(type(each) is RespSession for each in hub.monitors.values())
        self._beginning = {
            id for id in self._beginning if id in hub.sessions and hub.sessions[id].pending
        }
        if self._is_announced and not here and not self._beginning:
            self._announce(False)

    def _announce(self, is_listening: bool) -> None:
        if self._is_announced != is_listening:
            self._is_announced = is_listening
            for link in self._relay.links.values():
                link.port.write(frames.listen(is_listening))

    def join(self, link: LinkSession) -> None:
        if self._is_announced:
            link.port.write(frames.listen(True))

    def leave(self, link: LinkSession) -> None:
        self._relay.hub.monitors.pop(link.id, None)

    def listening(self, link: LinkSession, is_listening: bool) -> None:
        """Note that another worker has listeners, or has none any more."""
        if is_listening:
            self._relay.hub.monitors[link.id] = LinkMonitor(link)
        else:
            self._relay.hub.monitors.pop(link.id, None)

    def heard(self, line: bytes) -> None:
        """Report a command of another worker to the listeners here."""
        for each in list(self._relay.hub.monitors.values()):
            if type(each) is RespSession:
                each.outlet.deliver(line, 1)
