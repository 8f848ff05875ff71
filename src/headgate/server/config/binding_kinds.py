"""How what is in bodies is written, and which channels feed a domain."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import ClassVar

from headgate.core.model.binding import FEEDS_MAX, KINDS_FED, WHEN_FULL, ChannelFeed
from headgate.core.model.body_paths import PATHS_MAX, BodyPath, read_path
from headgate.server.config.kinds import Choice, Kind, Text, Texts, quoted, toml_value


class Paths(Kind):
    """Paths in a JSON body, by the names of properties."""

    form = (
        "a table of paths in a JSON body by the names of properties, such as"
        f' {{ amount = "order.lines[0].amount:int64" }}, at most {PATHS_MAX}'
    )

    def read(self, raw: object) -> dict[str, BodyPath]:
        if not isinstance(raw, dict) or len(raw) > PATHS_MAX:
            raise ValueError
        return {Text().read(name): read_path(Text().read(path)) for name, path in raw.items()}

    def parse(self, text: str) -> dict[str, BodyPath]:
        return self.read(toml_value(text))

    def show(self, value: Mapping[str, BodyPath]) -> str:
        inside = ", ".join(f"{quoted(name)} = {quoted(p.text)}" for name, p in value.items())
        return f"{{ {inside} }}" if inside else "{}"


class Feeds(Kind):
    """Channels that feed a domain."""

    form = (
        'a list of tables such as { channels = ["orders.*"], queue = "incoming" }; further keys are'
        f" channel_property, properties, id, when_full and kinds; at most {FEEDS_MAX}"
    )
    kinds: ClassVar[Mapping[str, Kind]] = {
        "channels": Texts(),
        "queue": Text(pattern=r"[-a-zA-Z0-9_~.]{0,64}"),
        "channel_property": Text(pattern=r"[^\x00-\x1f\x7f\ud800-\udfff]{0,255}"),
        "properties": Paths(),
        "id": Text(),
        "when_full": Choice(*WHEN_FULL),
        "kinds": Texts(),
    }

    def read(self, raw: object) -> tuple[ChannelFeed, ...]:
        if not isinstance(raw, list) or len(raw) > FEEDS_MAX:
            raise ValueError
        return tuple(map(self._feed, raw))

    def _feed(self, raw: object) -> ChannelFeed:
        if not isinstance(raw, dict) or not raw.keys() <= self.kinds.keys():
            raise ValueError
        values = {name: self.kinds[name].read(value) for name, value in raw.items()}
        if "id" in values:
            values["id"] = read_path(values["id"])
        if not 0 < len(values.get("channels", ())) <= FEEDS_MAX:
            raise ValueError
        if not {*values.get("kinds", KINDS_FED)} <= {*KINDS_FED}:
            raise ValueError
        return ChannelFeed(**values)

    def parse(self, text: str) -> tuple[ChannelFeed, ...]:
        return self.read(toml_value(text))

    def show(self, value: Iterable[ChannelFeed]) -> str:
        return "[{}]".format(", ".join(map(self._shown, value)))

    def _shown(self, feed: ChannelFeed) -> str:
        parts = [
            f"{name} = {kind.show(getattr(feed, name))}"
            for name, kind in self.kinds.items()
            if name != "id"
        ]
        if feed.id is not None:
            parts.append(f"id = {quoted(feed.id.text)}")
        return "{{ {} }}".format(", ".join(parts))
