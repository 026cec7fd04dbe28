"""A compiled network: it learns the same, and its checkpoints and files are those of the network itself."""

from __future__ import annotations

from functools import partialmethod

import pytest
import torch
from safetensors.torch import load_file
from torch import nn

from hiertree.errors import RecipeError
from hiertree.pipelines.training.run.experiment import train


def test_compiled_run_keeps_what_an_uncompiled_one_keeps(tiny_recipe, tmp_path, monkeypatch):
    """With the backend that runs the traced graph as it is: the others take a minute to translate it."""
    options = ("training.epochs=2", "training.ema_decay=0.5", "model.freeze_backbone_epochs=1", "evaluation.every=1")
    train(tiny_recipe(*options), tmp_path / "plain")
    graphs = []

    def backend(graph, _):
        graphs.append(graph)
        return graph.forward

    monkeypatch.setattr(nn.Module, "compile", partialmethod(nn.Module.compile, backend=backend, fullgraph=True))
    train(tiny_recipe(*options, "training.compile=true"), tmp_path / "compiled")
    assert len(graphs) == 2, "one with the backbone frozen, one that trains it"
    for file in ("model.safetensors", "checkpoints/step-00000004/tensors.safetensors"):
        eager, compiled = (load_file(tmp_path / name / file) for name in ("plain", "compiled"))
        torch.testing.assert_close(eager, compiled)


def test_compiler_that_fails_is_named_with_the_setting(tiny_recipe, tmp_path, monkeypatch):
    def backend(graph, _):
        raise OSError("no working C++ compiler found")

    monkeypatch.setattr(nn.Module, "compile", partialmethod(nn.Module.compile, backend=backend))
    with pytest.raises(RecipeError, match=r"no working C\+\+ compiler found\).*set training\.compile=false"):
        train(tiny_recipe("training.compile=true"), tmp_path)
