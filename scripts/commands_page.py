"""Print docs/commands.md, the help of every command: python scripts/commands_page.py > docs/commands.md."""

from collections.abc import Iterator

import click

from hiertree.pipelines.cli.application import commands

INTRODUCTION = """# Commands

What `hiertree COMMAND --help` says. A wrong option or input ends with one line and status 2; an interrupted command
with status 130. A command that writes says at the end what it has written and what usually comes next; `--quiet`, or
`HIERTREE_PROGRESS=0`, leaves out that and the progress. `--json`, where there is one, prints for machines.

Completion by the Tab key, in bash (or `zsh_source`, `fish_source` for the other shells):

```sh
eval "$(_HIERTREE_COMPLETE=bash_source hiertree)"
```
"""


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
    with click.Context(command, info_name=name, terminal_width=100, max_content_width=100) as context:
        return command.get_help(context)


print(INTRODUCTION)
print("\n\n".join(f"## `{name}`\n\n```text\n{help_text(name, found)}\n```" for name, found in every_command(commands)))
