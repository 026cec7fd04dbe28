"""Compile every Triton kernel for several GPUs, none of which need be there; one line each."""

from __future__ import annotations

import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

from hiertree.losses.kernels import triton_rows as _triton_rows
from hiertree.losses.kernels.triton_kernel import BLOCK, OWN, POINTS, TILE

INTEGERS = {"width", "num_slots"}
INDICES = {"items", "arranged_items", "own_items", "first", "own_first", "acting"}
TILES = {"TILE": TILE, "POINTS": POINTS}
KERNELS = [
    (_triton_rows.arrange, {"BLOCK": BLOCK}),
    (_triton_rows.condense, TILES),
    (_triton_rows.sum_steps, {**TILES, "OWN": OWN, "FORWARD": True}),
    (_triton_rows.sum_steps, {**TILES, "OWN": OWN, "FORWARD": False}),
]


def type_of(name: str, constants: dict[str, int], scores: str) -> str:
    if name in constants:
        return "constexpr"
    if name in INTEGERS:
        return "i32"
    return "*i32" if name in INDICES else "*i16" if name == "groups" else scores


for capability, scores in ((75, "*fp32"), (80, "*fp64"), (90, "*fp32")):
    for kernel, constants in KERNELS:
        signature = {name: type_of(name, constants, scores) for name in kernel.arg_names}
        places = {(kernel.arg_names.index(name),): value for name, value in constants.items()}
        source = ASTSource(fn=kernel, signature=signature, constexprs=places)
        target = GPUTarget("cuda", capability, 32)
        compiled = triton.compile(source, target=target, options={"enable_fp_fusion": True})
        print(kernel.__name__, capability, scores, len(compiled.asm["cubin"]))
