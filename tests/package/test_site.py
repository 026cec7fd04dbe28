"""The documentation's site builds without a warning, and its notebooks run."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import sysconfig

import pytest
from project import ROOT

TUTORIALS = ("labels", "metrics")
PATTERNS = ("*.md", "benchmarks/*.md", ".github/**/*.md", "docs/**/*.md", "docs/tutorials/*.py")
PAGES = [path for pattern in PATTERNS for path in sorted(ROOT.glob(pattern))]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_links_resolve_in_the_repository(page):
    links = re.findall(r"\]\((?!https?:|mailto:|#)([^)#\s]+)", page.read_text(encoding="utf-8"))
    assert [link for link in links if not (page.parent / link).exists()] == []


@pytest.mark.nightly
def test_the_site_builds_strictly_and_the_tutorials_show_what_they_print(tmp_path):
    for library in ("mkdocs", "mkdocs_jupyter", "mkdocstrings"):
        pytest.importorskip(library, reason="the site is built with hiertree[dev]")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(tmp_path / "site")]
    path = os.pathsep.join([sysconfig.get_path("scripts"), os.environ["PATH"]])  # a notebook calls the command
    environment = {**os.environ, "PATH": path, "TMPDIR": str(tmp_path), "OMP_NUM_THREADS": "1"}
    environment |= {"NO_MKDOCS_2_WARNING": "1", "HIERTREE_PROGRESS": "0"}
    process = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert process.returncode == 0, process.stderr[-3000:]
    for name in TUTORIALS:
        page = (tmp_path / "site" / "tutorials" / name / "index.html").read_text(encoding="utf-8")
        assert "jp-OutputArea-output" in page, name
        notebook_links = re.findall(r'href="([^"#]+\.(?:md|py))["#]', page)
        assert notebook_links == [], name
    for page in (tmp_path / "site").rglob("index.html"):
        if page.parent.name != "architecture":  # its changes to sources hold docstrings
            markdown = page.read_text(encoding="utf-8")
            assert [mark for mark in ("&gt;&gt;&gt; ", "BLANKLINE", "# doctest") if mark in markdown] == [], page
    commands = (tmp_path / "site" / "commands" / "index.html").read_text(encoding="utf-8")
    assert "-h, --help" in commands
