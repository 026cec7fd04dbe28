"""What mkdocs adds to docs/: the reference, the help of commands, the papers' values, links to other files."""

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
    from mkdocs.structure.pages import Page

SCRIPTS = Path(__file__).parent
sys.path.insert(0, str(SCRIPTS))

from commands_page import commands_page  # noqa: E402
from papers_page import papers_page  # noqa: E402
from public_api import MODULES  # noqa: E402
from recipe_keys import keys_page  # noqa: E402
from site_examples import without_prompts  # noqa: E402
from typing_links import lay_out  # noqa: E402

GENERATED = {"commands.md": commands_page, "papers.md": papers_page, "recipes.md": keys_page}
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


def on_page_markdown(markdown: str, *, page: Page, config: MkDocsConfig, **_: Any) -> str:
    """Add what is generated, show doctests as code and results, and let links to sources lead to the repository."""
    if generated := GENERATED.get(page.file.src_uri):
        markdown = f"{markdown}\n{generated()}\n"
    return _OUTSIDE.sub(rf"]({config.repo_url}/blob/main/\1)", without_prompts(markdown))
