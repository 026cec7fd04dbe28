"""Networks of transformers embed as transformers does, and are trained, saved and loaded like any other."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from torch.nn.functional import normalize

import hiertree as ht
from hiertree.errors import CheckpointError, MissingResourceError, RecipeError
from hiertree.pipelines.training.network.embedder import Embedder
from hiertree.pipelines.training.network.model_files import load_embedder
from hiertree.pipelines.training.recipe.schema import Recipe
from hiertree.pipelines.training.recipe.settings import ModelSettings
from hiertree.pipelines.training.run.experiment import train

transformers = pytest.importorskip("transformers")
TINY = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 32}
TINY |= {"image_size": 32, "patch_size": 8}
STAGES = {"depths": [1, 1, 1, 1], "hidden_sizes": [4, 8, 8, 16]}
RESIZED = {"size": {"shortest_edge": 36}, "crop_size": {"height": 32, "width": 32}, "resample": 3}
NETWORKS: dict[str, tuple[dict[str, Any], str, dict[str, Any], int]] = {  # options, processor, its options, first patch
    "dinov2": (TINY, "BitImageProcessor", RESIZED, 1),
    "dinov2_with_registers": ({**TINY, "num_register_tokens": 4}, "BitImageProcessor", RESIZED, 5),
    "dinov3_vit": ({**TINY, "num_register_tokens": 4}, "BitImageProcessor", RESIZED, 5),
    "vit": (TINY, "ViTImageProcessor", {"size": {"height": 32, "width": 32}, "resample": 2}, 1),
    "siglip": ({"vision_config": TINY}, "SiglipImageProcessor", {"size": {"height": 32, "width": 32}}, 0),
    "clip": ({"vision_config": TINY}, "CLIPImageProcessor", RESIZED, 1),
    "convnext": (STAGES, "ConvNextImageProcessor", {"size": {"shortest_edge": 32}, "crop_pct": 0.875}, 0),
}


def save_network(name: str, folder: Path) -> Any:
    """A network with random weights in a folder, as from_pretrained reads it."""
    options, processor, processor_options, _ = NETWORKS[name]
    torch.manual_seed(0)
    config = transformers.AutoConfig.for_model(name, **options)
    network = transformers.AutoModel.from_config(config)
    network.save_pretrained(folder)
    getattr(transformers, processor)(**processor_options).save_pretrained(folder)
    return network.eval()


def image_features(network: Any, pixels: torch.Tensor) -> torch.Tensor:
    """What users of transformers take as the vector of an image."""
    tower = getattr(network, "vision_model", network)
    output = tower(pixels)
    if type(network).__name__ == "ViTModel":
        return output.last_hidden_state[:, 0]
    return output.pooler_output


@pytest.fixture(scope="module")
def photos(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder, random = tmp_path_factory.mktemp("photos"), np.random.default_rng(0)
    for number in range(4):
        small = Image.fromarray(random.integers(0, 255, (7, 9, 3), dtype=np.uint8))
        small.resize((90, 70 + number)).save(folder / f"{number}.png")
    return folder


@pytest.mark.parametrize("name", NETWORKS)
def test_a_network_embeds_as_transformers_does(name: str, photos: Path, tmp_path: Path) -> None:
    network = save_network(name, tmp_path)
    processor = transformers.AutoImageProcessor.from_pretrained(tmp_path, backend="pil")
    images = [Image.open(file) for file in sorted(photos.iterdir())]
    with torch.inference_mode():
        features = normalize(image_features(network, processor(images, return_tensors="pt")["pixel_values"]))
    embeddings = ht.load_model(f"transformers:{tmp_path}", device="cpu").embed(photos)
    np.testing.assert_allclose(embeddings, features, atol=1e-4)


@pytest.mark.parametrize("name", NETWORKS)
def test_maps_are_those_of_the_patches(name: str, tmp_path: Path) -> None:
    network = save_network(name, tmp_path)
    model = ModelSettings(backbone=f"transformers:{tmp_path}", pretrained=True, pooling="average", embedding_size=None)
    embedder = Embedder(model, channels=3, size=32).eval()
    pixels = torch.rand(2, 3, 32, 32)
    with torch.inference_mode():
        maps = embedder.backbone(pixels)
        states = getattr(network, "vision_model", network)(pixels).last_hidden_state
    if states.ndim == 3:
        patches = states[:, NETWORKS[name][3] :]
        states = patches.reshape(2, 4, 4, 16).permute(0, 3, 1, 2)
    torch.testing.assert_close(maps, states)


def test_a_network_is_trained_and_loaded_without_its_repository(photos: Path, tmp_path: Path, tiny_recipe: Any) -> None:
    save_network("dinov2", tmp_path / "repository")
    settings = (f"model.backbone=transformers:{tmp_path / 'repository'}", "model.pretrained=true", "training.epochs=1")
    recipe: Recipe = tiny_recipe(*settings, "model.pooling=gem", "model.gradient_checkpointing=true", "images.size=24")
    train(recipe, tmp_path / "run")
    (tmp_path / "repository").rename(tmp_path / "elsewhere")
    embedder = load_embedder(tmp_path / "run")
    assert embedder.settings.backbone == "transformers:dinov2"
    assert ht.load_model(tmp_path / "run", device="cpu").embed(photos).shape == (4, embedder.embedding_size)


def test_nothing_is_fetched_in_the_name_of_a_saved_model(tmp_path: Path, tiny_recipe: Any) -> None:
    train(tiny_recipe("training.epochs=1"), tmp_path)
    settings = (tmp_path / "model.json").read_text()
    (tmp_path / "model.json").write_text(settings.replace('"small_cnn"', '"transformers:owner/name"'))
    with pytest.raises(CheckpointError, match="transformers:owner/name"):
        load_embedder(tmp_path)


def test_a_file_of_weights_goes_into_an_architecture(tmp_path: Path) -> None:
    network = save_network("dinov2", tmp_path)
    model = ModelSettings(
        backbone="transformers:dinov2",
        backbone_options=TINY,
        pretrained=str(tmp_path / "model.safetensors"),
        mean=(0.5,) * 3,
        std=(0.5,) * 3,
        pooling="backbone",
    )
    embedder = Embedder(model, channels=3)
    torch.testing.assert_close(embedder.backbone.network.tower.state_dict(), network.state_dict())


@pytest.mark.parametrize(
    ("name", "error", "problem"),
    [
        ("no/such-network", MissingResourceError, "hf download no/such-network"),
        ("bert", RecipeError, "without model.mean and model.std"),
        ("dinov2", RecipeError, "without model.mean and model.std"),
    ],
)
def test_what_is_no_network_of_images_is_named(
    name: str, error: type[Exception], problem: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    with pytest.raises(error, match=problem):
        Embedder(ModelSettings(backbone=f"transformers:{name}"), channels=3)


def test_a_network_of_texts_is_refused() -> None:
    gray = {"mean": (0.5,) * 3, "std": (0.5,) * 3}
    with pytest.raises(RecipeError, match="BertModel"):
        Embedder(
            ModelSettings(backbone="transformers:bert", backbone_options={"num_hidden_layers": 1}, **gray), channels=3
        )
