"""A callback of Lightning that measures retrieval at the end of each validation."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from copy import deepcopy
from itertools import islice
from typing import Any

import torch
from lightning.pytorch import Callback, LightningModule, Trainer
from torch.utils.data import DistributedSampler
from typing_extensions import override

from hiertree.errors import OptionError
from hiertree.options import check_integer

from ..result import Evaluation
from .retrieval_metric import RetrievalMetric


class RetrievalCallback(Callback):
    """Embeds the validation data, evaluates its retrieval once for all metrics, and logs each of them.

    A batch is (images, paths), or (images, paths, ids); ``module(images)`` embeds it. Where ``validation_step`` returns
    a mapping with ``embeddings`` and ``paths``, perhaps ``ids``, these are taken, and nothing is embedded twice. In
    several processes the numbers are those of one; items that a distributed sampler repeats count once. With several
    dataloaders each is evaluated by itself, unless one of them is the gallery of the others.

    Args:
        metric: what to compute: names, or a :class:`RetrievalMetric` with its options.
        embed: (module, batch) → (embeddings, paths) or (embeddings, paths, ids), for batches of another form.
        gallery: the number of the validation dataloader that holds the gallery.
        prefix: of the names in the log, ``val/H-AP``.

    Attributes:
        results: the evaluations of the last validation, by dataloader, with their values by query.

    Raises:
        MissingPackageError: Lightning is not installed.
        OptionError: an unknown metric, or a gallery that is not a number.

    >>> callback = RetrievalCallback(["H-AP", "R@1"])  # Trainer(callbacks=[callback]) logs val/H-AP and val/R@1
    """

    def __init__(
        self,
        metric: RetrievalMetric | str | Iterable[str] | None = None,
        *,
        embed: Callable[[LightningModule, Any], tuple[Any, ...]] | None = None,
        gallery: int | None = None,
        prefix: str = "val/",
    ) -> None:
        names = [metric] if isinstance(metric, str) else metric
        self.metric = names if isinstance(names, RetrievalMetric) else RetrievalMetric(names)
        check_integer("gallery", gallery, least=0, or_none=True)
        self.embed, self.gallery, self.prefix = embed, gallery, prefix
        self.results: dict[int, Evaluation] = {}
        self._metrics: dict[int, RetrievalMetric] = {}
        self._order: dict[int, Iterator[int] | None] = {}

    @override
    def on_validation_epoch_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Forget the validation before."""
        self._metrics, self._order = {}, {}

    @override
    def on_validation_batch_end(
        self,
        trainer: Trainer,
        pl_module: LightningModule,
        outputs: Any,
        batch: Any,
        batch_idx: int,
        dataloader_idx: int = 0,
    ) -> None:
        """Add a batch."""
        if trainer.sanity_checking:
            return
        embeddings, paths, ids = self._embedded(trainer, pl_module, outputs, batch)
        if ids is None:
            ids = self._ids_of_next(trainer, dataloader_idx, len(embeddings))
        group = 0 if self.gallery is not None else dataloader_idx
        if group not in self._metrics:
            self._metrics[group] = deepcopy(self.metric).to(pl_module.device)
        if self.gallery is not None and ids is not None:  # ids of one dataloader, not of all
            ids = torch.as_tensor(ids) * len(_loaders(trainer)) + dataloader_idx
        self._metrics[group].update(embeddings, paths, gallery=dataloader_idx == self.gallery, ids=ids)

    @override
    def on_validation_epoch_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Evaluate what was gathered, and log it."""
        if trainer.sanity_checking:
            return
        self.results = {}
        for number, metric in self._metrics.items():
            values = metric.compute()
            values = values if isinstance(values, dict) else {metric.evaluation().names[0]: values}
            self.results[number] = metric.evaluation()
            suffix = f"/dataloader_idx_{number}" if len(self._metrics) > 1 else ""
            logged_values = {f"{self.prefix}{name}{suffix}": value for name, value in values.items()}
            pl_module.log_dict(logged_values, add_dataloader_idx=False)
            metric.reset()

    def _embedded(self, trainer: Trainer, module: LightningModule, outputs: Any, batch: Any) -> tuple[Any, Any, Any]:
        if self.embed is None and isinstance(outputs, Mapping) and {"embeddings", "paths"} <= set(outputs):
            return outputs["embeddings"], outputs["paths"], outputs.get("ids")
        with torch.no_grad(), trainer.precision_plugin.forward_context():
            if self.embed is not None:
                embedded_batch = self.embed(module, batch)
            elif isinstance(batch, tuple | list) and len(batch) in (2, 3):
                embedded_batch = (module(batch[0]), *batch[1:])
            else:
                problem = f"a validation batch of type {type(batch).__name__}"
                remedy = "pass embed=, or return embeddings and paths from validation_step"
                raise OptionError(problem, expected="(images, paths) or (images, paths, ids)", remedy=remedy)
        return (*embedded_batch, None) if len(embedded_batch) == 2 else embedded_batch

    def _ids_of_next(self, trainer: Trainer, dataloader: int, number: int) -> torch.Tensor | None:
        """The indices of the next items where a sampler divides a data set among processes, which repeats some."""
        if dataloader not in self._order:
            sampler = getattr(_loaders(trainer)[dataloader], "sampler", None)
            self._order[dataloader] = iter(sampler) if isinstance(sampler, DistributedSampler) else None
        order = self._order[dataloader]
        return None if order is None else torch.tensor(list(islice(order, number)), dtype=torch.int64)


def _loaders(trainer: Trainer) -> list[Any]:
    loaders: Any = trainer.val_dataloaders
    return list(loaders) if isinstance(loaders, list | tuple) else [loaders]
