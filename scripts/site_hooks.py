"""What mkdocs adds to docs/: the reference, the help of commands, the papers' values, links to other files."""

from __future__ import annotations

import atexit
import posixpath
import re
import shutil
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mkdocs.plugins import event_priority, get_plugin_logger
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
_LINK = re.compile(r'href="(?![a-z]+:|[#/])([^"#]+)')
_log = get_plugin_logger("site")
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


def on_page_content(html: str, *, page: Page, files: Files, **_: Any) -> str:
    """Let the links of a notebook lead to pages, as mkdocs does for Markdown, and warn of those that lead nowhere."""
    if not page.file.src_uri.endswith(".py"):
        return html

    def resolve(link: re.Match[str]) -> str:
        target = files.get_file_from_path(posixpath.normpath(posixpath.join(page.file.src_uri, "..", link[1])))
        if target is None:
            _log.warning("%s links to %s, which does not exist", page.file.src_uri, link[1])
            return link[0]
        return f'href="{target.url_relative_to(page.file)}'

    return _LINK.sub(resolve, html)
