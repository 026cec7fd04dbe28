"""What an experiment is: one frozen, fully checked value, the same whether it came from a file or from Python.

A recipe has plain sections, declared here, and three *components* (``data``, ``sampler``, ``loss``) whose keys are the
keyword options of the function or class they name. Those are read from its signature, so they are written down once.

>>> recipe = Recipe.model_validate({
...     "name": "example", "data": {"name": "synthetic"},
...     "sampler": {"name": "ClassBalancedSampler", "batch_size": 64, "images_per_class": 4},
...     "loss": {"name": "HAPPIER", "alpha": 3.0}, "training": {"epochs": 10},
... })
>>> recipe.loss.options()["alpha"], recipe.optimizer.lr
(3.0, 0.001)
"""

from __future__ import annotations

import hashlib
import json
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, SerializeAsAny, model_validator
from pydantic_core import PydanticCustomError

from .components import Component, Section, component

Fraction = Annotated[float, Field(ge=0, le=1)]
Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]
NonNegative = Annotated[float, Field(ge=0, allow_inf_nan=False)]
Count = Annotated[int, Field(ge=1)]


class GlyphAugmentation(Section):
    """Small rotations, scalings, shears and shifts: what a hand does to a character. Never a flip."""

    name: Literal["glyph"] = "glyph"
    degrees: NonNegative = 10.0
    scale: Annotated[float, Field(ge=0, lt=1)] = 0.1
    shear: NonNegative = 0.1
    shift: Fraction = 0.08


class PhotoAugmentation(Section):
    """A random crop of random area and aspect, resized, and a left-right flip."""

    name: Literal["photo"] = "photo"
    smallest_area: Annotated[float, Field(gt=0, le=1)] = 0.2
    widest_aspect: Annotated[float, Field(ge=1)] = 4 / 3
    flip: bool = True


class NoAugmentation(Section):
    """Train on the evaluation's view of each image."""

    name: Literal["none"] = "none"


class Images(Section):
    """How an image file becomes a tensor.

    Attributes:
        size: height and width in pixels.
        channels: 1 (grey) or 3 (RGB).
        resize: at evaluation, shorter side before the central crop; None squeezes the whole image into the square.
        cache: decode every image once and keep the evaluation's view of it, in memory or in ``cache_folder``.
        cache_folder: where those views lie as memory-mapped files, which runs share; None keeps them in memory, which
            is meant for tiny images.
        cache_size: height and width of the views kept; None means ``size``. Larger ones leave crops their detail.
        augmentation: what training does to an image.
        workers: processes that decode; 0 decodes in the training process.
        on_bad_image: ``error`` where one does not decode, or ``skip``: every image is decoded once before the run, and
            those that do not are left out and named in ``metrics.json``.
    """

    size: Count = 32
    channels: Literal[1, 3] = 3
    resize: Count | None = None
    cache: bool = True
    cache_folder: str | None = None
    cache_size: Count | None = None
    augmentation: Annotated[GlyphAugmentation | PhotoAugmentation | NoAugmentation, Field(discriminator="name")] = (
        GlyphAugmentation()
    )
    workers: Annotated[int, Field(ge=0)] = 0
    on_bad_image: Literal["error", "skip"] = "error"


