"""What mkdocs adds to docs/: a page of reference for each public module, and links to files outside of docs/."""

from __future__ import annotations

import atexit
import re
import shutil
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mkdocs.plugins import event_priority
from mkdocs.structure.files import File

if TYPE_CHECKING:
    from mkdocs.config.defaults import MkDocsConfig
    from mkdocs.structure.files import Files

SCRIPTS = Path(__file__).parent
sys.path.insert(0, str(SCRIPTS))

from public_api import MODULES  # noqa: E402
from typing_links import lay_out  # noqa: E402

_OUTSIDE = re.compile(r"\]\((?:\.\./)+((?:benchmarks|hiertree|losses|metrics|pipelines|scripts|tests)(?:/[^)#]*)?)\)")


@event_priority(100)  # before mkdocstrings reads its paths
def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Lay out the package for the reader of docstrings, and list the reference in the navigation."""
    sources = Path(tempfile.mkdtemp())
    atexit.register(shutil.rmtree, sources, ignore_errors=True)
    lay_out(sources)
    config.plugins["mkdocstrings"].config["handlers"]["python"]["paths"] = [str(sources)]
    config.nav = [*(config.nav or []), {"Reference": [{module: f"reference/{module}.md"} for module in MODULES]}]
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages of reference, and those whose text lies elsewhere."""
    pages = {
        f"reference/{module}.md": f"# {module}\n\n::: {module}\n    options: {{show_root_heading: false}}\n"
        for module in MODULES
    }
    results = (SCRIPTS.parent / "benchmarks" / "RESULTS.md").read_text(encoding="utf-8")
    pages["benchmarks.md"] = results.replace("# Results", "# Speed and memory", 1).replace("../docs/", "")
    pages["changelog.md"] = (SCRIPTS.parent / "CHANGELOG.md").read_text(encoding="utf-8")
    for name, text in pages.items():
        files.append(File.generated(config, name, content=text))
    return files


def on_page_markdown(markdown: str, *, config: MkDocsConfig, **_: Any) -> str:
    """Let links to source files lead to the repository."""
    return _OUTSIDE.sub(rf"]({config.repo_url}/blob/main/\1)", markdown)
