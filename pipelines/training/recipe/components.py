"""Sections of a recipe whose keys are the options of a function or class, read from its signature.

So a loss's option is declared where the loss is, with its type and default, and nowhere else. A name
``module:attribute`` is code of one's own, imported only where the caller allows it: a folder of someone's runs nothing.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Container, Iterable, Mapping, Set
from dataclasses import dataclass, field
from functools import cache, partial
from typing import Annotated, Any, ClassVar, Literal, TypeAlias

from pydantic import BeforeValidator, ConfigDict, Field, SerializeAsAny, TypeAdapter, ValidationInfo, create_model
from pydantic.errors import PydanticUserError
from pydantic_core import PydanticSerializationError, to_json

from hiertree.errors import HiertreeError, MissingPackageError, RecipeError

from ...networks.settings import import_callable
from ...settings import Section, custom_error, unknown_names

Function: TypeAlias = Callable[..., Any]
LOSS, LOSS_FACTORY = "Loss", "LossFactory"  # annotations, as the signatures of losses write them
_OPTION = "option_"  # begins the names of fields, so that no option hides an attribute of its section
_ANY_CLASS = ConfigDict(arbitrary_types_allowed=True)


class Component(Section):
    """A section that names a function or class; subclasses hold its options."""

    model_config = _ANY_CLASS

    name: str
    function: ClassVar[Function | None] = None  # what is named; None where it may not be imported

    def options(self) -> dict[str, Any]:
        """The keyword arguments for the function or class."""
        fields = [name for name in type(self).model_fields if name.startswith(_OPTION)]
        return {name.removeprefix(_OPTION): getattr(self, name) for name in fields}

    def takes(self, parameter: str) -> bool:
        """Whether the function or class has this parameter."""
        function = type(self).function
        return parameter in (self.options() if function is None else _parameters(function))

    def makes(self, parameter: str) -> bool:
        """Whether the parameter is what makes a loss for a number of classes, not a loss."""
        function = type(self).function
        return function is not None and str(_parameters(function)[parameter].annotation) == LOSS_FACTORY

    def is_kind_of(self, base: type) -> bool:
        """Whether a class is named that derives from another."""
        function = type(self).function
        return isinstance(function, type) and issubclass(function, base)

    def require_trusted(self) -> Function:
        """What is named; an error where a folder of a run names code of someone's own, or what may download."""
        function = type(self).function
        if function is None:
            raise RecipeError(
                f"{self.name}, which the folder of a run or of a model names",
                expected="a name that you give: nothing that such a folder names is imported or fetched",
                remedy=f"if you trust it, name it yourself: --set SECTION.name={self.name}",
            )
        return function

    def build(self, *arguments: Any, **known: Any) -> Any:
        """Call it with its options and what the run knows; the latter as far as it takes it."""
        function = self.require_trusted()
        options = {name: _built(value) for name, value in self.options().items()}
        return function(*arguments, **options | {name: value for name, value in known.items() if self.takes(name)})


def _built(value: Any) -> Any:
    """An option: where it is a list of components, what these make."""
    is_list = isinstance(value, tuple) and value and isinstance(value[0], Component)
    return [component.build() for component in value] if is_list else value


