"""``hiertree labels images``."""

from __future__ import annotations

from pathlib import Path

import click

from .checked_paths import INPUT_FILE, INPUT_FOLDER, INPUT_PATH, OUTPUT_FOLDER, command


@command()
@click.argument("export", type=INPUT_PATH)
@click.option(
    "--images", type=INPUT_FOLDER, required=True, help="Images of landmarks: <landmark id>.jpg, or a folder each."
)
@click.option(
    "--image-table", type=INPUT_FILE, help="Table of image ids and landmark_id, where files bear the images' ids."
)
@click.option("--hold-out", default=0.5, show_default=True, help="Share of landmarks in the test split.")
@click.option("--min-images", default=2, show_default=True, help="Landmarks with fewer are left out.")
@click.option("--seed", default=0, show_default=True, help="Of the draw.")
@click.option("--out", type=OUTPUT_FOLDER, required=True, help="Folder to make; an earlier one is replaced.")
def images(
    export: Path,
    images: Path,
    image_table: Path | None,
    hold_out: float,
    min_images: int,
    seed: int,
    out: Path,
) -> None:
    """List images with their labels of EXPORT and a split: a table to train on ('data: {name: table}').

    EXPORT is a folder made by 'labels export' or 'labels build', or a table in GLDv2's published columns. Whole
    landmarks are held out, some of every supercategory.
    """
    from ..labels import steps

    listed = steps.images_step(
        export,
        images=images,
        out=out,
        image_table=image_table,
        hold_out=hold_out,
        min_images=min_images,
        seed=seed,
    )
    click.echo(steps.describe_listed(listed))
