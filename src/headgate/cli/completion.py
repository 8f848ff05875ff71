"""``headgate completion``: what makes a shell complete commands and options."""

from __future__ import annotations

import os
from pathlib import Path

import click

from headgate.errors import ConfigError

SHELLS = ("bash", "zsh", "fish")
PLACES = {
    "bash": ("XDG_DATA_HOME", ".local/share", "bash-completion/completions/headgate"),
    "zsh": ("XDG_DATA_HOME", ".local/share", "zsh/site-functions/_headgate"),
    "fish": ("XDG_CONFIG_HOME", ".config", "fish/completions/headgate.fish"),
}
"""Of each shell: the variable with a folder, that folder below the home, and the file in it."""

NEXT = {
    "bash": "it counts in new shells, where bash-completion is installed",
    "zsh": "it counts in new shells, if this is above compinit in ~/.zshrc: fpath+=({folder})",
    "fish": "it counts in new shells",
}


@click.command()
@click.argument("shell", type=click.Choice(SHELLS))
@click.option("--install", is_flag=True, help="Write it to where the shell looks, for this user.")
def completion(shell: str, install: bool) -> None:
    """Have a shell complete commands and options.

    Prints what the shell has to read.

    \b
    Example:
      headgate completion bash --install
      source <(headgate completion bash)
    """
    text = script(shell)
    if not install:
        click.echo(text, nl=False)
        return
    path = place(shell)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    except OSError as error:
        raise ConfigError(f"{path} cannot be written: {error.strerror}") from None
    click.echo(str(path))
    click.echo(NEXT[shell].format(folder=path.parent), err=True)


def script(shell: str) -> str:
    """The script for the shell. It asks the program at each TAB."""
    from click.shell_completion import get_completion_class

    from headgate.cli import cli

    kind = get_completion_class(shell)
    assert kind is not None, "click knows these shells"
    asker = kind(cli, {}, "headgate", "_HEADGATE_COMPLETE")
    return (asker.source_template % asker.source_vars()).strip() + "\n"


def place(shell: str) -> Path:
    """Where the shell looks, for whoever runs this."""
    variable, below, file = PLACES[shell]
    folder = os.environ.get(variable) or str(Path(os.environ.get("HOME", "/")) / below)
    return Path(folder) / file
