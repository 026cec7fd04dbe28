"""Train the models of a release and pack each with its card: ``python scripts/release_models.py OUT --omniglot DATA``.

OUT then holds ``NAME.tar.gz``, a folder that ``ht.load_model`` reads once unpacked, and ``SHA256SUMS``.
"""

from __future__ import annotations

import argparse
import hashlib
import shutil
import tempfile
from pathlib import Path

import hiertree as ht
from hiertree.pipelines.demo import run_demo
from hiertree.pipelines.training.recipe.reading import load_recipe
from hiertree.pipelines.training.run.experiment import train

OMNIGLOT = ("omniglot-happier", "omniglot-smooth-ap")


def main() -> None:
    """Train, pack and sum up."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out", type=Path)
    parser.add_argument("--omniglot", help="the data set; without it, the models of the demo alone")
    parser.add_argument("--quick", action="store_true", help="a few steps, to see that everything runs")
    arguments = parser.parse_args()
    arguments.out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        run_demo(Path(folder, "demo"), quick=arguments.quick)
        for name in OMNIGLOT if arguments.omniglot else ():
            few = ["training.epochs=1", "model.width=8"] if arguments.quick else []
            train(load_recipe(name, [f"data.root={arguments.omniglot}", *few]), Path(folder, "omniglot", name))
        runs = sorted(file.parent for file in Path(folder).rglob("metrics.json") if file.parent.name != "best")
        for run in runs:
            ht.load_model(run).save(model := Path(folder, "models", run.name))
            shutil.make_archive(str(arguments.out / run.name), "gztar", root_dir=model.parent, base_dir=model.name)
    sums = {file.name: hashlib.sha256(file.read_bytes()).hexdigest() for file in sorted(arguments.out.glob("*.tar.gz"))}
    lines = [f"{digest}  {name}\n" for name, digest in sums.items()]
    (arguments.out / "SHA256SUMS").write_text("".join(lines), encoding="utf-8")
    print("".join(lines), end="")


if __name__ == "__main__":
    main()
