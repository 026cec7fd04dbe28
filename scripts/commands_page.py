"""Print docs/commands.md, the help of every command: python scripts/commands_page.py > docs/commands.md."""

from collections.abc import Iterator

import click

from hiertree.pipelines.cli.application import commands

INTRODUCTION = """# Commands

What `hiertree COMMAND --help` says. A wrong option or input ends with one line and status 2; an interrupted command
with status 130. `HIERTREE_PROGRESS=0` silences progress.
"""


def every_command(group: click.Group, above: str = "hiertree") -> Iterator[tuple[str, click.Command]]:
    """Full names and commands, depth first, in alphabetical order."""
    context = click.Context(group)
    for name in sorted(group.list_commands(context)):
        command = group.get_command(context, name)
        if isinstance(command, click.Group):
            if command.invoke_without_command:
                yield f"{above} {name}", command
            yield from every_command(command, f"{above} {name}")
        else:
            yield f"{above} {name}", command


def help_text(name: str, command: click.Command) -> str:
    """The help of a command, as the terminal shows it."""
    with click.Context(command, info_name=name, terminal_width=100, max_content_width=100) as context:
        return command.get_help(context)


print(INTRODUCTION)
print("\n\n".join(f"## `{name}`\n\n```text\n{help_text(name, found)}\n```" for name, found in every_command(commands)))
