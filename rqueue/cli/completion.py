"""`rqueue completion`: what a shell needs to complete our words."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class

NAME = "rqueue"


@click.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def completion(ctx: click.Context, shell: str) -> None:
    """Print the completion script of a shell.

    \b
    bash  eval "$(rqueue completion bash)"            in ~/.bashrc
    zsh   eval "$(rqueue completion zsh)"             in ~/.zshrc
    fish  rqueue completion fish | source             in ~/.config/fish/config.fish
    """
    kind = get_completion_class(shell)
    if kind is None:
        raise click.UsageError(f"{shell} is not a shell that can be completed for")
    script = kind(ctx.find_root().command, {}, NAME, f"_{NAME.upper()}_COMPLETE")
    click.echo(script.source())
