"""The network translated by ``torch.compile``."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from torch import nn

from hiertree.errors import RecipeError


def compile_network(network: nn.Module) -> None:
    """Have a network translated whenever it is called with what it was not called with before.

    It stays the same object, so that its tensors keep their names; a copy of it is not compiled.
    """
    network.compile()


@contextmanager
def compiler_errors() -> Iterator[None]:
    """Say what can be done where the compiler fails.

    Raises:
        RecipeError: it did.
    """
    try:
        yield
    except RuntimeError as error:
        if not type(error).__module__.startswith(("torch._dynamo", "torch._inductor")):
            raise
        problem = " ".join(str(error).split("\n\n")[0].split())
        raise RecipeError(
            f"training.compile=true ({problem})",
            expected="a network that torch.compile can translate, and a C++ compiler (on a GPU, Triton)",
            remedy="set training.compile=false",
        ) from error
