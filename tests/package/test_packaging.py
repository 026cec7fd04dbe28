"""The wheel holds every folder of source, and works where only the wheel is: in another venv, from another folder."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import venv
import zipfile
from itertools import product
from pathlib import Path

import pytest
import yaml
from packaging.requirements import Requirement
from project import ROOT, SOURCE_FOLDERS, project_table, source_packages


def new_python(folder, *installed):
    """The Python of a clean venv that holds what pip installs there; dependencies are lent by this environment."""
    venv.create(folder, with_pip=False)
    python = folder / "bin" / "python"
    command = [sys.executable, "-m", "pip", "--python", python, "install", "--quiet", "--no-deps", *installed]
    subprocess.run(command, check=True, capture_output=True)
    (site_packages,) = folder.glob("lib/python*/site-packages")
    lent = [path for path in sys.path if Path(path).name == "site-packages"]
    (site_packages / "lent.pth").write_text("\n".join(lent) + "\n")
    return python


@pytest.fixture(scope="module", params=["pip install .", "pip install -e ."])
def installation(request, tmp_path_factory):
    """A clean clone called hiertree, and the Python into which it is installed."""
    folder = tmp_path_factory.mktemp("installed")
    clone = folder / "hiertree"
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    names = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout
    for name in filter(None, names.split("\0")):
        if (ROOT / name).is_file():
            (clone / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(ROOT / name, clone / name)
    options = ["-e"] if "-e" in request.param else []
    return clone, new_python(folder / "venv", *options, clone)


TORCHRUN = "python -m torch.distributed.run --standalone -m hiertree --version"
ENTRANCES = (
    "python -c 'import hiertree as ht; from hiertree.metrics import evaluate; print(ht.LabelTree, evaluate)'",
    "python -m hiertree --version",
    "hiertree recipes",
)


@pytest.mark.nightly
@pytest.mark.parametrize(
    ("folder_name", "entrance"), [*product((".", "docs", "..", "../venv"), ENTRANCES), (".", TORCHRUN)]
)
def test_every_entrance_opens_after_an_install_from_a_clean_clone(installation, folder_name, entrance):
    clone, python = installation
    answer = subprocess.run(
        f"{python.parent}/{entrance}", shell=True, cwd=clone / folder_name, capture_output=True, text=True, check=False
    )
    assert answer.returncode == 0, answer.stderr
    assert answer.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    folder = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", str(folder), str(ROOT)]
    subprocess.run(command, check=True, capture_output=True)
    return next(folder.glob("*.whl"))


@pytest.fixture(scope="module")
def elsewhere(wheel, tmp_path_factory):
    return new_python(tmp_path_factory.mktemp("venv"), wheel)


@pytest.mark.nightly
def test_wheel_holds_every_source_file_and_nothing_else(wheel):
    with zipfile.ZipFile(wheel) as archive:
        names = {name for name in archive.namelist() if name.startswith("hiertree/")}
    expected = set()
    for folder, package in SOURCE_FOLDERS.items():
        for file in (ROOT / folder).rglob("*"):
            if file.is_file() and "__pycache__" not in file.parts:
                expected.add(f"{package.replace('.', '/')}/{file.relative_to(ROOT / folder).as_posix()}")
    assert names == expected


@pytest.mark.nightly
def test_every_package_imports_from_the_wheel_alone(elsewhere, tmp_path):
    code = f"import {', '.join(sorted(source_packages()))}; print(hiertree.__file__)"
    answer = subprocess.run([elsewhere, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert Path(answer.stdout.strip()).is_relative_to(elsewhere.parents[1])


@pytest.mark.nightly
@pytest.mark.parametrize("command", [["-m", "hiertree", "--version"], ["-m", "hiertree", "--help"]])
def test_command_line_runs_from_another_folder(elsewhere, tmp_path, command):
    answer = subprocess.run([elsewhere, *command], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert "hiertree" in answer.stdout


def test_one_version_everywhere():
    import hiertree

    assert project_table()["project"]["version"] == hiertree.__version__
    assert f"## {hiertree.__version__}" in (ROOT / "CHANGELOG.md").read_text()


@pytest.mark.nightly
@pytest.mark.parametrize("command", ["recipes", "recipes show sop-happier", "datasets list", "labels build --help"])
def test_the_wheel_works_without_being_unpacked(wheel, tmp_path, command):
    environment = {**os.environ, "PYTHONPATH": str(wheel)}
    answer = subprocess.run(
        [sys.executable, "-m", "hiertree", *command.split()],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    assert len(answer.stdout.splitlines()) > 20


@pytest.mark.nightly
def test_the_description_on_an_index_has_absolute_links_alone(wheel):
    with zipfile.ZipFile(wheel) as archive:
        (name,) = (name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
        description = archive.read(name).decode()
    links = re.findall(r"\]\(([^)]+)\)", description)
    assert links
    assert [link for link in links if not link.startswith(("https://", "#"))] == []


@pytest.mark.nightly
@pytest.mark.parametrize("field", ["Project-URL: Repository", "Classifier: Programming Language :: Python :: 3.14"])
def test_an_index_says_where_it_comes_from_and_where_it_runs(wheel, field):
    with zipfile.ZipFile(wheel) as archive:
        (name,) = (name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
        assert f"\n{field}" in archive.read(name).decode()


def test_one_version_is_cited():
    assert f"\nversion: {project_table()['project']['version']}\n" in (ROOT / "CITATION.cff").read_text()


def test_the_recipe_for_conda_forge_has_this_version_and_its_requirements():
    recipe = yaml.safe_load((ROOT / ".ci" / "conda-forge" / "recipe.yaml").read_text(encoding="utf-8"))
    project = project_table()["project"]
    assert recipe["context"]["version"] == project["version"]
    assert f">={recipe['context']['python_min']}" == project["requires-python"]
    oldest = {"python_version": recipe["context"]["python_min"]}
    lines = [
        line for line in map(Requirement, project["dependencies"]) if not line.marker or line.marker.evaluate(oldest)
    ]
    required = {(line.name, str(line.specifier)) for line in lines}
    assert {tuple(line.split()) for line in recipe["requirements"]["run"][1:]} == required


@pytest.mark.parametrize("workflow", sorted((ROOT / ".github" / "workflows").glob("*.yml")), ids=lambda file: file.name)
def test_actions_are_pinned_by_their_hash(workflow):
    uses = re.findall(r"uses: (.*)", workflow.read_text(encoding="utf-8"))
    assert uses
    assert [action for action in uses if not re.fullmatch(r"[\w-]+/[\w-]+@[0-9a-f]{40} # v[\d.]+", action)] == []
