"""A network that starts with the weights of an earlier run."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import torch

from hiertree.errors import CheckpointError, RecipeError
from hiertree.io.provenance import describe_file

from ..network.embedder import Embedder
from ..network.model_files import WEIGHTS, load_weights
from ..recipe.schema import Recipe

_HEAD, _PROJECTION = "head.", "head.1.weight"


def start_from_earlier(embedder: Embedder, recipe: Recipe) -> dict[str, Any] | None:
    """Load the weights that ``training.start_from`` names, all but those of a head of another size.

    Args:
        embedder: the network, before its first step.
        recipe: the experiment.

    Returns:
        The file of weights: path, size and hash; None if the recipe names no run.

    Raises:
        CheckpointError: the folder holds no finished network.
        RecipeError: its network is another one; the message names the tensors that differ.
    """
    if recipe.training.start_from is None:
        return None
    folder = Path(recipe.training.start_from)
    try:
        weights = load_weights(folder)
    except CheckpointError as error:
        given = f"training.start_from: {error.given}"
        raise CheckpointError(given, expected=error.expected, remedy=error.remedy) from error
    wanted = embedder.state_dict()
    differing = sorted(
        name
        for name in {*weights, *wanted}
        if name not in weights or name not in wanted or weights[name].shape != wanted[name].shape
    )
    others = [name for name in differing if not name.startswith(_HEAD)]
    if others:
        named = ", ".join(others[:3]) + (", …" if len(others) > 3 else "")
        raise RecipeError(
            f"training.start_from={folder} has another network ({len(others)} tensors differ: {named})",
            expected=f"the backbone, pooling and channels of this recipe ({recipe.model.backbone})",
            remedy=f"take over the section model of {folder / 'recipe.yaml'}",
        )
    with torch.no_grad():
        for name, tensor in wanted.items():
            if not (differing and name.startswith(_HEAD)):
                tensor.copy_(weights[name])
    if differing:
        theirs, ours = (len(head[_PROJECTION]) for head in (weights, wanted))
        print(f"{folder}: its head, {theirs} dimensions, is not used; one of {ours} starts anew", file=sys.stderr)
    return {"path": str(folder / WEIGHTS), **describe_file(folder / WEIGHTS)}
