"""A tiny CLIP model of real format and random weights."""

from __future__ import annotations

import json
from pathlib import Path

MODEL = "hiertree-tiny-test"
CONFIG = {
    "embed_dim": 32,
    "vision_cfg": {"image_size": 32, "layers": 1, "width": 32, "head_width": 16, "patch_size": 16},
    "text_cfg": {"context_length": 16, "vocab_size": 49408, "width": 32, "heads": 2, "layers": 1},
}


def save_tiny_clip(folder: Path) -> None:
    """Register the model and write its weights into a folder as open_clip publishes them."""
    import open_clip
    import torch
    from safetensors.torch import save_file

    folder.mkdir(exist_ok=True)
    (folder / f"{MODEL}.json").write_text(json.dumps(CONFIG))
    open_clip.add_model_config(folder / f"{MODEL}.json")
    torch.manual_seed(0)
    model = open_clip.create_model(MODEL)
    (folder / "open_clip_config.json").write_text(json.dumps({"model_cfg": CONFIG, "preprocess_cfg": {}}))
    state = {name: value.contiguous() for name, value in model.state_dict().items()}
    save_file(state, folder / "open_clip_model.safetensors")
    torch.save(model.state_dict(), folder / "open_clip_model.pt")
