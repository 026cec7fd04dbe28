"""What commands print, run in this process."""

from __future__ import annotations

import io
import shlex
from contextlib import redirect_stdout

import pytest

from hiertree.pipelines.cli.application import main


def printed_by(command: str) -> str:
    """What a command that ends well prints."""
    name, *arguments = shlex.split(command, comments=True)
    assert name == "hiertree"
    with redirect_stdout(io.StringIO()) as printed, pytest.raises(SystemExit) as ended:
        main(arguments)
    assert not ended.value.code
    return "\n".join(line.rstrip() for line in printed.getvalue().rstrip().splitlines())
