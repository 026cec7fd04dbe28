"""A trained network with all that is needed to use it on new images."""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import cached_property
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import DataLoader, IterableDataset

from hiertree.arrays import as_paths, unit_rows
from hiertree.errors import DeviceError, InputError, OptionError, ShapeError, raised_as
from hiertree.io.progress import track
from hiertree.io.provenance import digest
from hiertree.level_columns import UNKNOWN
from hiertree.options import check_integer
from hiertree.tree import LabelTree

from ..hub import upload
from ..networks.clip import HUB, TEMPLATES
from ..networks.embedder import Embedder, embed_at_scales, require_finite
from ..networks.loading import Backbone, is_pretrained, load_network
from ..networks.settings import Preprocessing, ViewSettings
from ..pair_scores import nearest_images
from ..stored_embeddings.embeddings_files import read_embeddings
from ..training.data.batches import batch_loader, keys_in_order
from ..training.data.texts import AnyTextTower, load_text_tower
from ..training.data.views import ImageViews
from ..training.recipe.settings import ImageSettings
from .image_inputs import as_image_source, images_of_batch
from .model_folder import TREE, ModelRecord, download_model, save_model
from .zero_shot import Classification, Parents, classify_by_text, labels_of_nodes

if TYPE_CHECKING:
    import pandas as pd
    from numpy.typing import NDArray


class GalleryIndex:
    """Embeddings to search in exactly, by cosine, and a row of a table for each.

    Args:
        embeddings: (n, d).
        table: one row per image, in this order: its name in the column ``image``, then its labels, coarse → fine, where
            they are known.
        model: embeds texts that are searched for.
        weights: SHA-256 of the weights that made the embeddings, where it is known.

    Raises:
        ShapeError: not one row per embedding.
        InputError: integers, whose products overflow, or embeddings of another model.

    >>> import pandas as pd
    >>> index = GalleryIndex(np.eye(3, dtype=np.float32), pd.DataFrame({"image": ["a.jpg", "b.jpg", "c.jpg"]}))
    >>> scores, rows = index.search(np.array([[0.0, 2.0, 1.0]], np.float32), k=2)
    >>> index.table["image"][rows[0]].tolist()
    ['b.jpg', 'c.jpg']
    """

    def __init__(
        self, embeddings: Any, table: pd.DataFrame, *, model: TrainedModel | None = None, weights: str | None = None
    ) -> None:
        if len(embeddings) != len(table):
            raise ShapeError(f"{len(table)} rows of names", expected=f"{len(embeddings)}, one for each embedding")
        if np.asarray(embeddings[:1]).dtype.kind != "f":
            remedy = "codes are measured by `hiertree evaluate --codes`; give quantized vectors as floats"
            raise InputError(f"embeddings of {embeddings.dtype}", expected="floats", remedy=remedy)
        self.embeddings, self.table, self.model, self.weights = embeddings, table, model, weights
        if model is not None:
            self.require_model(model)

    @classmethod
    def load(cls, source: str | os.PathLike[str], *, model: TrainedModel | None = None) -> GalleryIndex:
        """Read a folder that ``hiertree embed`` wrote, a finished run, or a file of embeddings.

        Of queries and a gallery of their own, the gallery is read.

        Raises:
            OptionError: nothing is there.
            InputError: damaged embeddings, or of another model.
        """
        import pandas as pd

        collection = read_embeddings(Path(source), in_parts=True, needs_labels=False, uneven="unknown")
        items = collection.items
        columns: dict[str, Any] = {"image": items.image_names or np.arange(len(items.paths)).astype(str)}
        if collection.tree is not None:
            labels = ((path, collection.tree.labels_of(path)) for path in as_paths(items.paths).tolist())
            rows = ([*row, *[None] * path.count(UNKNOWN)] for path, row in labels)
            columns |= zip(collection.tree.level_names, zip(*rows, strict=True), strict=True)
        weights = getattr(items.embeddings, "model", None)
        return cls(np.asarray(items.embeddings), pd.DataFrame(columns), model=model, weights=weights)

    def search(
        self, queries: NDArray[np.floating] | str | Sequence[str], *, k: int = 10
    ) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
        """The (Q, k) cosines and rows of the nearest images, best first; of fewer images all.

        Args:
            queries: (Q, d) embeddings; or a text, or several, which the index's ``model`` embeds.
            k: images for each query.

        Raises:
            OptionError: k is below 1, or texts in an index without a model.
            ShapeError: embeddings of another network.
        """
        check_integer("k", k)
        if isinstance(queries, str):
            queries = [queries]
        if not isinstance(queries, np.ndarray):
            if self.model is None:
                expected = "GalleryIndex.load(…, model=load_model('open_clip:…')), by which texts are embedded"
                raise OptionError("texts in an index without a model", expected=expected)
            queries = self.model.embed(texts=queries, templates=("{}",), progress=False)
        if queries.ndim != 2 or queries.shape[1] != self.embeddings.shape[1]:
            problem = f"queries of shape {queries.shape} in an index of {self.embeddings.shape[1]} dimensions"
            raise ShapeError(problem, expected="embeddings (Q, d) of the model that embedded the gallery")
        left_out = [np.empty(0, np.int64)] * len(queries)
        rows = nearest_images(queries, self.embeddings, count=k, left_out=left_out)
        nearest = unit_rows(np.asarray(self.embeddings, np.float32)[rows.ravel()]).reshape(*rows.shape, -1)
        return np.einsum("qd,qkd->qk", unit_rows(queries), nearest).astype(np.float32), rows

    def require_model(self, model: TrainedModel) -> None:
        """Refuse a model that has not embedded the gallery, as far as that is known."""
        width = self.embeddings.shape[1]
        if model.embedding_size != width:
            problem = f"embeddings of {model.embedding_size} dimensions in an index of {width}"
            raise ShapeError(problem, expected="an index made with this model")
        if self.weights not in (None, model.weights):
            remedy = "embed the gallery with this model: `hiertree embed MODEL PHOTOS --out embedded`"
            raise InputError("a gallery that another model has embedded", expected="the same weights", remedy=remedy)


