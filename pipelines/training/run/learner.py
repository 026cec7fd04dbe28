"""Network, loss and optimizer, and the training step."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping
from contextlib import AbstractContextManager
from itertools import cycle
from typing import TYPE_CHECKING, Any, cast

import torch
from torch import Tensor, nn

from hiertree.errors import CheckpointError, DeviceError, EmbeddingError, RecipeError, TrainingError, raised_as
from hiertree.losses import large_batch_backward

from ...networks.backbones import is_batch_norm
from ...networks.embedder import Embedder, embed_at_scales, require_sizes, warn_of_cut_images
from ..data.texts import TextRows
from ..distributed.processes import (
    ALONE,
    Processes,
    forked_rng,
    loss_of_whole_batch,
    randomness_by_rank,
    seed_torch,
    synchronized_batch_norm,
)
from ..recipe.settings import Recipe
from .optimization import Paths, Schedule, build_loss, build_optimizer, moving_average

if TYPE_CHECKING:
    from lightning_fabric import Fabric

_SMALLER_STEPS = (
    "lower sampler.batch_size or images.size, set training.precision=bf16-mixed, or keep the batch and set "
    "training.accumulate=two_pass with a small training.chunk_size; the last checkpoint is whole"
)


class Learner:
    """Everything that is trained. Its whole state is in :meth:`tensors`, :meth:`numbers` and the number of steps done.

    All randomness of a step (dropout, say) is seeded by the recipe's seed and the step's number: the network's differs
    between processes, the loss's does not. Each of several processes holds a part of every batch and computes the loss
    of all of it, so that together they take the step that a single process would take on the whole batch.
    """

    def __init__(
        self,
        recipe: Recipe,
        fabric: Fabric,
        *,
        class_paths: Paths,
        steps_per_epoch: int,
        processes: Processes = ALONE,
        text_size: int | None = None,
    ) -> None:
        self.recipe, self.fabric, self.processes = recipe, fabric, processes
        self._in_chunks = recipe.training.accumulate == "two_pass"
        with self.processes.agreeing():
            self._build(class_paths, text_size)
        if recipe.training.compile:
            self.embedder.compile()  # in place, so that its tensors keep their names; a copy of it is not compiled
        self._network = fabric.setup_module(self.embedder)
        self._frozen_backbone = False
        decay = recipe.training.ema_decay
        self._average = None if decay is None else moving_average(self.embedder, decay)
        self._modules = nn.ModuleDict({"embedder": self.embedder, "loss": self.loss.to(fabric.device)})
        if self._average is not None:
            self._modules["average"] = self._average
        self._objective = loss_of_whole_batch(self.loss, self.processes)
        self.optimizer = build_optimizer(self.embedder, self.loss, recipe.optimizer)
        total = recipe.training.epochs * steps_per_epoch
        self._schedule = Schedule(self.optimizer, recipe.schedule, total=total, steps_per_epoch=steps_per_epoch)
        self._fabric_optimizer: Any = fabric.setup_optimizers(self.optimizer)

    def _build(self, class_paths: Paths, text_size: int | None) -> None:
        recipe, model, images = self.recipe, self.recipe.model, self.recipe.images
        with forked_rng(self.fabric.device):
            torch.manual_seed(recipe.seed)
            pretrained = recipe.training.start_from is None
            sizes: Any = {"channels": images.channels, "size": images.size, "text_size": text_size}
            self.embedder = Embedder(model, **sizes, load_weights=pretrained)
            self.loss = build_loss(recipe, class_paths=class_paths, embedding_size=self.embedder.embedding_size)
        if model.sync_batch_norm and self.processes.size > 1:
            self.embedder.backbone = synchronized_batch_norm(self.embedder.backbone, self.fabric.device)
        if self._in_chunks and not model.freeze_batch_norm and any(map(is_batch_norm, self.embedder.modules())):
            raise RecipeError(
                "training.accumulate=two_pass with BatchNorm, whose statistics would be those of chunks",
                expected="a network that embeds each image independently of the others",
                remedy="set model.freeze_batch_norm=true",
            )
        require_sizes(self.embedder, images.size, recipe.evaluation.scales)
        if self.processes.is_first:
            warn_of_cut_images(self.embedder, images.size)

    def start_epoch(self, epoch: int) -> None:
        """Prepare network and loss for the steps of an epoch."""
        frozen = epoch < self.recipe.model.freeze_backbone_epochs
        self.embedder.set_training(frozen_backbone=frozen)
        if self.processes.size > 1 and frozen != self._frozen_backbone:  # DDP fixes its set of gradients at setup
            self._network, self._frozen_backbone = self.fabric.setup_module(self.embedder), frozen
        self.loss.train()
        self.loss.start_epoch(epoch)

    def step(self, images: Tensor, paths: Tensor, *, step: int, texts: TextRows | None = None) -> dict[str, float]:
        """Learn from one batch: images, and perhaps texts, which the loss takes as further rows."""
        self._schedule.set(step)
        self._fabric_optimizer.zero_grad()
        backward = self._backward_in_chunks if self._in_chunks else self._backward
        try:
            with forked_rng(self.fabric.device), _enough_memory(f"step {step}", _SMALLER_STEPS):
                seed_torch(self.recipe.seed, step)
                vectors = None if texts is None else texts.vectors
                paths = paths if texts is None else torch.cat([paths, texts.paths])
                values = backward(images, vectors, paths, step)  # the loss checks paths before they travel
        except EmbeddingError as error:
            raise _diverged(step, error.given) from error
        except RuntimeError as error:
            if not type(error).__module__.startswith(("torch._dynamo", "torch._inductor")):
                raise
            reason, remedy = " ".join(str(error).split("\n\n")[0].split()), "set training.compile=false"
            expected = "a network that torch.compile supports, and a C++ compiler"
            raise RecipeError(f"training.compile=true ({reason})", expected=expected, remedy=remedy) from error
        self._update_weights(step)
        return values

    def learning_rate(self) -> float:
        """The learning rate of the first parameter group, the backbone's, in the last step."""
        return float(self.optimizer.param_groups[0]["lr"])

    @property
    def trained(self) -> Embedder:
        """The network to evaluate and save: the average of the weights if the recipe asks for it."""
        if self._average is None or not self._average.n_averaged:
            return self.embedder
        return cast(Embedder, self._average.module)

    @torch.inference_mode()
    def embed(self, images: Tensor) -> Tensor:
        """(B, C, S, S) uint8 → (B, d) float32 on the CPU, in evaluation mode."""
        network = self.trained.eval()
        with _enough_memory(f"embedding {len(images)} images", "lower evaluation.batch_size"), self.fabric.autocast():
            embeddings = embed_at_scales(network, self.fabric.to_device(images), self.recipe.evaluation.scales)
        return embeddings.float().cpu()

    def _backward(self, images: Tensor, texts: Tensor | None, paths: Tensor, step: int) -> dict[str, float]:
        with randomness_by_rank(self.processes, self.fabric.device, self.recipe.seed, step):
            embeddings = self._network(self.fabric.to_device(images))
        if texts is not None:
            embeddings = torch.cat([embeddings, self.embedder.embed_texts(self.fabric.to_device(texts))])
        terms = self._objective.terms(embeddings, paths)
        loss = self._objective.total(terms)
        self.fabric.backward(loss)
        self.processes.average_gradients(self.loss.parameters())
        return _finite_values(terms, loss, step)

    def _backward_in_chunks(self, images: Tensor, texts: Tensor | None, paths: Tensor, step: int) -> dict[str, float]:
        """Backpropagate one chunk at a time; Fabric's wrapper allows no backward pass from intermediate outputs."""
        chunks = [*torch.split(images, self.recipe.training.chunk_size), *([] if texts is None else [texts])]
        chunk_indices = cycle(range(len(chunks)))

        def embed(chunk: Tensor) -> Tensor:
            seed = (self.recipe.seed, step, next(chunk_indices))
            with randomness_by_rank(self.processes, self.fabric.device, *seed), self.fabric.autocast():
                network = self.embedder if chunk is not texts else self.embedder.embed_texts
                embeddings: Tensor = network(self.fabric.to_device(chunk))
            return embeddings

        terms = large_batch_backward(embed, chunks, paths, self._objective, backward=self.fabric.backward)
        self.processes.average_gradients([*self.embedder.parameters(), *self.loss.parameters()])
        return _finite_values(terms, self._objective.total(terms), step)

    def _update_weights(self, step: int) -> None:
        """Clip the gradient and update weights and average, unless the gradient is not finite."""
        optimizer, limit = self._fabric_optimizer, self.recipe.optimizer.clip_norm or math.inf
        norm = self.fabric.clip_gradients(self._network, optimizer, max_norm=limit, error_if_nonfinite=False)
        scaled = self.recipe.training.precision == "16-mixed"  # the gradient scaler skips such steps itself
        if norm is not None and not scaled:
            _require_finite({"norm of the gradient": float(norm)}, step)
        optimizer.step()
        if self._average is not None:
            self._average.update_parameters(self.embedder)

    def tensors(self) -> dict[str, Tensor]:
        """The weights of network, loss and average, and the optimizer's state, by name."""
        weights = self._modules.state_dict()
        return weights | {name: value for name, value in self._optimizer_values().items() if isinstance(value, Tensor)}

    def numbers(self) -> dict[str, Any]:
        """The rest of the state, for JSON: of the gradient scaler (16-bit training), and numbers of the optimizer."""
        values = {name: value for name, value in self._optimizer_values().items() if not isinstance(value, Tensor)}
        plain_values = {name: value for name, value in values.items() if _is_plain(value)}
        if lost_names := [name for name in values.keys() - plain_values.keys() if name.startswith("optimizer.")]:
            raise CheckpointError(
                f"{lost_names[0]}={values[lost_names[0]]!r}", expected="an optimizer that keeps tensors and numbers"
            )
        return {"scaler": self.fabric.strategy.precision.state_dict(), "optimizer": plain_values}

    def _optimizer_values(self) -> dict[str, Any]:
        """What the optimizer keeps for each parameter and for each group, by name."""
        groups = [{**group, "params": None} for group in self.optimizer.param_groups]
        sections = {"optimizer": self.optimizer.state_dict()["state"], "groups": dict(enumerate(groups))}
        return {
            f"{section}.{owner}.{key}": value
            for section, owners in sections.items()
            for owner, values in owners.items()
            for key, value in values.items()
            if value is not None
        }

    def copy_from_first(self) -> None:
        """Copy the first process's weights and BatchNorm statistics, which each process updates from its own images."""
        self.processes.copy_from_first(self._modules.state_dict().values())

    def load(self, tensors: Mapping[str, Tensor], values: Mapping[str, Any], *, step: int) -> None:
        """Restore what :meth:`tensors` and :meth:`numbers` returned after so many steps."""
        weights: dict[str, Tensor] = {}
        state: dict[str, Any] = {"optimizer": defaultdict(dict), "groups": defaultdict(dict)}
        for name, value in {**tensors, **values.get("optimizer", {})}.items():
            section, *keys = name.split(".", 2)
            if section in state:
                state[section][int(keys[0])][keys[1]] = value
            else:
                weights[name] = value
        problem, errors = "tensors that do not fit", (RuntimeError, ValueError)
        with raised_as(CheckpointError, problem, expected="those of this recipe", on=errors):
            self._modules.load_state_dict(weights)
            groups = self.optimizer.state_dict()["param_groups"]
            self._fabric_optimizer.load_state_dict({"state": dict(state["optimizer"]), "param_groups": groups})
        self._schedule.set(max(0, step - 1))
        for index, group in enumerate(self.optimizer.param_groups):
            for key, value in state["groups"][index].items():
                group[key] = tuple(value) if isinstance(group.get(key), tuple) else value
        if values["scaler"]:
            self.fabric.strategy.precision.load_state_dict(dict(values["scaler"]))


