"""The page: one HTML file that needs nothing else; its script may run, and no other."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING

from hiertree.errors import ImageError
from hiertree.io.files import write_text

from ....pages import data_uri, fill_page, inline_script
from .content import TreeNode, as_json, level_sizes

if TYPE_CHECKING:
    from ...fill.image_folder import ImageFolder


def write_tree_page(
    path: str | os.PathLike[str], root: TreeNode, *, title: str = "Landmark labels", images: ImageFolder | None = None
) -> None:
    """Write the page, whole or not at all; the same tree and images give the same bytes.

    Args:
        path: the HTML file.
        root: the tree.
        title: of the page.
        images: where images of landmarks are; up to six of each supercategory, and above, are shown.

    Raises:
        ImageError: an image does not decode.
    """
    from markupsafe import Markup

    package = "hiertree.pipelines.labels.export.tree_page"
    content = {"tree": as_json(root), "pictures": {} if images is None else _pictures(root, images)}
    data = json.dumps(content, ensure_ascii=False, separators=(",", ":")).replace("<", "\\u003c")
    page = {
        "title": title,
        "root": root,
        "levels": level_sizes(root),
        "data": Markup(data),  # noqa: S704  (no < is left in it)
        **inline_script(package),
    }
    write_text(path, fill_page(package, page))


def pictured(root: TreeNode, images: ImageFolder) -> dict[int, Path]:
    """The image of each example of a node that has children, as far as there is one."""
    wanted = {landmark for node in root.below() if node.children for landmark, _ in node.examples}
    found = {landmark: images.find(landmark) for landmark in sorted(wanted)}
    return {landmark: path for landmark, path in found.items() if path is not None}


def _pictures(root: TreeNode, images: ImageFolder) -> dict[int, str]:
    """The same as data URIs."""
    return {landmark: _embedded(path) for landmark, path in pictured(root, images).items()}


def _embedded(path: Path) -> str:
    from PIL import Image

    try:
        with Image.open(path) as image:
            return data_uri(image)
    except (OSError, SyntaxError, Image.DecompressionBombError) as error:
        raise ImageError(f"{path}: {error}", expected="an image", remedy="repair or remove it") from error