class Model(Section):
    """Backbone → pooling → LayerNorm → linear projection → unit length.

    Attributes:
        backbone: ``small_cnn`` (built in, for tiny images) or the name of a timm model.
        width: channels of ``small_cnn``'s first stage.
        pretrained: timm's own weights (True), a local ``.safetensors``, ``.pth`` or ``.pt`` file, or none (False).
        pooling: ``gem``, ``average`` or ``max`` over the map, or ``backbone``: whatever the timm model does itself.
        layer_norm: normalise the pooled features, without affine parameters.
        l2_norm: bring the pooled features to unit length instead, as networks for landmarks do.
        embedding_size: dimensions of an embedding.
        projection_bias: whether the linear projection adds a bias.
        projection_init: ``random``, or the principal directions of the features that training images have before the
            first step (``pca``), perhaps each scaled to unit variance (``pca_whitened``); the features' mean goes into
            the bias if there is one.
        projection_images: training images of that PCA, drawn by the seed; all of them if there are fewer.
        freeze_backbone_epochs: epochs at the start in which only head and loss learn.
        gradient_checkpointing: compute most activations of the backbone again in the backward pass instead of keeping
            them: less memory for one more forward pass. BatchNorm must be frozen.
        freeze_batch_norm: keep the backbone's BatchNorm statistics and use them in training too.
        sync_batch_norm: with several processes, normalise over the whole batch, not over the part of each; GPUs only.
    """

    backbone: str = "small_cnn"
    width: Count = 32
    pretrained: bool | str = False
    pooling: Literal["gem", "average", "max", "backbone"] = "gem"
    layer_norm: bool = True
    l2_norm: bool = False
    embedding_size: Count = 128
    projection_bias: bool = True
    projection_init: Literal["random", "pca", "pca_whitened"] = "random"
    projection_images: Count = 20_000
    freeze_backbone_epochs: Annotated[int, Field(ge=0)] = 0
    gradient_checkpointing: bool = False
    freeze_batch_norm: bool = False
    sync_batch_norm: bool = False

    @model_validator(mode="after")
    def _require_one_norm(self) -> Model:
        if self.layer_norm and self.l2_norm:
            raise PydanticCustomError("two_norms", "layer_norm and l2_norm exclude each other: set one to false")
        return self


class Optimizer(Section):
    """One optimizer, three parameter groups: backbone, head, and what the loss learns (its proxies).

    Attributes:
        name: ``adam``, ``adamw`` or ``sgd``.
        lr: learning rate of the backbone, and of the others unless they have their own.
        head_lr: learning rate of the head.
        proxies_lr: learning rate of the loss's parameters, on which there is no weight decay.
        weight_decay: of backbone and head.
        momentum: of ``sgd``, which is Nesterov's where this is above 0.
        clip_norm: largest norm of the gradient; None does not clip.
    """

    name: Literal["adam", "adamw", "sgd"] = "adam"
    lr: Positive = 1e-3
    head_lr: Positive | None = None
    proxies_lr: Positive | None = None
    weight_decay: NonNegative = 0.0
    momentum: Annotated[float, Field(ge=0, lt=1)] = 0.9
    clip_norm: Positive | None = None


class Schedule(Section):
    """What the learning rates are multiplied with, step by step.

    Attributes:
        name: ``cosine`` falls to the final fraction along half a cosine; ``step`` falls at the milestones; ``constant``
            stays.
        warmup_epochs: epochs over which the factor first rises linearly from 0 to 1.
        final: fraction of the learning rate reached at the end.
        proxies_final: the same for the loss's parameters; None means ``final``.
        milestones: of ``step``, epochs done after each of which every learning rate is multiplied with ``factor``; one
            named twice counts twice.
        factor: of ``step``.
    """

    name: Literal["cosine", "step", "constant"] = "cosine"
    warmup_epochs: NonNegative = 0.0
    final: Fraction = 0.0
    proxies_final: Fraction | None = None
    milestones: tuple[Positive, ...] = ()
    factor: Annotated[float, Field(gt=0, le=1)] = 0.1

    @model_validator(mode="after")
    def _require_milestones_of_steps(self) -> Schedule:
        if (self.name == "step") != bool(self.milestones):
            raise PydanticCustomError("milestones", "name: step and milestones, [40, 70] for instance, go together")
        return self


