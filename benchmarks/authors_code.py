"""Values of other authors' public code beside ours, on the same drawn inputs; docs/peers.md has the table.

``python benchmarks/authors_code.py NAME FOLDER`` runs what is in FOLDER, a checkout of the repository that ``COMMITS``
names, on a CPU: calls of CUDA, TensorBoard's writer and names that numpy and torch no longer have are stood in for.
``mistakes`` and ``hops`` also need nltk. Tests hold the values of ``recorded``.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import sys
import tempfile
import types
from importlib import import_module
from pathlib import Path
from typing import Any

import click
import numpy as np
import torch

import hiertree as ht
from hiertree.losses.baselines import hyperbolic
from hiertree.metrics import evaluate_scores

COMMITS = {
    "hier": "tjddus9597/HIER-CVPR23 3986a74",
    "mistakes": "fiveai/making-better-mistakes f0bb7d0",
    "hops": "Depanshu-Sani/Hier-COS 122b01d",
    "ilias": "ilias-vrg/ilias e81029e",
    "deephash": "swuxyj/DeepHash-pytorch ab14068",
}
TREES = {"inaturalist19-224": "inaturalist19_isa.txt", "tiered-imagenet-224": "tiered_imagenet_isa.txt"}
MISTAKES = {
    "ilsvrc_dist_avg/01": "HD@1",
    "ilsvrc_dist_avg/05": "HD@5",
    "ilsvrc_dist_avg/20": "HD@20",
    "ilsvrc_dist_mistakes/avg01": "mistake-severity",
    "ilsvrc_dist_precision/05": "HP@5",
}


@click.command()
@click.argument("name", type=click.Choice(list(COMMITS)))
@click.argument("folder", type=click.Path(exists=True, file_okay=False, path_type=Path))
def main(name: str, folder: Path) -> None:
    """Print a line for each value: theirs, ours."""
    click.echo(COMMITS[name])
    globals()[f"compare_{name}"](folder.resolve())


def show(what: str, theirs: Any, ours: Any) -> None:
    """One line of the comparison."""
    click.echo(f"{what:32s} {float(theirs):.12g} {float(ours):.12g}")


def replace(owner: Any, name: str, value: Any) -> Any:
    """Give an attribute of a library another value; the one that it had."""
    before = getattr(owner, name)
    setattr(owner, name, value)
    return before


def recorded_vectors() -> tuple[Any, Any, list[Any]]:
    """Twelve images and eight proxies of four numbers, triplets of the images, and what is drawn for ancestors."""
    vectors = (1.7 * torch.arange(80, dtype=torch.float64)).sin().reshape(20, 4)
    triplets = torch.stack([torch.arange(36) % 12, (torch.arange(36) + 1) % 12, (5 * torch.arange(36) + 3) % 12])
    return vectors, triplets, [(k * torch.arange(288, dtype=torch.float64)).cos().reshape(36, 8) for k in (2, 3)]


def compare_hier(folder: Path) -> None:
    """The regularization of HIER for given triplets and draws, and its gradient; with their small numbers, without."""
    sys.path.insert(0, str(folder / "hier"))
    replace(torch.Tensor, "cuda", lambda self, *_, **__: self)
    torch.set_default_dtype(torch.float64)
    theirs: Any = import_module("losses")

    vectors, triplets, noise = recorded_vectors()
    draws: list[Any] = []

    def drawn(logits: Any, **_: Any) -> Any:
        soft = (logits + draws.pop(0)).softmax(1)
        return torch.zeros_like(logits).scatter(1, soft.argmax(1, keepdim=True), 1.0) - soft.detach() + soft

    theirs.F.gumbel_softmax = drawn
    module = theirs.HIERLoss(8, 4, mrg=0.1, tau=0.1, hyp_c=0.1, clip_r=2.3)
    leaf = vectors.clone().requires_grad_()
    points = module.to_hyperbolic(leaf)
    draws[:] = noise
    value = module.compute_gHHC(points[:12], None, module.dist_f(points[:12], points[12:]), triplets, None)
    (gradient,) = torch.autograd.grad(value, leaf)
    own = vectors.clone().requires_grad_()
    module_of_ours = hyperbolic.HIER(ht.losses.SupCon(), 4, num_proxies=8)
    own_points = module_of_ours._on_manifold(hyperbolic.poincare_points(own, curvature=0.1, radius=2.3, scale=1.0))
    distances = hyperbolic.poincare_distances(own_points[:12], own_points[12:], 0.1)
    own_value = hyperbolic._AncestorLosses.apply(distances, triplets, *noise, 0.1, 0.1).mean()
    (own_gradient,) = torch.autograd.grad(own_value, own)
    show("recorded loss", value.detach(), own_value.detach())
    show("recorded norm of the gradient", gradient.norm(), own_gradient.norm())


def recorded_scores() -> tuple[Any, Any, Any]:
    """(40, 120) scores of classes in a tree of three levels, the paths of the classes, and the right class of each."""
    classes, targets = np.arange(120), 3 * np.arange(40)
    paths = np.stack([classes // 40, classes // 8, classes], axis=1)
    scores = np.random.default_rng(0).random((40, 120)) + 0.3 * ht.levels(paths[targets], paths)
    return scores, paths, targets


def compare_mistakes(folder: Path) -> None:
    """Their evaluation on their own trees, and on the recorded scores."""
    sys.path.insert(0, str(folder))
    stand_in: Any = types.ModuleType("conditional")
    stand_in.conditional = lambda condition, context: context if condition else contextlib.nullcontext()
    sys.modules |= {"conditional": stand_in, "tensorboardX": types.ModuleType("tensorboardX")}
    vars(np)["float"] = float
    replace(torch.Tensor, "cuda", lambda self, *_, **__: self)
    view = replace(torch.Tensor, "view", torch.Tensor.reshape)
    run, trees = import_module("better_mistakes.model.run_xent").run, import_module("better_mistakes.trees")

    def compare(label: str, scores: Any, targets: Any, distances: Any, names: Any, paths: Any) -> None:
        options = types.SimpleNamespace(
            loss="cross-entropy", gpu=None, batch_size=len(scores), out_folder=None, epochs=1
        )
        batch = [(torch.tensor(scores), torch.tensor(targets))]
        arguments = (torch.nn.Identity(), torch.nn.functional.cross_entropy, distances, None, names, options, 0, 0)
        with contextlib.redirect_stdout(io.StringIO()):
            theirs, _ = run(batch, *arguments, is_inference=True)
        levels = ht.levels(paths[targets], paths)
        ours = evaluate_scores(scores, levels, metrics=list(MISTAKES.values()), num_levels=paths.shape[1]).summary()
        for key, name in MISTAKES.items():
            show(f"{label} {name}", theirs[key], ours[name])

    scores, paths, targets = recorded_scores()
    heights = 3 - ht.levels(paths, paths).astype(int)
    pairs = {(i, j): int(heights[i, j]) for i in range(120) for j in range(i + 1, 120)}
    compare("recorded", scores, targets, trees.DistanceDict(pairs), list(range(120)), paths)
    for name, edges in TREES.items():
        classes, _ = trees.get_classes(trees.load_hierarchy(name, folder / "data"))
        distances = trees.load_distances(name, "ilsvrc", folder / "data")
        rows = [tuple(line.split()) for line in (folder / "data" / edges).read_text().splitlines()]
        paths = ht.LabelTree.from_edges(rows, uneven="pad").paths(classes)
        theirs = np.array([[distances[a, b] for b in classes] for a in classes])
        ours = paths.shape[1] - ht.levels(paths, paths).astype(int)
        show(f"{name} equal distances", 1, (theirs == ours).mean())
        random = np.random.default_rng(0)
        targets = random.integers(0, len(classes), 500)
        compare(name, random.normal(size=(500, len(classes))) - theirs[targets] / 2, targets, distances, classes, paths)
    replace(torch.Tensor, "view", view)


def compare_hops(folder: Path) -> None:
    """The cells of their notebook that compute HOPS, on the recorded scores."""
    notebook = json.loads((folder / "Code for Analysis (HOPS, FPA, Tree).ipynb").read_text())
    cells = ["".join(cell["source"]) for cell in notebook["cells"]]
    scores, paths, targets = recorded_scores()
    given = {"probabilities": scores, "targets": targets}
    names: dict[str, Any] = {key: {0: {"method": value}} for key, value in given.items()}
    names |= {"np": np, "SEEDS": [0], "seed": 0, "methods": ["method"]}
    names["LCA_similarity"] = {0: ht.levels(paths, paths).astype(float)}
    chosen = [next(cell for cell in cells if cell.startswith(start)) for start in ("gt_class_wise", "def generate_li")]
    chosen += ["HOPS = {0: {}}\nn_classes, batch_size = 120, 10000"]
    chosen += [next(cell for cell in cells if cell.startswith("top_k = [None]")).replace("[None]", "[None, 20, 5]", 1)]
    with contextlib.redirect_stdout(io.StringIO()):
        for cell in chosen:
            exec(cell, names)
    ours = evaluate_scores(scores, ht.levels(paths[targets], paths), metrics=["HOPS", "HOPS@20", "HOPS@5"]).summary()
    for k, name in ((None, "HOPS"), (20, "HOPS@20"), (5, "HOPS@5")):
        show(f"recorded {name}", names["HOPS"][0]["method"][k].mean(), ours[name])


def compare_ilias(folder: Path) -> None:
    """Their mAP@k of drawn similarities, of which none are tied."""
    sys.path.insert(0, str(folder / "evaluation"))
    datasets: Any = import_module("src.dataset")

    random, objects = np.random.default_rng(0), [f"object{index}" for index in range(12)]
    positives = [f"{name}/pos/{image}" for index, name in enumerate(objects) for image in range(2 + index % 5)]
    lists = {"image_query": [f"{name}/query/0,0" for name in objects], "text_query": objects}
    lists["positive"] = [f"{name},0.1,3" for name in positives]
    with contextlib.ExitStack() as stack:
        root = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        (root / "image_ids").mkdir()
        for name, lines in lists.items():
            (root / "image_ids" / f"{name}_ids.txt").write_text("\n".join(lines))
        (root / "misc").mkdir()
        (root / "misc" / "taxonomy.json").write_text(json.dumps({"all": {"all": {"all": objects}}}))
        os.chdir(root)
        dataset = datasets.ILIAS(str(root))
        items = [*dataset.get_positives(), *(f"distractor{index}" for index in range(500))]
        levels = np.array([[item.partition("/")[0] == name for item in items] for name in objects]).astype(int)
        scores = random.normal(size=levels.shape) + 1.5 * levels
        ranks = np.argsort(-scores, axis=1)
        sims = np.take_along_axis(scores, ranks, axis=1)
        queries = [f"{name}/query/0" for name in objects]
        for k in (5, 20, 1000):
            theirs = dataset.evaluate(query_ids=queries, db_ids=items, sims=sims, ranks=ranks, k=k)["map"] / 100
            show(f"mAP@{k}", theirs, evaluate_scores(scores, levels, metrics=[f"mAP@{k}"]).summary().iloc[0])


def compare_deephash(folder: Path) -> None:
    """Their mAP@k of images that share one of 21 labels, by codes of real numbers, of which none are tied."""
    text = (folder / "utils" / "tools.py").read_text()
    names: dict[str, Any] = {"np": np, "tqdm": iter}
    exec(text[text.index("def CalcHammingDist") : text.index("# faster but more memory")], names)
    random = np.random.default_rng(0)
    query_labels, labels = random.random((40, 21)) < 0.1, random.random((600, 21)) < 0.1
    query_labels[:, 0] |= ~query_labels.any(axis=1)
    queries, gallery = random.normal(size=(40, 16)), random.normal(size=(600, 16))
    levels = (query_labels.astype(int) @ labels.T.astype(int) > 0).astype(int)
    for k in (5, 50, 600):
        theirs = names["CalcTopMap"](gallery, queries, labels.astype(int), query_labels.astype(int), k)
        show(f"AP@{k}", theirs, evaluate_scores(queries @ gallery.T, levels, metrics=[f"AP@{k}"]).summary().iloc[0])


if __name__ == "__main__":
    main()
