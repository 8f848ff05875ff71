"""A group of commands that are imported when they are called.

Their names and short helps are in a map, so that ``--help`` and the TAB of a shell import none of
them; their options, for a TAB, in a table (`completing`). Tests compare both with the commands.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from difflib import get_close_matches
from importlib import import_module
from typing import TYPE_CHECKING, Any, NoReturn

import click

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

COMPLETING = "_HEADGATE_COMPLETE"
"""The variable that is set when a shell asks for completions."""

Lazy = Mapping[str, tuple[str, str]]
"""Names of commands; of each, the module that has it under this name (or MODULE:NAME), and its
short help."""


class LazyGroup(click.Group):
    """A group that imports a command when it is called, so that each starts fast.

    `sections` are titles for ``--help`` and the commands below each. `hidden` are old names that
    still work, and `hints` what somebody means who types what is no command here.
    """

    def __init__(
        self,
        *args: Any,  # noqa: ANN401
        lazy: Lazy | None = None,
        sections: Mapping[str, Lazy] | None = None,
        hidden: Mapping[str, str] | None = None,
        hints: Mapping[str, str] | None = None,
        **kwargs: Any,  # noqa: ANN401
    ) -> None:
        super().__init__(*args, **kwargs)
        self.sections = sections or {"Commands": lazy or {}}
        self.lazy = {name: entry for each in self.sections.values() for name, entry in each.items()}
        self.hidden_names = hidden or {}
        """Old names, and the commands that they stand for."""
        self._hints = hints or {}

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self.lazy)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        name = self.hidden_names.get(cmd_name, cmd_name)
        if name not in self.lazy:
            return None
        if COMPLETING in os.environ and (found := _shadow(ctx, name)) is not None:
            return found
        module, _, attribute = self.lazy[name][0].partition(":")
        command: click.Command = getattr(import_module(module), attribute or name.replace("-", "_"))
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        try:
            return super().resolve_command(ctx, args)
        except click.UsageError:
            self._refuse(ctx, args[0])

    def _refuse(self, ctx: click.Context, name: str) -> NoReturn:
        near = self._hints.get(name) or next(iter(get_close_matches(name, self.lazy, n=1)), None)
        hint = f" Did you mean {near!r}?" if near else ""
        raise click.UsageError(f"No such command {name!r}.{hint}", ctx)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        longest = max(map(len, self.lazy), default=0)
        for title, lazy in self.sections.items():
            with formatter.section(title):
                formatter.write_dl([(n.ljust(longest), text) for n, (_, text) in lazy.items()])

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        from click.shell_completion import CompletionItem  # only for a shell that completes

        names = [
            CompletionItem(name, help=text)
            for name, (_, text) in self.lazy.items()
            if name.startswith(incomplete)
        ]
        return names + click.Command.shell_complete(self, ctx, incomplete)


def _shadow(ctx: click.Context, name: str) -> click.Command | None:
    """A command of the group as a shell completes it, without importing it."""
    from headgate.cli.completing import shadow

    return shadow(" ".join([*ctx.command_path.split()[1:], name]))
