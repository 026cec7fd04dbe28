"""Finished blocks of an interrupted evaluation, kept in a folder with what they were computed from."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

import hiertree
from hiertree.errors import CheckpointError
from hiertree.io.files import replacing, write_json

if TYPE_CHECKING:
    import os

    from numpy.typing import NDArray

    from .layout import Layout
    from .retrieval import Retrieval
    from .similarity import Similarity

_FINGERPRINT = "fingerprint.json"
_BYTES_AT_ONCE = 2**26


class FinishedBlocks:
    """A folder of the values of blocks, each a file that appears whole.

    Args:
        folder: made if it is not there.
        fingerprint: what the values are computed from, by name.

    Raises:
        CheckpointError: the folder belongs to another evaluation; the message names what differs.
    """

    def __init__(self, folder: str | os.PathLike[str], fingerprint: dict[str, str]) -> None:
        self._folder = Path(folder)
        stored = _stored_fingerprint(self._folder / _FINGERPRINT)
        if stored is None:
            write_json(self._folder / _FINGERPRINT, fingerprint)
            return
        others = [name for name, digest in fingerprint.items() if stored.get(name) != digest]
        if others:
            raise CheckpointError(
                f"{self._folder} holds blocks of an evaluation with other {', '.join(others)}",
                expected="the same inputs and options",
                remedy="name another folder",
            )

    def load(self, rows: slice) -> NDArray[np.float64] | None:
        """The values of a block, or None if it is not finished."""
        try:
            found: NDArray[np.float64] = np.load(self._file(rows), allow_pickle=False)
        except FileNotFoundError:
            return None
        except (ValueError, OSError, EOFError) as error:
            raise CheckpointError(f"{self._file(rows)} is damaged", remedy="remove it to have it computed") from error
        return found

    def save(self, rows: slice, values: NDArray[np.float64]) -> None:
        """Keep the values of a block."""
        with replacing(self._file(rows)) as temporary:
            np.save(temporary, values)

    def _file(self, rows: slice) -> Path:
        return self._folder / f"queries-{rows.start:09d}-{rows.stop:09d}.npy"


def fingerprint(retrieval: Retrieval[Similarity], layout: Layout) -> dict[str, str]:
    """SHA-256 of everything that a value depends on, by name; the size of the blocks is not among it."""
    request, similarity = retrieval.request, retrieval.source
    tree, mask = similarity.gallery.tree, similarity.gallery.mask
    products = f"{layout.way} {layout.height} {similarity.tiles[0].stop} {similarity.held} {similarity.dtype}"
    products += f" {similarity.device}"
    parts: dict[str, list[Any]] = {
        "embeddings": [*similarity.embeddings],
        "labels": [tree.order, tree.low, tree.high, tree.queries],
        "mask": [mask.start, mask.item, str(mask.place)],
        "metrics": [str(request.names), request.ties, repr(request.rules), *retrieval.relevances()],
        "products": [products, np.__version__],
        "version of hiertree": [hiertree.__version__],
    }
    return {name: _digest(values) for name, values in parts.items()}


def _digest(values: list[Any]) -> str:
    digest = hashlib.sha256()
    for value in values:
        if isinstance(value, str):
            digest.update(value.encode())
            continue
        digest.update(f"{value.dtype} {value.shape} ".encode())
        rows = max(_BYTES_AT_ONCE // max(value[:1].nbytes, 1), 1)
        for start in range(0, len(value), rows):
            digest.update(np.ascontiguousarray(value[start : start + rows]).data)
    return digest.hexdigest()


def _stored_fingerprint(path: Path) -> dict[str, str] | None:
    try:
        stored = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        raise CheckpointError(f"{path} cannot be read", remedy="name another folder") from error
    return stored if isinstance(stored, dict) else {}