def _is_plain(value: Any) -> bool:
    """Whether a value survives JSON unchanged, tuples aside."""
    values = value if isinstance(value, (list, tuple)) else [value]
    return all(isinstance(element, (bool, int, float, str)) for element in values)


def _finite_values(terms: Mapping[str, Tensor], loss: Tensor, step: int) -> dict[str, float]:
    """The loss of a step and its terms as numbers, unless some are not finite."""
    values = dict(zip(["loss", *terms], torch.stack([loss, *terms.values()]).tolist(), strict=True))
    _require_finite(values, step)
    return values


def _require_finite(values: Mapping[str, float], step: int) -> None:
    if not all(map(math.isfinite, values.values())):
        raise _diverged(step, ", ".join(f"{name} = {value}" for name, value in values.items()))


def _diverged(step: int, problem: str) -> TrainingError:
    return TrainingError(
        f"step {step}: {problem}",
        expected="finite numbers",
        remedy="lower optimizer.lr, set optimizer.clip_norm, use precision 32-true, or set training.on_nan=skip; the "
        "last checkpoint is whole",
    )


def _enough_memory(task: str, remedy: str) -> AbstractContextManager[None]:
    problem, full = f"{task}: the GPU's memory is full", torch.OutOfMemoryError
    return raised_as(DeviceError, problem, expected="less memory in use", remedy=remedy, on=full)
