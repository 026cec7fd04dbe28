"""How commands end and what they print, run in this process."""

from __future__ import annotations

import io
import shlex
from contextlib import redirect_stdout

import pytest

from hiertree.pipelines.cli.application import main


def status_of(*words: object) -> int:
    """The status with which the command line ends."""
    with pytest.raises(SystemExit) as ended:
        main([str(word) for word in words])
    return int(ended.value.code or 0)


def printed_by(command: str) -> str:
    """What a command that ends well prints."""
    name, *arguments = shlex.split(command, comments=True)
    assert name == "hiertree"
    with redirect_stdout(io.StringIO()) as printed:
        assert status_of(*arguments) == 0
    return "\n".join(line.rstrip() for line in printed.getvalue().rstrip().splitlines())
