"""The command that writes a trained network for other runtimes: ``hiertree export``."""

from __future__ import annotations

from pathlib import Path

import click

from .checked_paths import GROWING_FOLDER, INPUT_FOLDER, INPUT_PATH, command
from .option_values import NAME
from .options import backbone_option


@command(example="hiertree export runs/mine --onnx --torchscript --faiss --out exported")
@click.argument("model", metavar="RUN", type=INPUT_FOLDER)
@click.option("--out", type=GROWING_FOLDER, required=True, help="New or empty folder.")
@click.option("--onnx", is_flag=True, help="model.onnx: pixels → embeddings, batches of any size.")
@click.option("--torchscript", is_flag=True, help="model.torchscript: the same for torch.jit.load.")
@click.option("--faiss", is_flag=True, help="index.faiss and index.csv: a gallery to search in.")
@click.option(
    "--gallery", type=INPUT_FOLDER, help="Folder of hiertree embed; default: the run's embeddings of its test split."
)
@click.option(
    "--index",
    type=NAME,
    default="Flat",
    show_default=True,
    help="Kind of faiss index: Flat is exact, HNSW32 approximate.",
)
@click.option("--images", type=INPUT_PATH, help="Photos to compare networks on; default: the run's test split.")
@backbone_option
def export(
    model: Path,
    out: Path,
    onnx: bool,
    torchscript: bool,
    faiss: bool,
    gallery: Path | None,
    index: str,
    images: Path | None,
    backbone: str | None,
) -> None:
    """Write the network of RUN, the folder of a run or of a model, for other runtimes.

    Each file is compared with the network on real images, to 1e-5 (ONNX, faiss) or 1e-6 (TorchScript), and nothing is
    written if it differs.
    """
    from ..inference.exporting import export as run

    kinds = {"onnx": onnx, "torchscript": torchscript, "faiss": faiss}
    made = run(model, out, **kinds, gallery=gallery, index=index, images=images, backbone=backbone)
    for path in made.files:
        compared = made.checks.get(path.name)
        click.echo(f"{path}" if compared is None else f"{path}  ({_said(compared, path.name, index)})")


def _said(compared: float, name: str, index: str) -> str:
    if name.endswith(".faiss") and index != "Flat":
        return f"finds {100 * compared:.1f} % of the ten nearest"
    return f"differs by at most {compared:.1g}"