@dataclass(frozen=True, eq=False)
class ComponentKind:
    """A kind of component: the names that a section may give, and the parameters that become keys."""

    known: Callable[[], Mapping[str, Function]]  # by name
    derived: Set[str] = frozenset()  # parameters that the run knows and a recipe may not set
    required: Set[str] = frozenset()  # those of them that one's own function must have
    arguments: Set[str] = frozenset()  # those of a function that is itself the loss or transform, and makes none
    guarded: Set[str] = frozenset()  # names that need the user's word as code of one's own does
    renamed: Mapping[str, str] = field(default_factory=dict)  # parameters that have another name in recipes
    declared: Mapping[str, type[Section]] = field(default_factory=dict)  # names whose keys are no signature's
    base: type[Component] = Component  # keys that all of the kind have
    default: str | None = None  # the name where none is given

    def validate(self, value: Any, info: ValidationInfo) -> Section:
        """Turn ``{"name": …, option: …}`` into the section of that name; its ``imports`` are in the context."""
        if isinstance(value, Section):
            return value
        section = {"name": self.default, **value} if isinstance(value, dict) else {}
        name = section.get("name")
        if not isinstance(name, str):
            raise custom_error("unnamed", "expected a mapping with a 'name'")
        if name in self.declared:
            return self.declared[name].model_validate(value)
        allowed: Container[str] | None = (info.context or {}).get("imports", ())
        is_guarded = ":" in name or name in self.guarded
        if is_guarded and allowed is not None and name not in allowed:
            return self._unchecked(name, section)
        try:
            model = self.model(name)
        except (MissingPackageError, ModuleNotFoundError):  # a recipe can be read without torch, not trained
            return self._unchecked(name, section)
        return model.model_validate(section, context=info.context)

    def _unchecked(self, name: str, section: dict[str, Any]) -> Section:
        """The section with the options that it states, of a component that is not to be imported."""
        options = [str(key) for key in section if key not in self.base.model_fields]
        fields: dict[str, Any] = {f"{_OPTION}{key}": (Any, Field(alias=key)) for key in options}
        return create_model(name, __base__=self.base, **fields).model_validate(section)

    def names(self) -> list[str]:
        """The names that recipes use; others stand for one of these with some options settled."""
        return sorted(name for name, function in self.known().items() if not isinstance(function, partial))

    def model(self, name: str) -> type[Component]:
        """The section of the component of that name: a key for each option of its signature."""
        if ":" in name:
            return _model(self, name, self._imported(name))
        functions = self.known()
        if name not in functions:
            raise custom_error("unknown_name", unknown_names([name], [*self.declared, *functions], "name"))
        return _model(self, name, functions[name])

    def _imported(self, name: str) -> Function:
        try:
            function = import_callable(name, setting="name")
        except HiertreeError as error:
            raise custom_error("import", str(error)) from error
        if self.arguments and self.arguments <= _parameters(function).keys():
            return _factory(function, self.arguments)
        if missing := self.required - _parameters(function).keys():
            names = ", ".join(sorted(missing))
            raise custom_error("signature", f"{name} lacks the parameter {names}, which the run gives it")
        return function


@cache
def _factory(function: Function, arguments: Set[str]) -> Function:
    """What gives the function back with its options set; its signature is that of the options alone."""

    def build(**options: Any) -> Function:
        return partial(function, **options)

    factory: Any = build
    option_parameters = [parameter for name, parameter in _parameters(function).items() if name not in arguments]
    factory.__signature__, factory.__module__ = inspect.Signature(option_parameters), function.__module__
    return build


@cache
def _model(kind: ComponentKind, name: str, function: Function) -> type[Component]:
    fields: dict[str, Any] = {"name": (Literal[name], name if name == kind.default else ...)}
    fixed_options = {*kind.derived, *(function.keywords if isinstance(function, partial) else ())}
    for parameter in _parameters(function).values():
        if parameter.name not in fixed_options and _is_key(parameter):
            default = ... if parameter.default is inspect.Parameter.empty else parameter.default
            alias = kind.renamed.get(parameter.name, parameter.name)
            fields[f"{_OPTION}{parameter.name}"] = (_field_type(kind, parameter), Field(default, alias=alias))
    module = getattr(function, "func", function).__module__
    model = create_model(name, __base__=kind.base, __module__=module, **fields)
    model.function = function
    return model


@cache
def _parameters(function: Function) -> Mapping[str, inspect.Parameter]:
    """The parameters; other libraries' type hints are evaluated here, and left out where they cannot be."""
    if getattr(function, "func", function).__module__.startswith("hiertree."):
        return inspect.signature(function).parameters
    try:
        parameters = inspect.signature(function, eval_str=True).parameters
    except (NameError, TypeError, AttributeError):
        parameters = inspect.signature(function).parameters
    return {
        name: parameter.replace(annotation=_checkable(parameter.annotation)) for name, parameter in parameters.items()
    }


