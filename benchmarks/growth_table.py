"""How time and memory of commands, readers, samplers and pages grow: a table that fails where they outgrow their input.

Each case of ``growth_cases.py`` runs at a size, three and ten times it, as a process of its own. Its time is what the
processor spent on it and on the processes it started, less that of the same command at a hundredth of the size, which
is its start. The exponent is that between the last two sizes. It fails above 1.15, or above the case's peak of memory:
a case that is too steep is measured twice more, and the least of each size counts. Where the last size takes less than
two seconds, an exponent is noise, and the table says "short". ``python benchmarks/growth_table.py`` runs all, ``…
evaluate report`` some, ``--scale 0.1`` a tenth of each size.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import re
import signal
import subprocess
import sys
import tempfile
from contextlib import nullcontext
from pathlib import Path
from typing import IO, NamedTuple
from urllib.parse import quote
from urllib.request import Request, urlopen

from growth_cases import CASES, Case

STEEPEST = 1.15
SHORTEST = 2.0  # seconds below which an exponent is noise
TRIES = 3
# What a process says of its own memory at its end: that of wait4 is at least its parent's.
_AT_END = r"""
import atexit, os, re
at_end = lambda: os.write({target}, re.search(rb"VmHWM:\s+(\d+)", open("/proc/self/status", "rb").read())[1])
atexit.register(at_end)
"""
_COMMAND = 'import runpy\nrunpy.run_module("hiertree", run_name="__main__", alter_sys=True)'


class Cost(NamedTuple):
    """Seconds of the processor, and MiB at the peak."""

    seconds: float
    peak: float


def run(command: str, size: int, asks: tuple[str, ...] = ()) -> Cost:
    """The cost of a command, or of statements that know the size as n."""
    source, target = os.pipe()
    is_python = "import " in command
    code = _AT_END.format(target=target) + (f"n = {size}\n{command}" if is_python else _COMMAND)
    arguments = [sys.executable, "-c", code, *([] if is_python else [*command.split(), "--quiet"])]
    output = subprocess.PIPE if asks else subprocess.DEVNULL
    quiet = {**os.environ, "HIERTREE_PROGRESS": "0", "HF_DATASETS_DISABLE_PROGRESS_BARS": "1"}
    with subprocess.Popen(arguments, stdout=output, pass_fds=[target], text=True, env=quiet) as process:
        os.close(target)
        if process.stdout is not None:
            try:
                browse(process.stdout, asks)
            finally:
                process.send_signal(signal.SIGINT)
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    with os.fdopen(source, "rb") as peak:
        kibibytes = int(peak.read() or 0)
    if process.returncode:
        raise SystemExit(f"{command} of {size:,} ended with status {process.returncode}")
    return Cost(usage.ru_utime + usage.ru_stime, kibibytes / 1024)


def browse(output: IO[str], asks: tuple[str, ...]) -> None:
    """Ask a server, whose address its output holds, as its page does: paths, and the actions of a review."""
    found = next(filter(None, (re.search(r"(http://\S+)/\?token=(\S+)", line) for line in output)))
    origin, token, events = found[1], found[2], 0
    for ask in asks:
        action = json.dumps({"seq": events, "action": json.loads(ask)}) if ask.startswith("{") else ""
        path = "/api/act" if action else ask
        address = f"{origin}{quote(path, safe='/?=&')}{'&' if '?' in path else '?'}token={token}"
        headers = {"Origin": origin, "Content-Type": "application/json"}
        with urlopen(Request(address, action.encode() or None, headers)) as answer:
            text = answer.read()
        if path in ("/api/act", "/api/review"):
            events = json.loads(text)["seq"]


def measure(case: Case, size: int) -> Cost:
    """The cost of a case in a folder of its own."""
    folder_before = Path.cwd()
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        try:
            with case.write(size) or nullcontext("") as options:
                for command in case.before:
                    run(command.replace("WIKIMEDIA", options), size)
                return run(case.command.replace("WIKIMEDIA", options), size, case.asks)
        finally:
            os.chdir(folder_before)


class Growth(NamedTuple):
    """What a case costs at each size, its start taken off."""

    sizes: list[int]
    seconds: list[float]
    peak: float

    @property
    def exponent(self) -> float:
        """That of time between the last two sizes."""
        return math.log(self.seconds[2] / self.seconds[1]) / math.log(self.sizes[2] / self.sizes[1])

    @property
    def is_short(self) -> bool:
        """Whether the exponent is noise."""
        return self.seconds[2] < SHORTEST

    @property
    def is_steep(self) -> bool:
        """Whether time outgrows the input."""
        return self.exponent > STEEPEST and not self.is_short


def growth(case: Case, scale: float = 1.0) -> Growth:
    """The growth of a case; what is too steep is measured again, and the least counts."""
    sizes = [max(100, int(scale * case.size * times)) for times in (1, 3, 10)]
    costs: list[list[Cost]] = []
    smallest = max(100, sizes[0] // 100)
    measure(case, smallest)  # compiles what is not in a cache yet
    for _ in range(TRIES):
        costs.append([measure(case, size) for size in (smallest, *sizes)])
        start, *seconds = (min(cost.seconds for cost in tries) for tries in zip(*costs, strict=True))
        found = Growth(sizes, [max(1e-3, time - start) for time in seconds], min(tries[-1].peak for tries in costs))
        if not found.is_steep:
            break
    return found


def main() -> int:
    """Print the table; status 1 if a case grows too fast or takes too much memory."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", choices=[[], *CASES], help="all unless named")
    parser.add_argument("--scale", type=float, default=1.0)
    parser.add_argument("--json", type=Path, help="file for the numbers")
    arguments = parser.parse_args()
    print("| case | sizes | seconds | exponent | peak, MiB | |\n|---|---|---|---:|---:|---|")
    records, failures = [], 0
    for name in arguments.names or CASES:
        found = growth(CASES[name], arguments.scale)
        is_large = found.peak > CASES[name].peak
        failures += found.is_steep or is_large
        verdicts = {"too steep": found.is_steep, "too much memory": is_large, "short": found.is_short}
        verdict = ", ".join(text for text, holds in verdicts.items() if holds)
        sizes, seconds = (
            " / ".join(f"{size:,}" for size in found.sizes),
            " / ".join(map("{:.2f}".format, found.seconds)),
        )
        print(f"| {name} | {sizes} | {seconds} | {found.exponent:.2f} | {found.peak:,.0f} | {verdict} |", flush=True)
        records.append({"case": name, **found._asdict(), "exponent": found.exponent})
    if arguments.json:
        arguments.json.write_text(json.dumps(records, indent=1) + "\n", encoding="utf-8")
    return int(failures > 0)


if __name__ == "__main__":
    raise SystemExit(main())