class Training(Section):
    """How long, on what, and how often a checkpoint is kept.

    Attributes:
        epochs: passes over the sampler.
        device: ``auto`` takes a GPU if there is one; ``cuda`` refuses to run without.
        devices: processes that share every batch, a GPU of this machine each (on a CPU: as many of its processes);
            ``auto`` takes all GPUs. Where torchrun, ``fabric run`` or SLURM started the processes, theirs count.
        precision: as Lightning Fabric names it; the loss itself is always computed in float32.
        checkpoint_every_steps: steps between checkpoints; None keeps one at the end of each epoch only.
        accumulate: ``two_pass`` embeds a batch twice, a chunk at a time, with one loss between: the gradient of the
            whole batch in the memory of a chunk, see :func:`hiertree.losses.large_batch_backward`. BatchNorm must be
            frozen.
        chunk_size: images of a chunk.
        compile: translate the network by ``torch.compile`` at the first step, which then takes minutes; needs a C++
            compiler, on a GPU Triton.
        ema_decay: measure and keep the exponential moving average of the weights, which after each step is this part of
            itself and for the rest the step's weights; None takes the last step's.
        on_nan: ``stop`` where a loss or its gradient is not finite, or ``skip`` the batch; the tenth in a row stops.
    """

    epochs: Count
    device: Literal["auto", "cpu", "cuda"] = "auto"
    devices: Count | Literal["auto"] = 1
    precision: Literal["32-true", "bf16-mixed", "16-mixed"] = "32-true"
    checkpoint_every_steps: Count | None = None
    accumulate: Literal["none", "two_pass"] = "none"
    chunk_size: Count = 64
    compile: bool = False
    ema_decay: Annotated[float, Field(gt=0, lt=1)] | None = None
    on_nan: Literal["stop", "skip"] = "stop"


class Evaluation(Section):
    """When the test split is measured, and how images are fed to the model then.

    Attributes:
        every: epochs between evaluations; the last epoch is always evaluated. None evaluates only then.
        batch_size: images embedded at once.
        scales: sizes of an image, as factors of ``images.size``, of whose embeddings the mean is taken.
        metrics: names as :func:`hiertree.metrics.evaluate` takes them; None computes those of the data set's protocol.
        select: metric by which the best epoch is told; the results reported are the last epoch's all the same.
    """

    every: Count | None = None
    batch_size: Count = 512
    scales: Annotated[tuple[Positive, ...], Field(min_length=1)] = (1.0,)
    metrics: tuple[str, ...] | None = None
    select: str = "H-AP"


class Recipe(Section):
    """One experiment.

    Attributes:
        name: what tables call it.
        seed: the only source of randomness.
        data: ``name`` of a data set and the options of its loader.
        images: how images become tensors.
        sampler: ``name`` of a batch sampler and its options.
        model: the network.
        loss: ``name`` of a class of :mod:`hiertree.losses` and its options.
        optimizer: how weights move.
        schedule: how learning rates change.
        training: how long and on what.
        evaluation: when the test split is measured.
    """

    name: str
    seed: Annotated[int, Field(ge=0, lt=2**32)] = 0
    data: SerializeAsAny[Annotated[Component, BeforeValidator(component("data"))]]
    images: Images = Images()
    sampler: SerializeAsAny[Annotated[Component, BeforeValidator(component("sampler"))]]
    model: Model = Model()
    loss: SerializeAsAny[Annotated[Component, BeforeValidator(component("loss"))]]
    optimizer: Optimizer = Optimizer()
    schedule: Schedule = Schedule()
    training: Training
    evaluation: Evaluation = Evaluation()

    def as_dict(self) -> dict[str, Any]:
        """Every setting, defaults included, as plain values that YAML and JSON can hold."""
        return self.model_dump(mode="json", by_alias=True)

    def experiment(self) -> dict[str, Any]:
        """Every setting but those of where it runs, which change nothing that is learnt, and may when a run goes on."""
        values = self.as_dict()
        for section, name in (("training", "devices"), ("images", "workers"), ("images", "cache_folder")):
            del values[section][name]
        return values

    def fingerprint(self) -> str:
        """SHA-256 of :meth:`experiment`: two recipes of one fingerprint are the same experiment."""
        return hashlib.sha256(json.dumps(self.experiment(), sort_keys=True).encode()).hexdigest()
