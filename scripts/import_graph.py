"""Which of hiertree's modules import which, read from the source: for the picture of the architecture and its test."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PACKAGES = ("hiertree", "metrics", "losses", "pipelines")  # each may import those before it


@dataclass(frozen=True)
class Import:
    """One imported name. ``target`` is the module of ours that defines it, or the name of another library.

    ``for_types`` marks what stands under ``if TYPE_CHECKING``, ``inside_function`` what runs when a function is called.
    """

    importer: str
    target: str
    name: str
    line: int
    inside_function: bool
    for_types: bool
    is_own: bool
    is_relative: bool


def package_of(module: str) -> str:
    """The source folder of a module: ``hiertree``, ``metrics``, ``losses`` or ``pipelines``."""
    second = module.split(".")[1:2]
    return second[0] if second and second[0] in PACKAGES else "hiertree"


class Source:
    """The modules of a checkout, by their installed names, and all their imports."""

    def __init__(self, root: Path = ROOT) -> None:
        self.root = root
        self.paths: dict[str, Path] = {}
        for package in PACKAGES:
            for path in sorted((root / package).rglob("*.py")):
                parts = path.relative_to(root).with_suffix("").parts
                parts = parts if parts[0] == "hiertree" else ("hiertree", *parts)
                self.paths[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
        self._trees = {module: ast.parse(path.read_text(encoding="utf-8")) for module, path in self.paths.items()}

    def is_face(self, module: str) -> bool:
        """Whether the module is a package's ``__init__.py``."""
        return self.paths[module].name == "__init__.py"

    @cached_property
    def imports(self) -> list[Import]:
        """Every import statement, a name each; names that a package hands on lead to the module that defines them."""
        return [found for module in self.paths for found in self._imports_of(module)]

    def _imports_of(self, module: str) -> Iterator[Import]:
        for node, inside_function, for_types in _walk(self._trees[module]):
            when = (node.lineno, inside_function, for_types)
            if isinstance(node, ast.Import):
                for alias in node.names:
                    own = alias.name.split(".")[0] == "hiertree"
                    target = alias.name if own else alias.name.split(".")[0]
                    yield Import(module, target, "", *when, own, is_relative=False)
            else:
                base = self._absolute(module, node)
                own = base.split(".")[0] == "hiertree"
                for alias in node.names:
                    target = self._home(base, alias.name) if own else base.split(".")[0]
                    yield Import(module, target, alias.name, *when, own, node.level > 0)

    def _absolute(self, module: str, node: ast.ImportFrom) -> str:
        if not node.level:
            return node.module or ""
        parts = module.split(".")
        package = parts[: len(parts) - node.level + self.is_face(module)]
        return ".".join([*package, *([node.module] if node.module else [])])

    def _home(self, base: str, name: str) -> str:
        """The module that defines ``name`` when it is imported from ``base``."""
        if f"{base}.{name}" in self.paths:
            return f"{base}.{name}"
        if self.is_face(base):
            for node, *_ in _walk(self._trees[base]):
                if isinstance(node, ast.ImportFrom):
                    for alias in node.names:
                        if (alias.asname or alias.name) == name:
                            return self._home(self._absolute(base, node), alias.name)
        return base

    @cached_property
    def arrows(self) -> set[tuple[str, str]]:
        """(importer, imported) between modules; what a package's ``__init__.py`` only hands on is no arrow."""
        return {
            (found.importer, found.target)
            for found in self.imports
            if found.is_own and not self.is_face(found.importer) and not self.is_face(found.target)
        }

    def room_of(self, module: str, depth: int) -> str:
        """The folder of a module, at most ``depth`` names long; a file that lies higher is a room by itself."""
        folders = self.paths[module].relative_to(self.root).parts[:-1]
        return "/".join(folders[:depth]) if len(folders) >= depth else module

    def room_arrows(self, depth: int) -> set[tuple[str, str]]:
        """(importer, imported) between rooms."""
        rooms = {(self.room_of(one, depth), self.room_of(other, depth)) for one, other in self.arrows}
        return {(one, other) for one, other in rooms if one != other}

    def libraries_of(self, module: str) -> set[str]:
        """Libraries that importing a module loads, directly or through other modules of ours."""
        seen, open_modules, libraries = {module}, [module], set()
        while open_modules:
            for found in self._loaded_by[open_modules.pop()]:
                if not found.is_own:
                    libraries.add(found.target)
                elif found.target not in seen:
                    seen.add(found.target)
                    open_modules.append(found.target)
        return libraries - sys.stdlib_module_names

    @cached_property
    def _loaded_by(self) -> dict[str, list[Import]]:
        loaded: dict[str, list[Import]] = {module: [] for module in self.paths}
        for found in self.imports:
            if not (found.inside_function or found.for_types):
                loaded[found.importer].append(found)
        return loaded


def _walk(
    tree: ast.AST, inside_function: bool = False, for_types: bool = False
) -> Iterator[tuple[ast.Import | ast.ImportFrom, bool, bool]]:
    """Import statements; whether each runs only when a function is called, and whether only type checkers read it."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.Import | ast.ImportFrom):
            yield node, inside_function, for_types
        else:
            is_function = isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
            yield from _walk(node, inside_function or is_function, for_types or _is_for_types(node))


def _is_for_types(node: ast.AST) -> bool:
    return isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"
