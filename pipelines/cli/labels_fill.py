"""``hiertree labels fill``."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click

from .checked_paths import INPUT_FILE, INPUT_FOLDER, OUTPUT_FOLDER, command
from .options import clip_model_option, clip_weights_option, device_option, json_option


@command()
@click.argument("cleaned", type=INPUT_FOLDER)
@click.option("--images", type=INPUT_FOLDER, help="Images of landmarks: <landmark id>.jpg, or a folder each.")
@click.option(
    "--image-table", type=INPUT_FILE, help="Table of image ids and landmark_id, where files bear the images' ids."
)
@click.option("--embeddings", type=INPUT_FILE, help="An .npz of embeddings and landmark_ids instead of images.")
@click.option("--out", type=OUTPUT_FOLDER, required=True, help="Folder to make; an earlier one is replaced.")
@click.option(
    "--method",
    type=click.Choice(["clip", "knn"]),
    default="clip",
    show_default=True,
    help="By the label texts, or by the images of labelled landmarks.",
)
@click.option("--threshold", type=float, default=0.5, show_default=True, help="Confidence from which a label is taken.")
@click.option("--neighbours", type=int, default=5, show_default=True, help="Of an image, for knn.")
@click.option("--temperature", type=float, default=100.0, show_default=True, help="Of the softmax over cosines.")
@clip_model_option
@clip_weights_option
@click.option("--prompt", "prompts", multiple=True, help="Template with {label}; several are averaged.")
@click.option("--batch-size", type=int, default=128, show_default=True, help="Images or texts at a time.")
@device_option
@json_option
def fill(
    cleaned: Path,
    images: Path | None,
    image_table: Path | None,
    embeddings: Path | None,
    out: Path,
    method: Any,
    threshold: float,
    neighbours: int,
    temperature: float,
    clip_model: str,
    clip_weights: str,
    prompts: tuple[str, ...],
    batch_size: int,
    device: str,
    as_json: bool,
) -> None:
    """Give labels to the landmarks of CLEANED that have none, from what their images show.

    CLEANED is a folder made by 'labels clean'; the folder made is one for 'labels cluster'. All images of a landmark
    vote together, whatever split they are in.
    """
    from ..labels import ClipEncoder, describe_filling, steps

    encoder = ClipEncoder(clip_model, clip_weights, prompts or ClipEncoder.prompts, batch_size, device)
    report = steps.fill_step(
        cleaned,
        out=out,
        source=steps.ImageSource(images, image_table, embeddings, encoder),
        settings=steps.FillSettings(method, threshold, neighbours, temperature),
    )
    click.echo(json.dumps(report, indent=2, ensure_ascii=False) if as_json else describe_filling(report))
