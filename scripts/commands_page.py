"""The help of every command, as the documentation's site shows it below docs/commands.md."""

from collections.abc import Iterator

import click

from hiertree.pipelines.cli.application import commands


def every_command(group: click.Group, above: str = "hiertree") -> Iterator[tuple[str, click.Command]]:
    """Full names and commands, depth first, in the order of work."""
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        if isinstance(command, click.Group):
            if command.invoke_without_command:
                yield f"{above} {name}", command
            yield from every_command(command, f"{above} {name}")
        else:
            yield f"{above} {name}", command


def help_text(name: str, command: click.Command) -> str:
    """The help of a command, as the terminal shows it."""
    settings = {**commands.context_settings, "terminal_width": 84, "max_content_width": 84}
    with click.Context(command, info_name=name, **settings) as context:
        return command.get_help(context)


def commands_page() -> str:
    """A heading and a block of text for each command."""
    return "\n\n".join(
        f"## `{name}`\n\n```text\n{help_text(name, command)}\n```" for name, command in every_command(commands)
    )
