"""The commands ``hiertree labels review`` and ``agreement``: people's part in the hierarchy."""

from __future__ import annotations

from pathlib import Path

import click

from ...labels.encode.encoders import EncoderSettings
from ...labels.landmark_images import ImageFolderSettings
from ...labels.review.agreement import agreement_report, describe_agreement
from ..checked_paths import GROWING_FILE, INPUT_FILE, INPUT_PATH, OUTPUT_FILE, command
from ..options import json_option, no_browser_option, port_option, print_json, settings_options


@command(
    example="hiertree labels review clustered --annotator anna",
    then="hiertree labels export {clustered} --review {log} --out exported",
)
@click.argument("clustered", type=INPUT_PATH)
@click.option("--annotator", required=True, help="Who reviews; everybody has a log of their own.")
@click.option("--log", type=GROWING_FILE, help="JSON lines to append to; default: CLUSTERED-review-ANNOTATOR.jsonl.")
@settings_options("photos", ImageFolderSettings)
@click.option(
    "--adjudicate", type=INPUT_FILE, nargs=2, metavar="LOG LOG", help="Decide where two annotators' logs differ."
)
@port_option
@no_browser_option
@settings_options("embedding", EncoderSettings)
def review(
    clustered: Path,
    annotator: str,
    log: Path | None,
    photos: ImageFolderSettings,
    adjudicate: tuple[Path, Path] | None,
    port: int,
    no_browser: bool,
    embedding: EncoderSettings,
) -> None:
    """Rename, merge, split and approve the clusters in CLUSTERED on a page of this machine, until Ctrl-C.

    CLUSTERED is a folder that 'labels cluster' made. Every action is on the disk before the page shows it; the same
    command goes on where the log ends. The encoder serves to split a cluster in two by 2-means.
    """
    from ...labels.review.serving import open_review, serve

    opened = open_review(
        clustered,
        annotator=annotator,
        log=log,
        images=photos.folder(),
        adjudicate=adjudicate,
        encoder=embedding.build(),
    )
    serve(opened, port=port, open_browser=not no_browser, say=click.echo)
    click.get_current_context().params["log"] = opened.session.log.path  # the default one, too, is named at the end


@command(example="hiertree labels agreement clustered review-anna.jsonl review-ben.jsonl")
@click.argument("clustered", type=INPUT_PATH)
@click.argument("log_a", type=INPUT_FILE)
@click.argument("log_b", type=INPUT_FILE)
@json_option
@click.option("--out", type=OUTPUT_FILE, help="JSON file for the numbers, the differences and their provenance.")
def agreement(clustered: Path, log_a: Path, log_b: Path, as_json: bool, out: Path | None) -> None:
    """Say how far the reviews in LOG_A and LOG_B agree: Cohen's κ, adjusted Rand index, mutual information."""
    report = agreement_report(clustered, log_a, log_b, out=out)
    print_json(report) if as_json else click.echo(describe_agreement(report))
