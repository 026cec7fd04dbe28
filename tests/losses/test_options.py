"""Options that several losses share: one declaration, seen in every signature, and misspelt names refused."""

from __future__ import annotations

import inspect
import pydoc

import pytest
import torch

from hiertree import losses
from hiertree.errors import OptionError
from hiertree.losses import HAPPIER, ProxyDecomposability, ProxyOptions, ScoreOptions, StepOptions, functional
from hiertree.losses.functional import score_options
from hiertree.losses.pairs.soft_ranks import SupStep

STEP = {"tau": 0.01, "rho": 100.0, "delta": None, "start": 0.5, "offset": None}
PROXIES = {"eta": 0.05, "centers": 1, "sampled_classes": None}
WITH_STEP = ["HAPPIER", "ROADMAP", "RODNDCG", "RODRecall", "SupAP", "SupHAP", "SupNDCG", "SupRecall"]
FUNCTIONS = [name for name in functional.__all__ if name.split("_")[0] in ("sup", "smooth")]


def defaults(function):
    return {name: parameter.default for name, parameter in inspect.signature(function).parameters.items()}


@pytest.mark.parametrize("name", WITH_STEP)
def test_a_signature_shows_every_option_with_its_default(name):
    options = defaults(getattr(losses, name))
    assert options.items() >= STEP.items()
    assert name.startswith("Sup") or options.items() >= PROXIES.items()
    assert "options" not in options
    assert "step" not in options


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_functional_form_shows_every_option_with_its_default(name):
    options = defaults(getattr(functional, name))
    assert options.items() >= {"valid": None, "reduction": "mean"}.items()
    assert options.items() >= (STEP if name.startswith("sup") else {"tau": 0.01}).items()


def test_help_of_a_loss_names_its_options():
    text = pydoc.render_doc(HAPPIER, renderer=pydoc.plaintext)
    assert all(f"{name}:" in text for name in (*STEP, *PROXIES, "alpha", "lambda_"))


@pytest.mark.parametrize(
    ("options", "source"), [(StepOptions, SupStep), (ProxyOptions, ProxyDecomposability), (ScoreOptions, score_options)]
)
def test_what_a_type_checker_reads_is_what_takes_the_options(options, source):
    parameters = inspect.signature(source).parameters.values()
    source_names = {
        parameter.name: parameter.annotation for parameter in parameters if parameter.kind is parameter.KEYWORD_ONLY
    }
    declared = {name: parameter.__forward_arg__ for name, parameter in options.__annotations__.items()}
    assert declared == source_names
    assert options.__doc__ is not None
    assert all(f"``{name}``" in options.__doc__ for name in declared)


def test_a_misspelt_option_is_refused_and_the_nearest_one_named():
    with pytest.raises(OptionError, match=r"unknown option 'rhoo' of HAPPIER.*did you mean 'rho'\?"):
        HAPPIER(3, 4, rhoo=3)
    with pytest.raises(OptionError, match=r"of sup_hap.*did you mean 'reduction'\?"):
        functional.sup_hap(torch.ones(1, 1), torch.ones(1, 1), torch.ones(1, 2), reducton="none")
