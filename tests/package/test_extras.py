"""hiertree's core needs no extra; what needs one names it; and every package that is imported is declared."""

from __future__ import annotations

import ast
import json
import os
import re
import subprocess
import sys
from importlib import metadata

import pytest
import yaml
from import_graph import Source
from nightly import GROUPS
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from project import ROOT, project_table
from try_extras import NEEDS, REFUSED, USED

SOURCE = Source()
DISTRIBUTIONS = {
    "PIL": "pillow",
    "bs4": "beautifulsoup4",
    "faiss": "faiss-cpu",
    "open_clip": "open-clip-torch",
    "sklearn": "scikit-learn",
    "yaml": "pyyaml",
}
NOT_IMPORTED = {"tensorboard", "onnx", "onnxscript", "python-calamine"}  # but by torch and, for sheets, by pandas


def distribution(module):
    return DISTRIBUTIONS.get(module, canonicalize_name(module))


def declared():
    """Packages by extra; the core's are in all of them."""
    table = project_table()["project"]
    core = _names(table["dependencies"])
    extras = {extra: core | _names(lines) for extra, lines in table["optional-dependencies"].items()}
    extras["all"] = set().union(*(packages for extra, packages in extras.items() if extra != "dev"))
    return {"": core, **extras}


def _names(lines):
    return {canonicalize_name(Requirement(line).name) for line in lines} - {"hiertree"}


def imported():
    libraries = {reference.target for reference in SOURCE.imports if not reference.is_own} - sys.stdlib_module_names
    return {distribution(library) for library in libraries}


def test_every_imported_package_is_declared_and_every_declared_one_imported():
    assert imported() - declared()["all"] == set()
    assert declared()["all"] - imported() == NOT_IMPORTED


def test_all_holds_every_extra_but_the_tools_of_development():
    (line,) = project_table()["project"]["optional-dependencies"]["all"]
    assert Requirement(line).extras == set(declared()) - {"", "all", "dev"}


def test_an_extra_that_is_asked_for_brings_the_packages_that_were_missing():
    wrong = []
    for module, path in SOURCE.paths.items():
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "require_package":
                names = {distribution(name.value) for name in node.args if isinstance(name, ast.Constant)}
                extra = ast.literal_eval(node.keywords[0].value)
                wrong += [f"{module}:{node.lineno}"] if not names <= declared()[extra] else []
    assert wrong == []


def test_every_extra_alone_is_tried_daily():
    jobs = yaml.safe_load((ROOT / ".github" / "workflows" / "checks.yml").read_text(encoding="utf-8"))["jobs"]
    extras = set(declared()) - {"", "all", "dev"} | {"base"}
    assert set(jobs["extras"]["strategy"]["matrix"]["extra"]) == set(USED) == extras


def test_every_nightly_test_belongs_to_a_group():
    files = {
        file for file in (ROOT / "tests").rglob("test_*.py") if re.search(r"mark\.(nightly|fuzz)\b", file.read_text())
    }
    groups = {ROOT / name for names in GROUPS.values() for name in names if name.startswith("tests/")}
    assert [file for file in files if groups.isdisjoint([file, *file.parents])] == []
    assert [group for group in groups if not any(file.is_relative_to(group) for file in files)] == []


def outside(extra):
    """Modules that are installed here and not brought by the core's or an extra's requirements, nor what those need."""
    brought, unread = set(), [*declared()[extra], "hiertree"]
    while unread:
        name = unread.pop()
        if name not in brought and (requirement := _requires(name)) is not None:
            brought.add(name)
            unread += requirement if name != "hiertree" else []
    installed = metadata.packages_distributions()
    return [module for module, names in installed.items() if brought.isdisjoint(map(canonicalize_name, names))]


def _requires(name):
    try:
        lines = map(Requirement, metadata.requires(name) or [])
    except metadata.PackageNotFoundError:
        return None
    return [canonicalize_name(line.name) for line in lines if not line.marker or line.marker.evaluate({"extra": ""})]


_TRY = """
import contextlib, io, json, sys
sys.modules.update(dict.fromkeys(json.loads(sys.argv[1])))
def outcome(program):
    printed = io.StringIO()
    with contextlib.redirect_stderr(printed), contextlib.redirect_stdout(io.StringIO()):
        try:
            exec(program, {})
        except SystemExit as ended:
            return "" if not ended.code else printed.getvalue()
        except Exception as error:
            return f"{type(error).__name__}: {error}"
    return ""
answers = [outcome(program) for program in json.loads(sys.argv[2])]
print(json.dumps(answers))
"""


MAKES_EMBEDDINGS = next(program for program in USED["base"] if "e.npz" in program)  # which report reads
ALONE = {  # what is tried each time; scripts/try_extras.py tries all in real venvs
    "": USED["base"],
    "download": USED["download"],
    "interop": tuple(program for program in USED["interop"] if "as_pytorch_metric_learning" in program),
    "plots": USED["plots"],
}


@pytest.fixture(scope="module")
def texts(tmp_path_factory):
    """By extra, what programs say in a process that sees its packages alone; nothing where they run."""
    messages = {}
    for installed in (*ALONE, *sorted(set(NEEDS.values()))):
        folder = tmp_path_factory.mktemp("work")
        (folder / "landmarks.csv").write_bytes((ROOT / "pipelines" / "landmarks.csv").read_bytes())
        refused = [program for extra in REFUSED if NEEDS.get(extra, "") == installed for program in REFUSED[extra]]
        programs = list(dict.fromkeys([MAKES_EMBEDDINGS, *ALONE.get(installed, ()), *refused]))
        command = [sys.executable, "-c", _TRY, json.dumps(outside(installed)), json.dumps(programs)]
        quiet = {**os.environ, "HIERTREE_PROGRESS": "0"}
        answer = subprocess.run(command, cwd=folder, env=quiet, capture_output=True, text=True, check=True)
        messages[installed] = dict(zip(programs, json.loads(answer.stdout.splitlines()[-1]), strict=True))
    return messages


@pytest.mark.parametrize(("extra", "program"), [(extra, use) for extra in ALONE for use in ALONE[extra]])
def test_the_core_and_an_extra_alone_work_without_any_other(texts, extra, program):
    assert texts[extra][program] == ""


@pytest.mark.parametrize(("extra", "program"), [(extra, program) for extra in REFUSED for program in REFUSED[extra]])
def test_what_needs_an_extra_names_it_in_one_line(texts, extra, program):
    text = texts[NEEDS.get(extra, "")][program].strip()
    assert text.endswith(f'pip install "hiertree[{extra}]"')
    assert len(text.splitlines()) == 1
    assert text.startswith(("error: ", "MissingPackageError: "))


def test_arrays_are_measured_without_importing_torch():
    code = "import sys; from hiertree.metrics import evaluate; evaluate([[1, 0], [1, 1]], [0, 0])"
    code += "; assert 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)
