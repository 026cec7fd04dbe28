"""Time until the first number: import, the first ``evaluate`` of a process, and the second.

Run ``python benchmarks/first_call.py``. *Cold* compiles every kernel into an empty cache; *warm* is a fresh process
that finds them there. Medians of seconds by the clock, and of processor time in brackets; numba's own import, which the
first call of a process contains, is timed alone as well.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile

import numpy as np

_PROCESS = """
import json, sys, time
import numpy as np
times = {}
def timed(name, work):
    begin = time.perf_counter(), time.process_time()
    work()
    times[name] = time.perf_counter() - begin[0], time.process_time() - begin[1]
def load():
    global evaluate
    from hiertree.metrics import evaluate
def numba():
    import numba
timed("import", load)
if sys.argv[2] == "apart":
    timed("numba", numba)
number, random = int(sys.argv[1]), np.random.default_rng(0)
paths = np.stack([np.arange(number) // 50, np.arange(number) // 5], axis=1)
embeddings = random.standard_normal((number, 128)).astype(np.float32)
timed("first call", lambda: evaluate(embeddings, paths))
timed("second call", lambda: evaluate(embeddings, paths))
print(json.dumps(times))
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--items", type=int, default=1000)
    parser.add_argument("--repeats", type=int, default=5)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as cache:
        show("cold", [run(arguments.items, cache, "within")])
        show("warm", [run(arguments.items, cache, "within") for _ in range(arguments.repeats)])
        show("warm, numba imported before", [run(arguments.items, cache, "apart") for _ in range(arguments.repeats)])


def run(num_items: int, cache: str, numba: str) -> dict[str, tuple[float, float]]:
    """The seconds of each step in a fresh process, whose kernels are kept in ``cache``."""
    command = [sys.executable, "-c", _PROCESS, str(num_items), numba]
    environment = {**os.environ, "NUMBA_CACHE_DIR": cache}
    answer = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
    times: dict[str, tuple[float, float]] = json.loads(answer.stdout)
    return times


def show(name: str, runs: list[dict[str, tuple[float, float]]]) -> None:
    """Print the median of each step."""
    medians = {step: np.median([times[step] for times in runs], axis=0) for step in runs[0]}
    steps = (f"{step} {clock:.2f} s ({processor:.2f})" for step, (clock, processor) in medians.items())
    print(f"{name:28}", "  ".join(steps), flush=True)


if __name__ == "__main__":
    main()
