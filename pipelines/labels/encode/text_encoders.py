"""The protocol of encoders of label texts, and three: CLIP's text tower, sentence-transformers, a table of vectors."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, Protocol

import numpy as np
from numpy.typing import NDArray

from hiertree.errors import DeviceError, EmbeddingError, MissingResourceError, OptionError, TableError, require_package
from hiertree.io.provenance import sha256
from hiertree.io.reading import read_json, read_parquet, reading_file
from hiertree.io.tables import arrow_texts, check_columns

from ...networks.clip import TextTower, clip_identity, load_clip
from ..settings import PROMPT

_DENSE = 512  # rows and columns up to which a matrix is small


class TextEncoder(Protocol):
    """Texts → unit vectors whose cosine says how alike the texts are in meaning."""

    @property
    def name(self) -> str:
        """As given on the command line."""

    @property
    def kind_margin(self) -> float:
        """The difference of cosines below which a text is not clearly nearer to one set than to another.

        0 where cosines say nothing of the meaning of a text that the list of place nouns does not know.
        """

    def encode(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """(n, d) float32 rows of unit norm; encoders may learn from the texts, so encode together what is compared."""

    def settings(self) -> dict[str, Any]:
        """JSON-able settings, for the manifest."""


def unit_rows(vectors: NDArray[Any], texts: Sequence[str]) -> NDArray[np.float32]:
    """The rows divided by their norms."""
    norms = np.linalg.norm(vectors, axis=1, keepdims=True)
    bad = np.flatnonzero(~np.isfinite(norms[:, 0]) | (norms[:, 0] == 0))
    if len(bad):
        quoted_texts = ", ".join(f"{texts[row][:40]!r}" for row in bad[:5]) + ", …" * (len(bad) > 5)
        problem = f"no direction for {len(bad)} texts: {quoted_texts}"
        remedy = "correct these labels in the table, or empty their cells"
        raise EmbeddingError(problem, expected="texts the encoder can read", remedy=remedy)
    return np.ascontiguousarray(vectors / norms, dtype=np.float32)


def truncated_svd(features: Any, dimensions: int) -> NDArray[np.float64]:
    """(n, dimensions) the rows in the space of the largest singular values, the largest first: cosines change least.

    The eigenvectors of F Fᵀ, or of Fᵀ F if that is smaller: all of a small matrix, else by ARPACK from a fixed start.
    """
    from scipy.sparse.linalg import ArpackError, LinearOperator, eigsh
    from sklearn.utils.extmath import randomized_svd
    from threadpoolctl import threadpool_limits

    rows, columns = (matrix.tocsr().astype(np.float64) for matrix in (features, features.T))
    is_wide = rows.shape[0] <= rows.shape[1]
    outer, inner = (rows, columns) if is_wide else (columns, rows)
    order = min(rows.shape)
    if order <= _DENSE:
        with threadpool_limits(1):
            values, vectors = np.linalg.eigh((outer @ inner).toarray())
        values, vectors = values[::-1][:dimensions], vectors[:, ::-1][:, :dimensions]
        return _projected(rows, values, vectors, is_wide=is_wide)
    gram = LinearOperator((order, order), matvec=lambda vector: outer @ (inner @ vector), dtype=np.float64)
    start = np.random.RandomState(0).uniform(-1, 1, order)
    basis = min(order, max(20, dimensions + dimensions // 4))  # of Lanczos vectors; more take longer
    with threadpool_limits(1):  # many small products: threads would only wait for each other
        try:
            values, vectors = eigsh(gram, dimensions, v0=start, ncv=basis)
        except ArpackError:  # few different singular values, so that one start leads to few of their vectors
            left, sizes, _ = randomized_svd(rows, dimensions, n_iter=7, random_state=0)
            return np.asarray(left * sizes)
    return _projected(rows, values[::-1], vectors[:, ::-1], is_wide=is_wide)


def _projected(rows: Any, values: NDArray[Any], vectors: NDArray[Any], *, is_wide: bool) -> NDArray[np.float64]:
    return np.asarray(vectors * np.sqrt(np.maximum(values, 0)) if is_wide else rows @ vectors)


def check_prompts(prompts: Sequence[str], *, example: str) -> None:
    """Refuse templates without a place for the label."""
    if not prompts or any("{label}" not in prompt for prompt in prompts):
        raise OptionError(f"prompts={list(prompts)}", expected=f"templates with {{label}}, such as {example!r}")


def mean_direction(
    texts: Sequence[str], prompts: Sequence[str], encode: Callable[[list[str]], NDArray[Any]]
) -> NDArray[np.float32]:
    """(n, d) float32 unit rows: each text in every template, encoded, averaged."""
    sums = sum(encode([prompt.replace("{label}", text) for text in texts]) for prompt in prompts)
    return unit_rows(np.asarray(sums), texts)


@dataclass(frozen=True)
class ClipEncoder:
    """CLIP's text tower; the vectors of several prompts are averaged.

    Args:
        model: an open_clip model name, ``hf-hub:OWNER/NAME`` of the Hugging Face hub, or ``local-dir:FOLDER`` with
            ``open_clip_config.json`` and weights in it.
        weights: one of open_clip's names for pretrained weights, or a file (``.safetensors``, or a state dict that
            ``torch.load(weights_only=True)`` reads); ignored with ``hf-hub:`` and ``local-dir:``.
        prompts: templates that hold ``{label}``.
        batch_size: texts at a time.
        device: ``cpu``, ``cuda`` or ``cuda:N``.

    Raises:
        OptionError: no prompt, a prompt without ``{label}``, an unknown model or weights, weights of another model.
        DeviceError: a GPU is asked for and there is none.
        MissingResourceError: named weights that are neither here nor within reach; the message says how to get them.
    """

    model: str = "ViT-L-14"
    weights: str = "laion2b_s32b_b82k"
    prompts: tuple[str, ...] = (PROMPT,)
    batch_size: int = 128
    device: str = "cpu"

    def __post_init__(self) -> None:
        check_prompts(self.prompts, example=PROMPT)
        if self.batch_size < 1:
            raise OptionError(f"batch_size={self.batch_size}", expected="at least 1")

    name: ClassVar[str] = "clip"
    kind_margin: ClassVar[float] = 0.02  # cosines of CLIP texts lie close together

    def settings(self) -> dict[str, Any]:
        """JSON-able settings, for the manifest; weights on this machine are named with their SHA-256."""
        return {"encoder": self.name, **clip_identity(self.model, self.weights), "prompts": list(self.prompts)}

    def encode(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """(n, d) float32 rows of unit norm, one per text: the mean direction over the prompts."""
        tower = TextTower(load_clip(self.model, self.weights, self.device), self.model)
        tower.to(self.device)
        templates = [prompt.replace("{label}", "{}") for prompt in self.prompts]
        return tower.encode(texts, templates=templates, batch_size=self.batch_size)


@dataclass(frozen=True)
class SentenceEncoder:
    """A sentence-transformers model; the vectors of several prompts are averaged."""

    model: str = "all-MiniLM-L6-v2"  # a name on the Hugging Face hub, or a folder
    prompts: tuple[str, ...] = ("{label}",)
    batch_size: int = 128
    device: str = "cpu"

    def __post_init__(self) -> None:
        check_prompts(self.prompts, example="a place called {label}")

    name: ClassVar[str] = "sentence-transformers"
    kind_margin: ClassVar[float] = 0.05  # not tuned

    def settings(self) -> dict[str, Any]:
        """JSON-able settings, for the manifest; a folder is named with the SHA-256 of its weights."""
        settings = {"encoder": self.name, "model": self.model, "prompts": list(self.prompts)}
        folder = Path(self.model)
        if not folder.is_dir():
            return settings
        weights = sorted([*folder.rglob("*.safetensors"), *folder.rglob("*.bin")])
        hashes = {path.relative_to(folder).as_posix(): sha256(path) for path in weights}
        return {**settings, "model": folder.name, "weights": hashes}

    def encode(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """(n, d) float32 rows of unit norm, one per text: the mean direction over the prompts."""

        def encoded(sentences: list[str]) -> NDArray[np.float64]:
            quiet = {"normalize_embeddings": True, "show_progress_bar": False}
            return np.asarray(self._model.encode(sentences, batch_size=self.batch_size, **quiet), dtype=np.float64)

        return mean_direction(texts, self.prompts, encoded)

    @cached_property
    def _model(self) -> Any:
        require_package("sentence_transformers", extra="sentences")
        _check_modules(Path(self.model))
        from sentence_transformers import SentenceTransformer

        try:
            return SentenceTransformer(self.model, device=self.device)
        except (OSError, ValueError) as error:
            problem = f"the model {self.model!r} could not be loaded ({str(error).splitlines()[0]})"
            raise MissingResourceError(problem, remedy="download it elsewhere and pass its folder") from error
        except (RuntimeError, AssertionError) as error:  # torch without CUDA asserts
            raise DeviceError(f"device={self.device!r}: {error}", expected="a device that is there") from error


def _check_modules(folder: Path) -> None:
    """Refuse a folder that names code of its own, which sentence-transformers before 6 runs."""
    file = folder / "modules.json"
    if not file.is_file():
        return
    modules = read_json(file, expected="the modules of a sentence-transformers model")
    types = [str(module.get("type")) for module in modules if isinstance(module, dict)] if modules else []
    if foreign := [name for name in types if not name.startswith("sentence_transformers.")]:
        raise OptionError(f"{file} names the code {foreign[0]!r}", expected="modules of sentence-transformers alone")


@dataclass(frozen=True)
class VectorTable:
    """Vectors of a Parquet file with columns ``label`` and ``vector``: of whole labels, or of words.

    A text without a row is the mean of the longest labels that it is made of ("natural arch bridge" may be "natural
    arch" and "bridge"); of labels that differ in case alone the first counts. Texts of which the table knows nothing
    share a direction at right angles to all others.
    """

    table: Path

    name: ClassVar[str] = "vectors"
    kind_margin: ClassVar[float] = 0.1

    def settings(self) -> dict[str, Any]:
        """JSON-able settings, for the manifest; the table is named with its SHA-256."""
        return {"encoder": self.name, "table": self.table.name, "sha256": sha256(self.table)}

    def encode(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """(n, d + 1) float32 rows of unit norm; the last dimension is that of unknown texts.

        Raises:
            TableError: a table without these columns, of other vectors, or that knows none of the texts.
        """
        vectors = self._rows[1]
        rows_of_texts = [self._find_rows(text.casefold().split()) for text in texts]
        if not any(rows_of_texts):
            raise TableError(f"{self.table}: no vector for any of {len(texts)} texts", expected="vectors of labels")
        sums = np.stack([vectors[rows].sum(axis=0) for rows in rows_of_texts])
        sums[~sums.any(axis=1), -1] = 1
        return unit_rows(sums, texts)

    def _find_rows(self, tokens: Sequence[str]) -> list[int]:
        """The rows of the longest labels of the table that the tokens make, from left to right."""
        row_of = self._rows[0]
        for end in range(len(tokens), 0, -1):
            row = row_of.get(" ".join(tokens[:end]))
            if row is not None:
                return [row, *self._find_rows(tokens[end:])]
        return self._find_rows(tokens[1:]) if tokens else []

    @cached_property
    def _rows(self) -> tuple[dict[str, int], NDArray[np.float64]]:
        """The row of each label, and rows of unit norm with a zero behind; a row of zeros stays as it is."""
        expected = "a Parquet file of labels and their vectors, all of one length"
        table = read_parquet(self.table, expected=expected)
        check_columns(self.table, table.column_names, ("label", "vector"))
        with reading_file(self.table, expected=expected):
            labels = arrow_texts(table.column("label"))
            lists = table.column("vector").combine_chunks()
            if len(set(lists.value_lengths().to_pylist())) != 1:
                raise TableError(f"{self.table}: vectors of several lengths, or none", expected=expected)
            vectors = lists.flatten().to_numpy(zero_copy_only=False).astype(np.float64).reshape(len(labels), -1)
        if not np.isfinite(vectors).all():
            raise TableError(f"{self.table}: a vector that is not finite", expected=expected)
        norms = np.linalg.norm(vectors, axis=1, keepdims=True)
        rows = np.pad(vectors / np.where(norms == 0, 1, norms), ((0, 0), (0, 1)))
        return {label.casefold(): row for row, label in reversed(list(enumerate(labels)))}, rows
