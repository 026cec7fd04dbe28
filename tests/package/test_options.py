"""Each option of evaluations is declared once, by a field, from which functions, commands and recipes have theirs."""

from __future__ import annotations

import inspect
from dataclasses import fields
from typing import ForwardRef, get_args

import click
import pytest
from commands_page import every_command

from hiertree import evaluation_options, metrics
from hiertree.errors import OptionError
from hiertree.evaluation_options import (
    Conventions,
    MetricOptions,
    RetrievalConventions,
    RetrievalOptions,
    Search,
    SearchOptions,
)
from hiertree.options import choices_of, kinds_of
from hiertree.pipelines.cli.application import commands
from hiertree.pipelines.stored_embeddings.evaluating import FileOptions
from hiertree.pipelines.training.recipe.settings import EvaluationSettings

FIELDS = {item.name: item for options in (RetrievalConventions, Search) for item in fields(options)}
SHOWN = {name: item for name, item in FIELDS.items() if "help" in item.metadata}
OF_FILES = ("junk", "distractors")  # a table of pairs, and a flag
CALLABLES = [getattr(metrics, name) for name in metrics.__all__ if callable(getattr(metrics, name))]
PARAMETERS = [
    pytest.param(parameter, id=f"{function.__name__}-{name}")
    for function in CALLABLES
    for name, parameter in inspect.signature(function).parameters.items()
    if name in FIELDS and parameter.kind is inspect.Parameter.KEYWORD_ONLY
]
COMMAND_OPTIONS = [
    pytest.param(option, id=f"{command}-{option.name}")
    for command, shown in every_command(commands)
    if command in ("hiertree evaluate", "hiertree evaluate-run", "hiertree evaluate-pairs", "hiertree report")
    for option in shown.params
    if option.name in SHOWN
]


def type_of(annotation):
    text = annotation.__forward_arg__ if isinstance(annotation, ForwardRef) else annotation
    return eval(text, vars(evaluation_options)) if isinstance(text, str) else text


@pytest.mark.parametrize("parameter", PARAMETERS)
def test_functions_have_the_type_and_default_of_the_field(parameter):
    item = FIELDS[parameter.name]
    assert parameter.default == item.default
    assert type_of(parameter.annotation) == type_of(item.type)


def test_functions_take_every_field():
    names = {
        name: set(inspect.signature(getattr(metrics, name)).parameters)
        for name in metrics.__all__
        if name != "statistics"
    }
    assert set(FIELDS) <= names["evaluate"]
    for function in ("evaluate_codes", "evaluate_ranking"):
        assert {item.name for item in fields(RetrievalConventions)} <= names[function]
    assert {item.name for item in fields(Conventions)} <= names["evaluate_scores"]


@pytest.mark.parametrize(
    ("keywords", "options"),
    [(MetricOptions, Conventions), (RetrievalOptions, RetrievalConventions), (SearchOptions, Search)],
)
def test_type_checkers_know_the_keywords_of_the_fields(keywords, options):
    types = {name: type_of(kind) for name, kind in keywords.__annotations__.items()}
    assert types == {item.name: type_of(item.type) for item in fields(options)}


def test_files_are_evaluated_by_the_same_keywords():
    names = FIELDS.keys() & FileOptions.__annotations__.keys() - set(OF_FILES)
    assert names == FIELDS.keys() - {"query_ids", "gallery_ids", *OF_FILES}
    for name in names:
        assert type_of(FileOptions.__annotations__[name]) == type_of(FIELDS[name].type)


@pytest.mark.parametrize("option", COMMAND_OPTIONS)
def test_commands_have_the_default_help_and_choices_of_the_field(option):
    item, choices = FIELDS[option.name], choices_of(FIELDS[option.name])
    assert (option.default, option.help) == (item.default, item.metadata["help"])
    assert isinstance(option.type, click.Choice) == (choices is not None)
    if choices is not None:
        assert tuple(option.type.choices) == get_args(choices)


def test_evaluate_shows_every_field_that_has_help():
    option_names = {name: {option.name for option in command.params} for name, command in every_command(commands)}
    assert set(SHOWN) <= option_names["hiertree evaluate"]
    for command in ("hiertree evaluate-run", "hiertree evaluate-pairs"):
        assert option_names[command] & set(SHOWN) == {item.name for item in fields(Conventions)}


def test_recipes_have_the_default_and_help_of_the_field():
    keys = EvaluationSettings.model_fields
    assert keys.keys() & FIELDS.keys() == {"metrics"}
    assert keys["metrics"].default == FIELDS["metrics"].default
    assert keys["metrics"].description == FIELDS["metrics"].metadata["help"]


@pytest.mark.parametrize("options", [RetrievalConventions, Search])
def test_a_value_outside_its_field_is_refused(options):
    checked = [item for item in fields(options) if choices_of(item) or {int, float} & set(kinds_of(item))]
    assert checked
    for item in checked:
        with pytest.raises(OptionError, match=f"{item.name}="):
            options(**{item.name: "nonsense" if choices_of(item) else -1})
