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


def place(found):
    return f"{SOURCE.paths[found.importer].relative_to(SOURCE.root)}:{found.line}: {found.target} {found.name}".rstrip()


def test_imports_run_downward():
    floor = {package: number for number, package in enumerate(PACKAGES)}
    above = [
        place(found)
        for found in OWN
        if floor[package_of(found.target)] > floor[package_of(found.importer)]
        and found.importer != "hiertree.__main__"  # ``python -m hiertree`` starts the command line
        and not (found.importer == "hiertree" and found.for_types)  # the type of load_model
    ]
    assert above == []


def test_modules_import_each_other_in_no_circle():
    assert circles(SOURCE.arrows) == []


@pytest.mark.parametrize("depth", [2, 3, 4])
def test_rooms_import_each_other_in_no_circle(depth):
    assert circles(SOURCE.room_arrows(depth)) == []


def test_imports_are_relative_inside_a_package_and_absolute_across_packages():
    crossing = [
        place(found)
        for found in OWN
        if found.target != "hiertree"  # for its version
        and found.is_relative != (package_of(found.target) == package_of(found.importer))
    ]
    assert crossing == []


def test_private_names_stay_in_their_module():
    private = [
        place(found) for found in OWN if any(part.startswith("_") for part in [*found.target.split("."), found.name])
    ]
    assert [entry for entry in private if "hiertree.__main__" not in entry] == []


def test_an_import_inside_a_function_saves_loading_a_library():
    useless = [
        place(found)
        for found in OWN
        if found.inside_function and not SOURCE.libraries_of(found.target) - SOURCE.libraries_of(found.importer)
    ]
    assert useless == []


def test_two_classes_never_share_a_name():
    homes = defaultdict(list)
    for module, path in SOURCE.paths.items():
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                homes[node.name].append(module)
    assert {name: modules for name, modules in homes.items() if len(modules) > 1} == {}


def test_no_package_hands_on_a_name_that_hides_one_of_its_modules():
    hidden = [
        place(found)
        for found in OWN
        if SOURCE.is_face(found.importer)
        and f"{found.importer}.{found.name}" in SOURCE.paths
        and found.target != f"{found.importer}.{found.name}"
    ]
    assert hidden == []
