"""The commands about embeddings and ranked lists: ``embed``, ``evaluate…``, ``qrels``, ``report`` and ``browse``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from hiertree.errors import OptionError, require_package
from hiertree.evaluation_options import Conventions, Search

from .checked_paths import (
    GROWING_FOLDER,
    INPUT_FILE,
    INPUT_FOLDER,
    INPUT_PATH,
    NAME,
    NAME_OR_INPUT,
    OUTPUT_FILE,
    command,
    continue_in_first,
)
from .options import (
    COUNT,
    INTEGERS,
    NAMES,
    backbone_option,
    choice,
    field_options,
    flag,
    json_option,
    no_browser_option,
    option,
    options_of,
    port_option,
    set_option,
)

labels_option = option(
    "--labels",
    INPUT_FILE,
    "Table of labels where the file has none: joined by name, or row by row where embeddings have no names.",
)
levels_option = option(
    "--levels", NAMES, "Columns of labels, coarse → fine; default: all but names and split.", default=()
)
uneven_option = choice(
    "--uneven", ["error", "unknown"], "What the last labels of a row are where they are empty.", default="error"
)
separator_option = option("--separator", str, "What divides the last column of labels into levels, as ' > '.")
gallery_option = option("--gallery", INPUT_PATH, "Embeddings of a separate gallery.")
gallery_labels_option = option("--gallery-labels", INPUT_FILE, "Table of the gallery's labels.")
query_labels_option = option(
    "--query-labels", INPUT_FILE, "Names and labels of the queries, where these are not items."
)
ids_option = option(
    "--ids",
    NAME,
    "Names of rows, no labels; default: image, or the first column of files or ids that are all different.",
    metavar="COLUMN",
)
column_options = options_of(levels_option, uneven_option, separator_option, ids_option)
result_options = options_of(
    json_option,
    option("--per-query", OUTPUT_FILE, "Parquet or CSV file for the values of every query."),
    option("--out", OUTPUT_FILE, "JSON file for means, conventions and provenance."),
)
nodes_option = flag(
    "--gallery-nodes",
    "Items are nodes of the tree, as texts that name them: relevant to what is at or below; for paths that end, "
    "--uneven unknown.",
)
codes_option = flag("--codes", "Rank by Hamming distance between the signs of embeddings.")


@command(example="hiertree embed runs/mine photos --out embedded", then="hiertree browse {out}", shares_work=True)
@click.argument("model", type=NAME_OR_INPUT)
@click.argument("data", type=NAME_OR_INPUT, required=False)
@option("--out", GROWING_FOLDER, "Folder of the embeddings.", required=True)
@option("--texts", INPUT_FILE, "Instead of DATA, a table of labels, embedded as texts by an open_clip model.")
@option("--template", NAME, "Sentence of the texts with {}; several are averaged.", multiple=True, show_default=False)
@option("--split", NAME, "Which of the data set's splits; default: test, or all images without one.")
@option("--levels", NAMES, "Columns or fields of labels, coarse → fine.", default=())
@option(
    "--shard-size", COUNT, "Images in a shard; an interrupted call goes on after the last whole one.", default=16_384
)
@set_option("Override of the recipe.")
@option("--root", INPUT_FOLDER, "Folder of the files that a table lists; default: the table's own.")
@flag("--no-labels", "Ignore labels: embed every image of DATA.")
@choice("--dtype", ["float32", "float16"], "Type of the numbers written.", default="float32")
@option("--devices", COUNT, "Processes that share the work, one per GPU of this machine.", default=1)
@flag("--skip-bad", "Leave out images that do not decode; OUT/skipped.csv names them.")
@backbone_option
def embed(
    model: str,
    data: str | None,
    out: Path,
    no_labels: bool,
    texts: Path | None,
    template: tuple[str, ...],
    **options: Any,
) -> None:
    """Embed the images in DATA for evaluate; an interrupted call continues where it stopped.

    MODEL is the folder of a finished run, timm:NAME, open_clip:NAME/WEIGHTS, either with hf-hub:OWNER/NAME, or a
    recipe with pretrained weights. DATA is the root of the recipe's data set; or a folder, a table with a column image
    of files, .tar files such as 'images-{000..015}.tar', or a data set of Hugging Face: hf-hub:OWNER/NAME, or one that
    was saved. What has no labels is embedded without. The processes of torchrun or srun share the work.
    """
    if (data is None) == (texts is None):
        raise click.UsageError("expected DATA, images to embed, or --texts, a table of labels")
    from ..inference.embedding import embed as run
    from ..inference.embedding import embed_texts

    if texts is not None:
        sentences: dict[str, Any] = {"templates": template} if template else {}
        embedded = embed_texts(model, texts, out, levels=options["levels"], **sentences)
        click.echo(f"{embedded.folder} holds {embedded.images} embeddings of texts")
        return
    options |= {"labeled": not no_labels}
    result = run(model, data, out, **options)
    if result is None:  # another process is to end last
        return
    click.echo(f"{result.folder} holds {result.images} embeddings")
    if result.skipped is not None:
        click.echo(f"images that do not decode are in {result.skipped}", err=True)


@command(example="hiertree evaluate embeddings.npz --metrics H-AP,NDCG,R@1", shares_work=True)
@click.argument("embeddings", type=INPUT_PATH)
@labels_option
@gallery_option
@gallery_labels_option
@column_options
@option("--junk", INPUT_FILE, "Table of columns query and item, rows counted from 0, to leave out of lists.")
@flag("--distractors", "Gallery rows whose labels are all empty are irrelevant to every query.")
@nodes_option
@field_options(Conventions)
@codes_option
@field_options(Search)
@result_options
def evaluate(embeddings: Path, **options: Any) -> None:
    """Measure EMBEDDINGS by the tree of their labels.

    The labels of EMBEDDINGS are paths inside (.npz, .pt), columns (.parquet), or a table of their own, --labels. An
    .npz of paths is what train writes; an .npy, or a .pt of one tensor, needs the table. An .npz or .pt may also hold
    gallery_embeddings, gallery_paths, ids, gallery_ids, junk (pairs of rows) and distractors. EMBEDDINGS may also be a
    folder or 'pattern' of shards, Parquet, .npy or .safetensors. Processes that torchrun or srun starts divide the
    queries.
    """
    from ..stored_embeddings.evaluating import evaluate_file

    if options["codes"]:
        continue_in_first(click.get_current_context())
    evaluate_file(embeddings, **options)


@command(example="hiertree evaluate-run run.txt --qrels qrels.txt")
@click.argument("runs", nargs=-1, required=True, type=INPUT_FILE)
@option("--qrels", INPUT_FILE, "Judgments of the lists, in the same formats; grades are levels.")
@option(
    "--tree", INPUT_FILE, "Instead, a table of the names and labels of all items; 'hiertree tree' makes one of a graph."
)
@query_labels_option
@column_options
@nodes_option
@choice(
    "--unjudged", ["irrelevant", "error"], "How to count listed items without judgment or labels.", default="irrelevant"
)
@choice("--negative-qrels", ["error", "irrelevant"], "How to treat judgments below 0.", default="error")
@flag("--lower-is-better", "The scores of RUN are distances; those in a column 'distance' are anyway.")
@field_options(Conventions)
@click.option(
    "--against", metavar="RUN", help="Which of several runs the others are tested against; default: the first."
)
@json_option
@option("--per-query", OUTPUT_FILE, "Parquet or CSV file for the values of every query, of a single run.")
@option("--out", OUTPUT_FILE, "JSON file for means, conventions and provenance, or a table: .csv, .tex, .md or .txt.")
def evaluate_run(runs: tuple[Path, ...], against: str | None, out: Path | None, **options: Any) -> None:
    """Measure the ranked lists in RUNS by judgments, or by the tree of their items' labels.

    Each of RUNS is a TREC file (.gz too), Parquet, CSV, JSON of ranx, or an .npy of rows of --tree, best first. Several
    are tabulated side by side, and marked where they differ by a paired test on the values of the queries.
    """
    if len(runs) == 1 and (out is None or out.suffix == ".json"):
        from ..stored_embeddings.evaluating import evaluate_run as run_evaluation

        run_evaluation(runs[0], out=out, **options)
        return
    from ..comparison.recipe_comparison import compare_lists

    as_json, per_query = options.pop("as_json"), options.pop("per_query")
    if per_query is not None:
        raise OptionError(f"--per-query of {len(runs)} runs", expected="a single run")
    click.echo(compare_lists(runs, out=out, against=against, as_json=as_json, **options))


@command(example="hiertree evaluate-pairs embedded/roxford5k gnd_roxford5k.pkl")
@click.argument("embeddings", type=INPUT_PATH)
@click.argument("truth", type=INPUT_FILE)
@gallery_option
@field_options(Conventions)
@codes_option
@result_options
def evaluate_pairs(embeddings: Path, **options: Any) -> None:
    """Measure EMBEDDINGS by judgments of pairs, TRUTH, instead of labels.

    TRUTH is a Revisited gnd_….pkl (easy, medium, hard), or an .npy of grades, queries × items. EMBEDDINGS and --gallery
    are arrays or shards, or EMBEDDINGS is a folder of both that embed wrote.
    """
    from ..stored_embeddings.evaluating import evaluate_pairs as run_evaluation

    run_evaluation(embeddings, **options)


@command(example="hiertree qrels labels.csv --out qrels.txt")
@click.argument("tree", metavar="LABELS", type=INPUT_FILE)
@option("--out", OUTPUT_FILE, "The qrels; a name that ends in .gz is compressed.", required=True)
@query_labels_option
@column_options
@option("--grades", INTEGERS, "Grade of each level from 0, such as 0,1,3; default: the level.")
def qrels(tree: Path, out: Path, **options: Any) -> None:
    """Write TREC qrels graded by the tree of LABELS, for trec_eval, ranx or ir_measures.

    LABELS is a CSV or Parquet table with the name and the labels of each item. Every item is also a query, but not its
    own item, unless --query-labels names the queries.
    """
    from ..stored_embeddings.evaluating import write_qrels

    write_qrels(tree, out, **options)


@command(example="hiertree report runs/first runs/second --out report.html")
@click.argument("sources", nargs=-1, required=True, type=INPUT_PATH)
@option("--out", OUTPUT_FILE, "The HTML file.", default=Path("report.html"))
@click.option("--title", default="Retrieval report", help="Title of the page.")
@set_option("data.root=PATH where a run's images have moved.")
@option("--queries", COUNT, "How many of the worst, median and best queries to show, each.", default=3)
@option("--hits", COUNT, "Images to show of each ranking.", default=8)
@click.option("--map", "projection", type=click.Choice(["pca", "t-sne"]), default="pca", help="Projection of the map.")
@labels_option
@gallery_option
@gallery_labels_option
@column_options
@option("--images", INPUT_FOLDER, "Folder in which the ids are names of image files.")
@field_options(Conventions, "protocol")
def report(sources: tuple[Path, ...], out: Path, **options: Any) -> None:
    """Make one self-contained HTML page of SOURCES: metrics, queries, classes, errors, map, retrievals, learning.

    SOURCES are folders of finished runs or of comparisons, on the same images, or one file or folder of embeddings,
    as for evaluate. Where the images are not there, the page says so and shows the rest.
    """
    from ..report import EmbeddingsOptions, make_report

    of_embeddings: Any = {name: options.pop(name) for name in EmbeddingsOptions.__annotations__ if name in options}
    make_report(sources, out, options=of_embeddings, **options)


@command(example="hiertree browse embedded")
@click.argument("sources", nargs=-1, required=True, type=INPUT_PATH)
@option("--images", INPUT_FOLDER, "Folder of the images; default: where they were embedded from.")
@option(
    "--model",
    NAME_OR_INPUT,
    "Network that made the embeddings, one for each of SOURCES: the page then takes texts and further photographs.",
    multiple=True,
    show_default=False,
)
@port_option
@no_browser_option
def browse(sources: tuple[Path, ...], images: Path | None, model: tuple[str, ...], port: int, no_browser: bool) -> None:
    """Click an image and see its nearest neighbors, colored by level, on a local page, until Ctrl-C.

    SOURCES are runs, folders that embed wrote, or files of embeddings, one for each model, all of the same images.
    """
    require_package("starlette", "uvicorn", extra="labels")
    from ..browse.embedded_images import read_embedded
    from ..browse.server import serve

    serve(read_embedded(sources, images=images, models=model), port=port, open_browser=not no_browser, say=click.echo)
