"""The folders show the architecture: imports run downward, in no circle, and take nothing private."""

from __future__ import annotations

import ast
from collections import defaultdict

import networkx as nx
import pytest
from import_graph import PACKAGES, Source, package_of

SOURCE = Source()
OWN = [found for found in SOURCE.imports if found.is_own]


def circles(arrows):
    return [sorted(group) for group in nx.strongly_connected_components(nx.DiGraph(arrows)) if len(group) > 1]


def place(reference):
    file = SOURCE.paths[reference.importer].relative_to(SOURCE.root)
    return f"{file}:{reference.line}: {reference.target} {reference.name}".rstrip()


def test_imports_run_downward():
    floor = {package: height for height, package in enumerate(PACKAGES)}
    violations = [
        place(reference)
        for reference in OWN
        if floor[package_of(reference.target)] > floor[package_of(reference.importer)]
        and reference.importer != "hiertree.__main__"  # ``python -m hiertree`` starts the command line
        and not (reference.importer == "hiertree" and reference.for_types)  # the type of load_model
    ]
    assert violations == []


def test_modules_import_each_other_in_no_circle():
    assert circles(SOURCE.arrows) == []


@pytest.mark.parametrize("depth", [2, 3, 4])
def test_rooms_import_each_other_in_no_circle(depth):
    assert circles(SOURCE.room_arrows(depth)) == []


def test_imports_are_relative_inside_a_package_and_absolute_across_packages():
    crossing = [
        place(reference)
        for reference in OWN
        if reference.target != "hiertree"  # for its version
        and reference.is_relative != (package_of(reference.target) == package_of(reference.importer))
    ]
    assert crossing == []


def test_private_names_stay_in_their_module():
    private = [
        place(reference)
        for reference in OWN
        if any(component.startswith("_") for component in [*reference.target.split("."), reference.name])
    ]
    assert [entry for entry in private if "hiertree.__main__" not in entry] == []


def test_an_import_inside_a_function_saves_loading_a_library():
    useless = [
        place(reference)
        for reference in OWN
        if reference.inside_function
        and not SOURCE.libraries_of(reference.target) - SOURCE.libraries_of(reference.importer)
    ]
    assert useless == []


def test_two_classes_never_share_a_name():
    modules_of_class = defaultdict(list)
    for module, path in SOURCE.paths.items():
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                modules_of_class[node.name].append(module)
    assert {name: modules for name, modules in modules_of_class.items() if len(modules) > 1} == {}


def test_no_package_hands_on_a_name_that_hides_one_of_its_modules():
    hidden = [
        place(reference)
        for reference in OWN
        if SOURCE.is_face(reference.importer)
        and f"{reference.importer}.{reference.name}" in SOURCE.paths
        and reference.target != f"{reference.importer}.{reference.name}"
    ]
    assert hidden == []
