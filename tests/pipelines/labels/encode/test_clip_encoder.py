"""The CLIP path, with a tiny model of real format and random weights."""

import json

import numpy as np
import pytest
from tiny_clip import CONFIG, MODEL, save_tiny_clip

from hiertree.errors import DeviceError, MissingResourceError, OptionError
from hiertree.pipelines.labels import ClipEncoder, propose


@pytest.fixture(scope="module")
def weights(tmp_path_factory):
    """A registered tiny model, and its weights in a folder as open_clip publishes them."""
    folder = tmp_path_factory.mktemp("clip")
    save_tiny_clip(folder)
    return folder


def encoder(weights, name="open_clip_model.safetensors", **options):
    return ClipEncoder(model=MODEL, weights=str(weights / name), **options)


def test_texts_become_what_open_clip_says_of_the_prompts(weights):
    import open_clip
    import torch

    model = open_clip.create_model(MODEL, pretrained=str(weights / "open_clip_model.pt")).eval()
    tokens = open_clip.get_tokenizer(MODEL)(["A picture of a lake", "A picture of a church building"])
    with torch.inference_mode():
        expected = model.encode_text(tokens, normalize=True).numpy()
    assert np.allclose(encoder(weights).encode(["lake", "church building"]), expected, atol=1e-6)


def test_several_prompts_are_averaged_and_batches_do_not_matter(weights):
    texts = ["lake", "pond", "bridge", "church", "castle"]
    prompts = ("A picture of a {label}", "{label}, seen from afar")
    mean_vectors = encoder(weights, prompts=prompts).encode(texts)
    first, second = (encoder(weights, prompts=(prompt,)).encode(texts) for prompt in prompts)
    mean = (first + second) / np.linalg.norm(first + second, axis=1, keepdims=True)
    assert np.allclose(mean_vectors, mean, atol=1e-6)
    assert np.allclose(encoder(weights, prompts=prompts, batch_size=2).encode(texts), mean_vectors, atol=1e-6)


def test_a_folder_or_a_torch_file_holds_the_same_weights(weights):
    from_safetensors = encoder(weights).encode(["lake"])
    assert np.allclose(encoder(weights, "open_clip_model.pt").encode(["lake"]), from_safetensors, atol=1e-6)
    assert np.allclose(ClipEncoder(model=f"local-dir:{weights}").encode(["lake"]), from_safetensors, atol=1e-6)


def test_the_whole_proposal_runs_on_clip(weights):
    counts = {"lake": 3, "pond": 1, "road bridge": 2, "church": 2, "mosque": 1}
    proposal = propose(counts, encoder(weights), clusters=2)
    assert {member.label for cluster in proposal.clusters for member in cluster.labels} == set(counts)
    assert proposal == propose(counts, encoder(weights), clusters=2)


def test_settings_name_the_weights_file_by_its_hash(weights):
    settings = encoder(weights).settings()
    ((name, digest),) = settings["weights"].items()
    assert (name, len(digest)) == ("open_clip_model.safetensors", 64)
    local = ClipEncoder(model=f"local-dir:{weights}").settings()["weights"]
    assert local["open_clip_model.safetensors"] == digest
    assert ClipEncoder().settings()["weights"] == "laion2b_s32b_b82k"


def test_named_weights_out_of_reach_say_how_to_get_them(monkeypatch, tmp_path):
    import huggingface_hub.constants

    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", True)
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_CACHE", str(tmp_path))
    with pytest.raises(MissingResourceError, match="hf download laion/CLIP-ViT-B-32-laion2B-s34B-b79K"):
        ClipEncoder(model="ViT-B-32", weights="laion2b_s34b_b79k").encode(["lake"])


def test_broken_weights_or_those_of_another_model_are_refused(weights, tmp_path):
    import torch

    broken, mismatched, missing_file = tmp_path / "broken.safetensors", tmp_path / "other.pt", tmp_path / "absent"
    broken.write_bytes(b"not weights")
    torch.save({"weight": torch.zeros(2)}, mismatched)
    missing_file.mkdir()
    (missing_file / "open_clip_config.json").write_text(json.dumps({"model_cfg": CONFIG, "preprocess_cfg": {}}))
    for source in (
        {"model": MODEL, "weights": str(broken)},
        {"model": MODEL, "weights": str(mismatched)},
        {"model": f"local-dir:{missing_file}"},
    ):
        with pytest.raises(OptionError, match="do not load"):
            ClipEncoder(**source).encode(["lake"])


def test_checkpoints_of_other_models_or_with_code_are_refused_in_one_line(weights, tmp_path):
    import torch

    class Code:
        def __reduce__(self):
            return print, ("run",)

    state = {"positional_embedding": torch.zeros(16, 48)}  # open_clip asserts its width
    for name, weights in {"wide": state, "list": [1], "code": {"a": Code()}}.items():
        torch.save(weights, tmp_path / f"{name}.pt")
        with pytest.raises(OptionError, match="do not load into") as refused:
            ClipEncoder(model=MODEL, weights=str(tmp_path / f"{name}.pt")).encode(["lake"])
        assert "weights_only" not in str(refused.value)
        assert "two options" not in str(refused.value)
        assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    ("options", "message"), [({"model": "ViT-L14"}, "ViT-L-14"), ({"weights": "laion3b"}, "one of")]
)
def test_unknown_models_and_weights_list_the_known(options, message):
    with pytest.raises(OptionError, match=message):
        ClipEncoder(**options).encode(["lake"])


@pytest.mark.parametrize(
    "options", [{"prompts": ("A picture",)}, {"prompts": ()}, {"batch_size": 0}], ids=["no label", "no prompt", "batch"]
)
def test_impossible_settings_are_refused_at_once(options):
    with pytest.raises(OptionError):
        ClipEncoder(**options)


def test_an_absent_gpu_is_said_early(weights):
    import torch

    if torch.cuda.is_available():
        pytest.skip("this machine has a GPU")
    with pytest.raises(DeviceError, match="cuda"):
        encoder(weights, device="cuda").encode(["lake"])