def _checkable(annotation: Any) -> Any:
    """The type hint, or Any if pydantic cannot check it."""
    if annotation is inspect.Parameter.empty or isinstance(annotation, str):
        return Any
    try:
        TypeAdapter(annotation, config=_ANY_CLASS)
    except (PydanticUserError, NameError):
        return Any
    return annotation


def _is_key(parameter: inspect.Parameter) -> bool:
    """Whether YAML can give the parameter: it has a name, and a default that can be written down, or none."""
    if parameter.kind not in (parameter.KEYWORD_ONLY, parameter.POSITIONAL_OR_KEYWORD):
        return False
    try:
        return parameter.default is parameter.empty or bool(to_json(parameter.default))
    except PydanticSerializationError:
        return False


def _field_type(kind: ComponentKind, parameter: inspect.Parameter) -> Any:
    """What a recipe holds for a parameter: for a component, or what makes one, a section that names it."""
    section = SerializeAsAny[Annotated[Component, BeforeValidator(kind.validate)]]
    if str(parameter.annotation) in (LOSS, LOSS_FACTORY):
        return section
    if parameter.name == "transforms":  # torchvision's, which apply others
        return tuple[section, ...]
    return parameter.annotation


def loaders() -> Mapping[str, Function]:
    """Benchmarks and the user's own images."""
    from hiertree.datasets.registry import LOADERS

    return LOADERS


@cache
def samplers() -> Mapping[str, Function]:
    """Batch samplers of hiertree."""
    from hiertree import samplers

    members = {name: getattr(samplers, name) for name in samplers.__all__}
    return {name: member for name, member in members.items() if "paths" in inspect.signature(member).parameters}


@cache
def losses() -> Mapping[str, Function]:
    """Losses of hiertree."""
    from hiertree import losses

    return _subclasses(losses, losses.__all__, losses.Loss)


@cache
def transforms() -> Mapping[str, Function]:
    """Transforms of torchvision."""
    from torchvision.transforms import v2

    return _subclasses(v2, dir(v2), v2.Transform)


def _subclasses(module: Any, names: Iterable[str], base: type) -> dict[str, Function]:
    members = {name: getattr(module, name) for name in names}
    kinds = {name: member for name, member in members.items() if inspect.isclass(member) and member is not base}
    return {name: kind for name, kind in kinds.items() if issubclass(kind, base)}


@cache
def optimizers() -> Mapping[str, Function]:
    """Optimizers of torch, in lower case."""
    from torch import optim

    unusual = ("Optimizer", "LBFGS", "SparseAdam", "Muon")  # the base; a closure, sparse gradients, matrices needed
    members = {name.lower(): getattr(optim, name) for name in dir(optim) if name not in unusual}
    return {name: member for name, member in members.items() if inspect.isclass(member)} | {"sgd": sgd}


def sgd(params: Any, lr: float, momentum: float = 0.9, dampening: float = 0.0, nesterov: bool | None = None) -> object:
    """The optimizer of torch; ``nesterov`` None means where there is momentum without dampening."""
    from torch.optim import SGD

    is_nesterov = momentum > 0 and not dampening if nesterov is None else nesterov
    return SGD(params, lr=lr, momentum=momentum, dampening=dampening, nesterov=is_nesterov)


@cache
def schedules() -> Mapping[str, Function]:
    """Schedules of torch that numbers describe."""
    from torch.optim import lr_scheduler

    unusual = ("LambdaLR", "MultiplicativeLR", "SequentialLR", "ChainedScheduler", "ReduceLROnPlateau", "LRScheduler")
    return {name: getattr(lr_scheduler, name) for name in lr_scheduler.__all__ if name not in unusual}
