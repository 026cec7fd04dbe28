"""Run the tests, or another command, as other processors would: with the instructions and threads that those have.

    scripts/try_processors.py                                     # every test on every machine
    scripts/try_processors.py --machine zen tests/metrics -n 2    # what follows goes to pytest
    scripts/try_processors.py --command "hiertree demo --fresh --seed 1"

A machine here is a set of environment variables that BLAS, numpy, PyTorch, numba, faiss and glibc read when they start.
The machines cover every value of every variable; a processor that lacks the instructions of one runs what it has.
"""

from __future__ import annotations

import argparse
import os
import shlex
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parent.parent


def _threads(number: int) -> dict[str, str]:
    variables = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS")
    return dict.fromkeys(variables, str(number))


def _without(*kept: str) -> str:
    """The instructions that numpy would use here beyond those to keep; numpy warns of those that are not there."""
    found = np.show_config(mode="dicts")["SIMD Extensions"].get("found", [])
    return " ".join(name for name in found if name not in kept)


MACHINES: Mapping[str, Mapping[str, str]] = {
    "haswell": {
        "OPENBLAS_CORETYPE": "Haswell",
        "NPY_DISABLE_CPU_FEATURES": _without("X86_V3", "AVX2", "FMA3", "F16C"),
        "ATEN_CPU_CAPABILITY": "avx2",
        "MKL_ENABLE_INSTRUCTIONS": "AVX2",
        "ONEDNN_MAX_CPU_ISA": "AVX2",
        "NUMBA_CPU_NAME": "haswell",
        "FAISS_OPT_LEVEL": "avx2",
        **_threads(1),
    },
    "skylake": {"OPENBLAS_CORETYPE": "SkylakeX", **_threads(2)},
    "zen": {
        "OPENBLAS_CORETYPE": "Zen",
        "NPY_DISABLE_CPU_FEATURES": _without(),
        "ATEN_CPU_CAPABILITY": "default",
        "MKL_CBWR": "COMPATIBLE",
        "ONEDNN_MAX_CPU_ISA": "SSE41",
        "NUMBA_CPU_NAME": "generic",
        "FAISS_OPT_LEVEL": "generic",
        "GLIBC_TUNABLES": "glibc.cpu.hwcaps=-AVX2,-FMA",
        **_threads(4),
    },
}


def main() -> None:
    """Run the command on each machine; the exit status is 1 where it failed on one."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--machine", action="append", choices=MACHINES, help="one of them; unless given, all")
    parser.add_argument("--command", help="what to run in place of pytest")
    options, rest = parser.parse_known_args()
    command = shlex.split(options.command) if options.command else [sys.executable, "-m", "pytest", *rest]
    failed = []
    for name in options.machine or MACHINES:
        settings, started = {key: value for key, value in MACHINES[name].items() if value}, time.monotonic()
        print(f"== {name}: {' '.join(f'{key}={shlex.quote(value)}' for key, value in settings.items())}", flush=True)
        folder = None if options.command else ROOT
        status = subprocess.run(command, cwd=folder, env={**os.environ, **settings}, check=False).returncode
        print(f"== {name}: exit status {status} after {time.monotonic() - started:.0f} s", flush=True)
        failed += [name] if status else []
    sys.exit(f"failed on {', '.join(failed)}" if failed else 0)


if __name__ == "__main__":
    main()
