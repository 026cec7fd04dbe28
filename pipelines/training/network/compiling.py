"""The network compiled by ``torch.compile``."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from torch import nn

from hiertree.errors import RecipeError


def compile_network(network: nn.Module) -> None:
    """Compile a network in place at its first call with each kind of input.

    It stays the same object, so its tensors keep their names; a copy of it is not compiled.
    """
    network.compile()


@contextmanager
def compiler_errors() -> Iterator[None]:
    """Turn an error of the compiler into one that says what to change.

    Raises:
        RecipeError: the compiler failed.
    """
    try:
        yield
    except RuntimeError as error:
        if not type(error).__module__.startswith(("torch._dynamo", "torch._inductor")):
            raise
        problem = " ".join(str(error).split("\n\n")[0].split())
        raise RecipeError(
            f"training.compile=true ({problem})",
            expected="a network that torch.compile supports, and a C++ compiler (on a GPU, Triton)",
            remedy="set training.compile=false",
        ) from error
