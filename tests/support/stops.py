"""Commands that are killed before each of their file operations and given again.

The module is a program, too: a process that has imported what commands take seconds to import, and forks for each.
"""

from __future__ import annotations

import atexit
import hashlib
import json
import os
import shutil
import signal
import subprocess
import sys
import time
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple, NoReturn

_WRITING = {"os.rename", "os.remove", "os.mkdir", "os.rmdir", "os.truncate", "os.link", "os.symlink"}
_LIMIT = 300.0  # seconds for a command
_TICK = 1.1  # so that times in whole seconds differ


class Stopped(NamedTuple):
    """What came of a command that was stopped at some of its operations and given again."""

    stops: int
    faults: list[str]


class StoppedCommands:
    """A context manager that runs commands of ``hiertree``, each in a process of its own."""

    def __enter__(self) -> StoppedCommands:
        environment = {**os.environ, "OMP_NUM_THREADS": "1", "MPLBACKEND": "agg"}
        pipes: Any = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True, "env": environment}
        self._server = subprocess.Popen([sys.executable, __file__], **pipes)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.communicate()

    def run(self, arguments: Sequence[str], *, under: Path | None = None, at: int = 0) -> tuple[int, str, list[str]]:
        """The status, the output, and the operations below a folder; the process is killed before the ``at``-th."""
        assert self._server.stdin is not None
        assert self._server.stdout is not None
        request = {"arguments": list(arguments), "under": None if under is None else os.fspath(under), "at": at}
        self._server.stdin.write(json.dumps(request) + "\n")
        self._server.stdin.flush()
        status, output, operations = json.loads(self._server.stdout.readline())
        return status, output, operations

    def stopped(
        self, arguments: Sequence[str], under: Path, *, prepare: Callable[[Path], object] = bool, max_stops: int = 1000
    ) -> Stopped:
        """Stop a command at its operations, or at ``max_stops`` evenly spread ones; compare with an undisturbed run.

        ``prepare`` fills the folder before each trial. What differs between two undisturbed runs is not compared.
        """
        references, operations = [], list[str]()
        for trial in range(2):
            _empty(under, prepare)
            status, output, operations_seen = self.run(arguments, under=under)
            assert status == 0, output
            operations = operations if trial else operations_seen
            references.append(_contents(under))
            time.sleep(_TICK)
        first, second = references
        stable = {name for name, digest in first.items() if second.get(name) == digest}
        restless = {Path(name).parent for name in first.keys() ^ second.keys()}  # of event logs, named by time
        moments = range(1, len(operations) + 1, max(1, -(-len(operations) // max_stops)))
        faults = []
        for at in moments:
            _empty(under, prepare)
            self.run(arguments, under=under, at=at)
            status, output, _ = self.run(arguments)
            contents, problems = _contents(under), [output.strip()[-300:]] if status else []
            if not status:
                problems = [f"differs: {name}" for name in stable & contents.keys() if contents[name] != first[name]]
                uneven = (first.keys() ^ contents.keys()) - (second.keys() - first.keys())
                problems += [f"missing or left: {name}" for name in uneven if Path(name).parent not in restless]
            faults += [f"{operations[at - 1]}: {problem}" for problem in problems]
        return Stopped(len(moments), faults)


def _empty(folder: Path, prepare: Callable[[Path], object]) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    prepare(folder)


def _contents(folder: Path) -> dict[str, str]:
    files = [path for path in sorted(folder.rglob("*")) if path.is_file()]
    return {str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


def _watch(under: str, at: int, report: Path) -> None:
    """Note each operation that writes below a folder, and kill this process before one of them."""
    owner, count = os.getpid(), 0

    def hook(event: str, details: tuple[Any, ...]) -> None:
        nonlocal count
        if event == "open":
            mode, flags = details[1], details[2]
            writes = set(mode) & set("wax+") if isinstance(mode, str) else flags & (os.O_WRONLY | os.O_RDWR)
        else:
            writes = event in _WRITING
        if not writes or os.getpid() != owner or not any(map(is_below, details[:2])):
            return
        count += 1
        if count == at:
            os.kill(owner, signal.SIGKILL)
        handle = os.open(report, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        os.write(handle, f"{count} {event} {details[0]}\n".encode("utf-8", "replace"))
        os.close(handle)

    def is_below(path: object) -> bool:
        return isinstance(path, str | bytes | os.PathLike) and str(Path(os.fsdecode(path)).absolute()).startswith(under)

    sys.addaudithook(hook)


def _serve() -> None:
    """Fork for each request on standard input."""
    import tempfile

    import hiertree.pipelines.cli.labels
    import hiertree.pipelines.comparison.recipe_comparison
    import hiertree.pipelines.report
    import hiertree.pipelines.training.run.training_run  # noqa: F401
    from hiertree.pipelines.cli.application import main

    folder = tempfile.mkdtemp()  # no object, which would remove it when a forked process ends
    try:
        for line in sys.stdin:
            request, report, output = json.loads(line), Path(folder, "operations"), Path(folder, "output")
            report.write_text("")
            process = os.fork()
            if not process:
                os.setsid()
                handle = os.open(output, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
                for stream in (1, 2):
                    os.dup2(handle, stream)
                os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
                if request["under"] is not None:
                    _watch(request["under"], request["at"], report)
                _end_with(main, request["arguments"])
            status = _waited_for(process)
            printed = output.read_text(encoding="utf-8", errors="replace")
            print(json.dumps([status, printed, report.read_text(encoding="utf-8").splitlines()]), flush=True)
    finally:
        shutil.rmtree(folder)


def _end_with(main: Callable[[list[str]], None], arguments: list[str]) -> NoReturn:
    """Run a command and end this process as an interpreter would, without returning to the code that forked it."""
    try:
        main(arguments)
    except SystemExit as ended:
        status = ended.code if isinstance(ended.code, int) else 1
    except BaseException:  # noqa: BLE001 - a traceback, as the interpreter would print
        traceback.print_exc()
        status = 1
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)


def _waited_for(process: int) -> int:
    end = time.monotonic() + _LIMIT
    while time.monotonic() < end:
        ended, status = os.waitpid(process, os.WNOHANG)
        if ended:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.01)
    os.killpg(process, signal.SIGKILL)
    os.waitpid(process, 0)
    return 124


if __name__ == "__main__":
    _serve()
