"""The Triton kernels work, on a GPU or interpreted, and compile for GPUs that are not there."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest
import torch

pytestmark = pytest.mark.skipif(find_spec("triton") is None, reason="triton is not installed: it exists for Linux")

HERE = Path(__file__).parent


def in_a_process(*arguments: str, **environment: str) -> str:
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "TRITON_INTERPRET": "0", **environment}
    command = [sys.executable, *arguments]
    done = subprocess.run(command, env=environment, cwd=HERE.parents[2], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.parametrize(
    "chosen", ["equal_the_loops or sup_hap-4 or smooth_ap-1", pytest.param("test", marks=pytest.mark.nightly)]
)
def test_the_kernels_equal_loops_and_torch(chosen: str) -> None:
    interpret = "0" if torch.cuda.is_available() else "1"
    cases = ("-m", "pytest", "-q", "--noconftest", "-p", "no:cacheprovider", str(HERE / "triton_cases.py"))
    assert " passed" in in_a_process(*cases, "-k", chosen, TRITON_INTERPRET=interpret)


@pytest.mark.parametrize(
    ("device", "chosen"), [("cuda", "HAPPIER or ROADMAP or RODNDCG or SmoothAP"), ("absent", "test")]
)
def test_on_a_device_losses_wait_for_nothing_but_their_inputs(device: str, chosen: str) -> None:
    cases = ("-m", "pytest", "-q", "--noconftest", "-p", "no:cacheprovider", str(HERE / "waiting_cases.py"))
    assert " passed" in in_a_process(*cases, "-k", chosen, FAKE_DEVICE=device)


def test_the_kernels_compile_for_gpus_that_are_not_here_and_spill_no_register(tmp_path: Path) -> None:
    script = str(HERE.parents[2] / "benchmarks" / "gpu_model.py")
    kernels = json.loads(in_a_process(script, "--kernels", TRITON_CACHE_DIR=str(tmp_path)))
    names = {kernel["name"] for kernel in kernels}
    assert {"condense", "sum_steps forward", "sum_steps backward", "count_others, few"} <= names
    assert {(kernel["capability"], kernel["scores"]) for kernel in kernels} == {
        *((capability, "fp32") for capability in (80, 90, 100)),
        (90, "fp64"),
    }
    launched = [kernel for kernel in kernels if kernel["launched"]]
    assert len(launched) == 4 * len(names)
    for kernel in kernels:
        single = kernel["scores"] == "fp32"
        fits = kernel["spilled"] == 0 and kernel["occupancy"] >= (0.25 if single else 0.125)
        if kernel["launched"]:
            assert fits, kernel
            assert kernel["shared"] <= 4096, kernel  # of at least 100 KiB: never what keeps programs out
            assert kernel["registers"] <= (128 if single else 255), kernel
        else:
            assert kernel["warps"] == 2 or not fits, kernel  # as few warps as fit