class TrainedModel:
    """A trained network that embeds images as its run did.

    Args:
        embedder: the network.
        preprocessing: of its images.
        tree: the classes it has learned; None if its run did not keep them.
        device: ``"auto"`` takes a GPU if there is one.
        record: its recipe and metrics, which are saved with it.
        texts: the text tower beside it, if there is one, or the name of one that is loaded at the first text.

    Raises:
        DeviceError: the device is absent.
    """

    def __init__(
        self,
        embedder: Embedder,
        preprocessing: Preprocessing,
        *,
        tree: LabelTree | None = None,
        device: str | torch.device = "auto",
        record: ModelRecord | None = None,
        texts: AnyTextTower | str | None = None,
    ) -> None:
        self.record, self._texts = record or ModelRecord(), texts
        self.preprocessing, self.tree, self.device = preprocessing, tree, _device(device)
        self.network = embedder.to(self.device).eval()

    def __repr__(self) -> str:
        settings, tree = self.preprocessing, self.tree
        image = f"{settings.channels}×{settings.size}×{settings.size}"
        level_sizes = () if tree is None else zip(tree.level_names, tree.level_sizes, strict=True)
        levels = "".join(f", {size} {name}" for name, size in level_sizes)
        backbone = self.network.settings.backbone
        return f"TrainedModel({backbone}, {image} → {self.embedding_size}{levels}, on {self.device})"

    @classmethod
    def from_pretrained(
        cls,
        name: str | os.PathLike[str],
        *,
        revision: str | None = None,
        token: str | None = None,
        device: str | torch.device = "auto",
        backbone: Backbone | None = None,
    ) -> TrainedModel:
        """Load a model from a folder, or ``OWNER/NAME`` from the Hugging Face hub.

        Args:
            name: an existing folder, or else the name on the hub.
            revision: branch, tag or commit on the hub.
            token: of the hub; None takes that of ``hf auth login``.
            device: ``"auto"`` takes a GPU if there is one.
            backbone: as for :func:`load_model`; a model whose network is code of someone's own needs it.

        Raises:
            MissingResourceError: there is no such model, or it is out of reach.
            CheckpointError: its files are damaged.
            RecipeError: its network is code of someone's own, and ``backbone`` is not given.
        """
        local = Path(name)
        folder = local if local.is_dir() else download_model(str(name), revision=revision, token=token)
        return load_model(folder, device=device, backbone=backbone)

    def save(self, folder: str | os.PathLike[str]) -> list[Path]:
        """Save the model for :func:`load_model`, with a card: README.md with metrics, classes, preprocessing, recipe.

        Absolute paths of the recipe are shortened to their last part.

        Raises:
            OptionError: the folder holds something else than a model.
        """
        return save_model(folder, self.network, self.preprocessing, self.tree, self.record)

    def push_to_hub(
        self,
        name: str,
        *,
        private: bool | None = None,
        token: str | None = None,
        commit_message: str = "Add a model of hiertree",
    ) -> str:
        """Put what :meth:`save` writes on the Hugging Face hub as ``OWNER/NAME``; returns the commit's address.

        Args:
            name: made if it does not exist.
            private: whether a new one is; None takes the owner's default.
            token: of the hub; None takes that of ``hf auth login``.
            commit_message: of the commit.

        Raises:
            MissingResourceError: the hub is out of reach, or refuses.
            MissingPackageError: huggingface_hub is not installed.
        """
        with TemporaryDirectory() as folder:
            model = Path(folder) / "model"
            self.save(model)
            return upload(model, name, kind="model", private=private, token=token, message=commit_message)

    @cached_property
    def weights(self) -> str:
        """SHA-256 of the network's tensors, by which embeddings say of which model they are."""
        return digest(tensor.cpu().numpy() for tensor in self.network.state_dict().values())

    @property
    def embedding_size(self) -> int:
        """Dimensions of an embedding."""
        return self.network.embedding_size

    def embed(
        self,
        images: object = None,
        *,
        texts: Sequence[str] | None = None,
        templates: Sequence[str] = TEMPLATES,
        batch_size: int = 64,
        workers: int = 0,
        max_pixels: int | None = None,
        progress: bool = True,
    ) -> NDArray[np.float32]:
        """Embed images, prepared as in the model's run, or texts by the text tower of an open_clip model.

        Args:
            images: a folder (its image files below, in the order of
                :func:`hiertree.datasets.readers.images.image_files`) or a file; a PIL image, an array (height,
                width, channels) or a tensor (channels, height, width), uint8 or floating in [0, 1] and of any size; a
                list, Series or batch of these; the images of a data set; or a DataLoader whose batches are images,
                (images, labels) or mappings with an entry "image".
            texts: in place of images, one row for each: the mean direction over the templates.
            templates: texts with ``{}``, where each text goes.
            batch_size: images or texts embedded at once.
            workers: processes that decode; 0 decodes in this process. A DataLoader has its own.
            max_pixels: width × height above which an image is refused, for it may fill the memory; None: 89 million.
            progress: whether to show progress.

        Returns:
            (n, d) float32 of unit norm, in the order given.

        Raises:
            ImageError: no image, or one that does not decode.
            OptionError: texts without a text tower, or a template without ``{}``; both images and texts, or neither.
            InputError: something that is no image, or has another shape, type or range; or embeddings that are not
                finite.

        >>> import hiertree as ht, numpy as np
        >>> from hiertree.pipelines.networks.settings import ModelSettings
        >>> embedder = Embedder(ModelSettings(width=4, embedding_size=8), channels=3)
        >>> preprocessing = Preprocessing(size=16, channels=3, resize=None, mean=(0.5,) * 3, std=(0.5,) * 3,
        ...                               scales=(1.0,), precision="32-true")
        >>> model = TrainedModel(embedder, preprocessing, device="cpu")
        >>> model.embed(torch.zeros(2, 3, 20, 30)).shape
        (2, 8)
        """
        check_integer("batch_size", batch_size)
        if (images is None) == (texts is None):
            raise OptionError("images and texts" if texts else "no images", expected="images, or else texts=[…]")
        if texts is not None:
            if isinstance(texts, str) or not len(texts) or not all(isinstance(text, str) for text in texts):
                raise InputError(f"texts={texts!r}"[:80], expected="a list of texts")
            vectors = self.texts.encode(texts, templates=templates, batch_size=batch_size, progress=progress)
            with torch.inference_mode():
                return self.network.embed_texts(torch.from_numpy(vectors).to(self.device)).cpu().numpy()
        if isinstance(images, DataLoader):
            return self._embed_batches(images, batch_size=batch_size, max_pixels=max_pixels, progress=progress)
        views = ImageViews(as_image_source(images), self.image_settings(max_pixels=max_pixels))
        loader = batch_loader(views, keys_in_order(range(len(views)), batch_size), workers=workers)
        total = -(-len(views) // batch_size)
        tracked = track((batch.images for batch in loader), description="embedding", total=total, enabled=progress)
        return np.concatenate([self.embed_pixels(batch) for batch in tracked])

    def classify(
        self,
        images: object,
        tree: LabelTree | None = None,
        *,
        templates: Sequence[str] = TEMPLATES,
        parents: Parents = "text",
        **options: Any,
    ) -> Classification:
        """Give images, without any training on them, the nearest node of each level of a tree by its text.

        Args:
            images: as for :meth:`embed`.
            tree: whose labels are the texts; None takes the model's own.
            templates: texts with ``{}``, where a label goes; the mean direction over them counts.
            parents: whether an inner node's score is that of its own ``"text"``, or the best of its ``"leaves"``.
            **options: of :meth:`embed`.

        Raises:
            OptionError: a model without a text tower, or no tree.
        """
        tree = tree or self.tree
        if tree is None:
            raise OptionError("no tree", expected="a LabelTree whose labels are the texts")
        texts = self.embed(texts=labels_of_nodes(tree), templates=templates)
        return classify_by_text(self.embed(images, **options), texts, tree, parents=parents)

    @property
    def has_texts(self) -> bool:
        """Whether there is a text tower, so that texts and images share a space."""
        return self._texts is not None

    @property
    def texts(self) -> AnyTextTower:
        """The text tower; an OptionError where there is none."""
        if self._texts is None:
            expected = "a model of open_clip, whose texts and images share a space: open_clip:NAME/WEIGHTS"
            raise OptionError(f"texts for {self!r}, which has no text tower", expected=f"{expected}, or one trained so")
        if isinstance(self._texts, str):
            self._texts = load_text_tower(self._texts)
        self._texts.to(self.device)
        return self._texts

    def image_settings(self, *, max_pixels: int | None = None) -> ImageSettings:
        """The preprocessing of images up to the network's input, as a recipe says it."""
        view = {name: getattr(self.preprocessing, name) for name in ViewSettings.model_fields}
        return ImageSettings(**view, cache=False, max_pixels=max_pixels)

    def _embed_batches(
        self, loader: DataLoader[Any], *, batch_size: int, max_pixels: int | None, progress: bool
    ) -> NDArray[np.float32]:
        """Embed what a loader gives, in its order."""
        total = None if isinstance(loader.dataset, IterableDataset) else len(loader)
        batches = (images_of_batch(batch) for batch in loader)
        tracked = track(batches, description="embedding", total=total, enabled=progress)
        options: Any = {"batch_size": batch_size, "max_pixels": max_pixels, "progress": False}
        blocks = [self.embed(images, **options) for images in tracked]
        if not blocks:
            raise InputError("no images: a DataLoader without batches", expected="at least one image")
        return np.concatenate(blocks)

    def search(
        self,
        index: GalleryIndex | str | os.PathLike[str],
        photos: object,
        *,
        k: int = 10,
        batch_size: int = 64,
        progress: bool = True,
    ) -> pd.DataFrame:
        """Find the images of a gallery that are nearest to photos.

        Args:
            index: what ``hiertree embed`` wrote by this model, a run's folder, or ``GalleryIndex.load`` of either.
            photos: as for :meth:`embed`.
            k: images for each photo, or all if there are fewer.
            batch_size: photos embedded at once.
            progress: whether to show progress.

        Returns:
            A row for each photo and image, best first: ``photo``, ``rank`` from 1, ``image``, ``score`` (the cosine),
            and the image's labels, coarse → fine, where the index knows them.

        Raises:
            ShapeError, InputError: the index is of another network.
            HiertreeError: whatever :meth:`embed` raises.
        """
        import pandas as pd

        gallery = index if isinstance(index, GalleryIndex) else GalleryIndex.load(index)
        source = photos if isinstance(photos, DataLoader) else as_image_source(photos)
        embeddings = self.embed(source, batch_size=batch_size, progress=progress)
        gallery.require_model(self)
        scores, rows = gallery.search(embeddings, k=k)
        names = [f"image {row}" if isinstance(source, DataLoader) else source.name(row) for row in range(len(rows))]
        photo, rank = np.repeat(names, rows.shape[1]), np.tile(np.arange(1, rows.shape[1] + 1), len(rows))
        table = gallery.table.iloc[rows.ravel()].reset_index(drop=True)
        head = pd.DataFrame({"photo": photo, "rank": rank, "image": table.pop("image"), "score": scores.ravel()})
        result: pd.DataFrame = pd.concat([head, table], axis=1)
        return result

    @torch.inference_mode()
    def embed_pixels(self, images: Tensor) -> NDArray[np.float32]:
        """(B, C, S, S) uint8 pixels, prepared as the network takes them → (B, d) embeddings; B may be 0."""
        if not len(images):
            return np.empty((0, self.embedding_size), np.float32)
        with self._autocast():
            embeddings = embed_at_scales(self.network, images.to(self.device), self.preprocessing.scales)
        return require_finite(embeddings).float().cpu().numpy()

    def _autocast(self) -> AbstractContextManager[None]:
        """The arithmetic of the run; 16-bit floats are left to GPUs."""
        dtype = {"bf16-mixed": torch.bfloat16, "16-mixed": torch.float16}.get(self.preprocessing.precision)
        if dtype is None or (dtype is torch.float16 and self.device.type == "cpu"):
            return nullcontext()
        return torch.autocast(self.device.type, dtype=dtype)


def load_model(
    run: str | os.PathLike[str], *, device: str | torch.device = "auto", backbone: Backbone | None = None
) -> TrainedModel:
    """Load what a run has learned, with its preprocessing and its tree, or a pretrained network.

    Args:
        run: folder of a finished run, as :func:`hiertree.pipelines.training.run.experiment.train` leaves it, or of a
            model that was saved; ``hf-hub:OWNER/NAME``, a model that was pushed to the Hugging Face hub; or a network
            without a tree, ``timm:NAME``, ``open_clip:NAME/WEIGHTS``, ``timm:hf-hub:OWNER/NAME``,
            ``open_clip:hf-hub:OWNER/NAME`` or ``open_clip:local-dir:FOLDER``.
        device: ``"auto"`` takes a GPU if there is one.
        backbone: builds the backbone of a model that was trained with one of your own: a class, a function, or its
            name, ``module:attribute``. What the model's folder names is never imported.

    Raises:
        CheckpointError: the run is not finished, or its files are damaged.
        RecipeError: the network is code of someone's own, and ``backbone`` is not given.
        MissingResourceError: a model or weights are out of reach, or ``backbone`` cannot be imported.
        DeviceError: the device is absent.
    """
    name = os.fspath(run)
    if name.startswith(HUB):
        return TrainedModel.from_pretrained(name.removeprefix(HUB), device=device, backbone=backbone)
    network, preprocessing, texts = load_network(name, backbone=backbone)
    if is_pretrained(name):
        return TrainedModel(network, preprocessing, device=device, texts=texts)
    tree, record = Path(name) / TREE, ModelRecord.read(Path(name))
    classes = LabelTree.from_json(tree) if tree.is_file() else None
    return TrainedModel(network, preprocessing, tree=classes, device=device, record=record, texts=record.text_encoder)


def _device(device: str | torch.device) -> torch.device:
    if device == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    refused, expected = (RuntimeError, AssertionError), "cpu, or a GPU that torch can use"
    with raised_as(DeviceError, f"device={str(device)!r}", expected=expected, on=refused):
        return torch.empty(0, device=device).device
