"""Commands that measure: ``hiertree evaluate`` and ``hiertree audit``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from hiertree.errors import OptionError

from .options import FILE, OUT_FOLDER, json_option, listed

labels_option = click.option(
    "--labels", type=FILE, help="CSV or Parquet table with one row an embedding, where these have no labels."
)
levels_option = click.option(
    "--levels", default="", metavar="A,B,…", help="Columns of labels, coarse → fine; default: all of them."
)
gallery_option = click.option("--gallery", type=FILE, help="Embeddings of a separate gallery.")
gallery_labels_option = click.option("--gallery-labels", type=FILE, help="Their table of labels.")
protocol_option = click.option(
    "--protocol",
    type=click.Choice(["sop", "inat", "dyml", "gldv2", "revisitop", "cub", "vehicleid", "inshop"]),
    help="A benchmark: its metrics and its rules.",
)


@click.command()
@click.argument("embeddings", type=FILE)
@labels_option
@levels_option
@gallery_option
@gallery_labels_option
@click.option(
    "--ids", metavar="COLUMN", help="No query retrieves an item with the same value there: itself, its sequence."
)
@click.option("--junk", type=FILE, help="Table of columns query and item, rows counted from 0, to leave out of lists.")
@click.option(
    "--distractors", is_flag=True, help="Gallery rows whose labels are all empty are irrelevant to every query."
)
@click.option(
    "--metrics", "names", default="", metavar="A,B,…", help="H-AP, NDCG@100, R@1, AP[1], … instead of the default."
)
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
    default="",
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
@click.option("--block-size", type=int, help="Queries at once; changes no number.")
@click.option("--device", help="A torch device that multiplies, such as cuda.")
@click.option(
    "--precision", type=click.Choice(["float32", "tf32", "bfloat16"]), help="Of the products; default: the embeddings'."
)
@click.option(
    "--approximate", type=click.Choice(["hnsw", "ivf"]), help="Search by a faiss index; metrics of a top k only."
)
@click.option("--resume", type=OUT_FOLDER, help="Folder that keeps finished queries, to go on from when interrupted.")
@json_option
@click.option("--per-query", type=FILE, help="Parquet or CSV file for the values of every query.")
@click.option("--out", type=FILE, help="JSON file for means, conventions and provenance.")
def evaluate(embeddings: Path, levels: str, names: str, relevance: str, weights: str, **given: Any) -> None:
    """Measure EMBEDDINGS with label paths inside (.npz, .pt), columns of labels (.parquet), or a table beside.

    An .npz of paths is what train writes; the table, --labels, stands beside an .npy or a .pt of one tensor. An .npz or
    .pt may also hold gallery_embeddings, gallery_paths, ids, gallery_ids, junk (pairs of rows) and distractors.
    """
    from ..evaluation.evaluating import evaluate_file

    chosen: Any = _numbers("--weights", weights) if weights else relevance
    evaluate_file(embeddings, levels=listed(levels), metrics=listed(names) or None, relevance=chosen, **given)


@click.command()
@click.argument("embeddings", type=FILE)
@labels_option
@levels_option
@click.option("--queries", type=int, default=200, show_default=True, help="How many queries are drawn, at most.")
@click.option("--seed", type=int, default=0, show_default=True, help="Of the draw.")
@json_option
@click.option("--out", type=FILE, help="JSON file for the table and its provenance.")
def audit(
    embeddings: Path, labels: Path | None, levels: str, queries: int, seed: int, as_json: bool, out: Path | None
) -> None:
    """Compare our metrics of EMBEDDINGS with other libraries', and say why each differs.

    Those installed of torchmetrics, scikit-learn, ir_measures, ranx and pytorch-metric-learning. EMBEDDINGS as for
    evaluate.
    """
    import json

    from ..evaluation.auditing import audit as run
    from ..evaluation.auditing import print_audit

    table = run(embeddings, labels=labels, levels=listed(levels), queries=queries, seed=seed, out=out)
    if as_json:
        click.echo(json.dumps(table.to_dict(orient="records"), indent=2, ensure_ascii=False))
    else:
        print_audit(table)


def _numbers(option: str, text: str) -> list[float]:
    try:
        return [float(part) for part in listed(text)]
    except ValueError:
        raise OptionError(f"{option} {text}", expected="numbers separated by commas") from None
