"""The commands about embeddings: ``hiertree embed``, ``evaluate`` and ``audit``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from .checked_paths import GROWING_FOLDER, INPUT_FILE, INPUT_PATH, NAME_OR_INPUT, OUTPUT_FILE, command
from .option_values import COUNT, NAME, NAMES, NUMBERS, SEED
from .options import json_option, print_json

labels_option = click.option(
    "--labels", type=INPUT_FILE, help="CSV or Parquet table with one row an embedding, where these have no labels."
)
levels_option = click.option(
    "--levels", type=NAMES, metavar="A,B,…", help="Columns of labels, coarse → fine; default: all of them."
)
gallery_option = click.option("--gallery", type=INPUT_FILE, help="Embeddings of a separate gallery.")
gallery_labels_option = click.option("--gallery-labels", type=INPUT_FILE, help="Their table of labels.")
protocol_option = click.option(
    "--protocol",
    type=click.Choice(
        ["sop", "inat", "dyml", "gldv2", "revisitop", "cub", "vehicleid", "vehicleid-one-image", "inshop"]
    ),
    help="A benchmark: its metrics and its rules.",
)


@command(example="hiertree embed runs/mine photos --no-labels --out embedded", then="hiertree evaluate {out}")
@click.argument("model", metavar="RUN_OR_RECIPE", type=NAME_OR_INPUT)
@click.argument("data", type=INPUT_PATH)
@click.option("--out", type=GROWING_FOLDER, required=True, help="Folder of the embeddings.")
@click.option("--split", type=NAME, default="test", show_default=True, help="Which of the data set's splits.")
@click.option(
    "--shard-size", type=COUNT, default=16_384, show_default=True, help="Images between two points to go on from."
)
@click.option("--set", "overrides", multiple=True, metavar="KEY=VALUE", help="Override of the recipe.")
@click.option("--no-labels", is_flag=True, help="DATA is a folder of images, or a table with a column image of files.")
def embed(
    model: str, data: Path, out: Path, split: str, shard_size: int, overrides: tuple[str, ...], no_labels: bool
) -> None:
    """Embed the images in DATA, a data set's root, for evaluate; an interrupted call goes on where it was.

    RUN_OR_RECIPE is the folder of a finished run, or a recipe with pretrained weights.
    """
    from ..embedding import embed as run

    made = run(model, data, out, split=split, shard_size=shard_size, overrides=overrides, labeled=not no_labels)
    for array, table in zip(made.embeddings, made.labels, strict=True):
        click.echo(f"{array} with {table.name}")


@command(example="hiertree evaluate embeddings.npz --metrics H-AP,NDCG,R@1")
@click.argument("embeddings", type=INPUT_FILE)
@labels_option
@levels_option
@gallery_option
@gallery_labels_option
@click.option(
    "--ids",
    type=NAME,
    metavar="COLUMN",
    help="No query retrieves an item with the same value there: itself, its sequence.",
)
@click.option(
    "--junk", type=INPUT_FILE, help="Table of columns query and item, rows counted from 0, to leave out of lists."
)
@click.option(
    "--distractors", is_flag=True, help="Gallery rows whose labels are all empty are irrelevant to every query."
)
@click.option("--metrics", type=NAMES, metavar="A,B,…", help="H-AP, NDCG@100, R@1, AP[1], … instead of the default.")
@click.option("--alpha", type=float, default=1.0, show_default=True, help="Of H-AP's relevance.")
@click.option(
    "--relevance",
    type=click.Choice(["hap", "linear", "gain"]),
    default="hap",
    show_default=True,
    help="H-AP's: (l/L)^α / |Ω^(l)|, l/L or 2^l − 1.",
)
@click.option(
    "--weights",
    type=NUMBERS,
    metavar="A,B,…",
    help="A weight a level, coarse → fine: H-AP is that mean of the levels' APs.",
)
@click.option(
    "--counts",
    type=click.Choice(["strict", "official"]),
    help="Whether |Ω^(L)| holds the query; default: as --compat says, or else strict.",
)
@click.option(
    "--ties",
    type=click.Choice(["average", "worst", "best", "paper", "index"]),
    default="average",
    show_default=True,
    help="What equal scores mean.",
)
@protocol_option
@click.option(
    "--compat", type=click.Choice(["official", "delf", "revisitop"]), help="Compute as the authors' code does."
)
@click.option("--codes", is_flag=True, help="Rank by Hamming distance between the signs of embeddings.")
@click.option("--block-size", type=COUNT, help="Queries at once; changes no number.")
@click.option("--device", type=NAME, help="A torch device that multiplies, such as cuda.")
@click.option(
    "--precision", type=click.Choice(["float32", "tf32", "bfloat16"]), help="Of the products; default: the embeddings'."
)
@click.option(
    "--approximate", type=click.Choice(["hnsw", "ivf"]), help="Search by a faiss index; metrics of a top k only."
)
@click.option(
    "--resume", type=GROWING_FOLDER, help="Folder that keeps finished queries, to go on from when interrupted."
)
@json_option
@click.option("--per-query", type=OUTPUT_FILE, help="Parquet or CSV file for the values of every query.")
@click.option("--out", type=OUTPUT_FILE, help="JSON file for means, conventions and provenance.")
def evaluate(
    embeddings: Path,
    labels: Path | None,
    levels: tuple[str, ...] | None,
    gallery: Path | None,
    gallery_labels: Path | None,
    ids: str | None,
    junk: Path | None,
    distractors: bool,
    metrics: tuple[str, ...] | None,
    alpha: float,
    relevance: Any,
    weights: tuple[float, ...] | None,
    counts: Any,
    ties: Any,
    protocol: Any,
    compat: Any,
    codes: bool,
    block_size: int | None,
    device: str | None,
    precision: Any,
    approximate: Any,
    resume: Path | None,
    as_json: bool,
    per_query: Path | None,
    out: Path | None,
) -> None:
    """Measure EMBEDDINGS, whose labels are paths inside (.npz, .pt), columns (.parquet), or a table of their own.

    An .npz of paths is what train writes; an .npy, or a .pt of one tensor, needs the table, --labels. An .npz or .pt
    may also hold gallery_embeddings, gallery_paths, ids, gallery_ids, junk (pairs of rows) and distractors.
    """
    from ..evaluation.file_evaluation import evaluate_file

    evaluate_file(
        embeddings,
        labels=labels,
        levels=levels or (),
        gallery=gallery,
        gallery_labels=gallery_labels,
        ids=ids,
        junk=junk,
        distractors=distractors,
        metrics=metrics,
        alpha=alpha,
        relevance=relevance if weights is None else weights,
        counts=counts,
        ties=ties,
        protocol=protocol,
        compat=compat,
        codes=codes,
        block_size=block_size,
        device=device,
        precision=precision,
        approximate=approximate,
        resume=resume,
        as_json=as_json,
        per_query=per_query,
        out=out,
    )


@command(example="hiertree audit embeddings.npz")
@click.argument("embeddings", type=INPUT_FILE)
@labels_option
@levels_option
@click.option("--queries", type=COUNT, default=200, show_default=True, help="How many queries are drawn, at most.")
@click.option("--seed", type=SEED, default=0, show_default=True, help="Of the draw.")
@json_option
@click.option("--out", type=OUTPUT_FILE, help="JSON file for the table and its provenance.")
def audit(
    embeddings: Path,
    labels: Path | None,
    levels: tuple[str, ...] | None,
    queries: int,
    seed: int,
    as_json: bool,
    out: Path | None,
) -> None:
    """Compare our metrics of EMBEDDINGS with other libraries', and say why each differs.

    Those installed of torchmetrics, scikit-learn, ir_measures, ranx and pytorch-metric-learning. EMBEDDINGS as for
    evaluate.
    """
    from ..evaluation.library_audit import audit as run
    from ..evaluation.library_audit import audit_rows, print_audit

    table = run(embeddings, labels=labels, levels=levels or (), queries=queries, seed=seed, out=out)
    if as_json:
        print_json(audit_rows(table))
    else:
        print_audit(table)
