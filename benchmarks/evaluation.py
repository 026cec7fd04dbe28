r"""Time and memory of ``evaluate`` against the matrix product it cannot do without.

Run ``python benchmarks/evaluation.py``; about two minutes on two quiet cores. Embeddings are float32 in self-retrieval;
all default metrics, ties averaged. The product is that of all query blocks with the gallery, nothing else, interleaved
with the evaluation in one process. Times are medians by the clock, in milliseconds a query and for evaluation also in
nanoseconds for each of its scores, which stays the same where cost is linear; the ratios are evaluation / product, of
the clock and of the processor's time. Rounds that other processes disturb are repeated; where the machine is not idle,
the row says so instead of a ratio. Memory is the peak beyond the embeddings,
the normalized copy of the gallery included, pages of a memory map not. L = 1 has classes of five, L = 2 also 12
super-categories of them; L = 7 is a skewed tree like iNaturalist's, where about half the gallery is relevant to a
query.

``--queries`` takes the first so many queries of the gallery instead of all, for large galleries in short time; the
gallery is still normalized once. ``--product-queries`` takes fewer for the product alone. ``--mapped`` puts the gallery
into a memory map, for the product too.

    python benchmarks/evaluation.py --items 8000 32000 128000 512000 --queries 1024 --block-sizes 0 --repeats 1
    python benchmarks/evaluation.py --items 1000000 --levels 2 --queries 20000 --product-queries 512 --block-sizes 0 \
        --repeats 1 --mapped
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from idle_machine import in_turn, medians, ratio, timed

if TYPE_CHECKING:
    from numpy.typing import NDArray

PRODUCT_ROWS = 256
TILE = 2**26  # bytes of a memory map that are multiplied at once
ROWS_AT_ONCE = 2**14
KINGDOMS = (0.599, 0.358, 0.039, 0.002, 0.001, 0.001)  # of iNaturalist 2018's species
CHILDREN = ((4, 2), (3, 2), (5, 1), (5, 0), (4, 0), (2, 0))  # how many a node has; their shares fall as 1 / rank^power


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--items", type=int, nargs="+", default=[5000, 20000])
    parser.add_argument("--levels", type=int, nargs="+", default=[2, 7], choices=[1, 2, 7])
    parser.add_argument("--block-sizes", type=int, nargs="+", default=[0, 2048], help="0 is the default one")
    parser.add_argument("--dimensions", type=int, default=512)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--queries", type=int, default=0, help="0 is all")
    parser.add_argument("--product-queries", type=int, default=0, help="0 is as many")
    parser.add_argument("--mapped", action="store_true", help="the gallery in a memory map")
    parser.add_argument("--folder", type=Path, help="for the memory map; a temporary one unless given")
    parser.add_argument("--device", help="of torch, such as cuda; its product is multiplied there too")
    parser.add_argument("--one", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.one:
        print(json.dumps(measure(arguments)))
        return
    print("   items  L  block  queries  product ms  evaluate ms  ns a score  ratio  processor's  peak MiB  items MiB")
    for num_items in arguments.items:
        for num_levels in arguments.levels:
            for block_size in arguments.block_sizes:
                print(row(arguments, num_items, num_levels, block_size), flush=True)


def row(arguments: argparse.Namespace, num_items: int, num_levels: int, block_size: int) -> str:
    """One line of the table, measured in a fresh interpreter."""
    chosen = {"items": num_items, "levels": num_levels, "block-sizes": block_size}
    kept = ("dimensions", "repeats", "queries", "product_queries", "folder", "device")
    chosen |= {name.replace("_", "-"): getattr(arguments, name) for name in kept}
    options = [word for name, value in chosen.items() if value is not None for word in (f"--{name}", str(value))]
    command = [sys.executable, __file__, "--one", *options, *(["--mapped"] if arguments.mapped else [])]
    found: dict[str, Any] = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout)
    size = num_items * arguments.dimensions * 4 / 2**20
    product, evaluation = 1e3 * found["product"], 1e3 * found["evaluate"]
    return (
        f"{num_items:>8}  {num_levels}  {block_size or 'auto':>5}  {arguments.queries or num_items:>7}"
        f"  {product:>10.3f}  {evaluation:>11.3f}  {1e6 * evaluation / num_items:>10.2f}  {found['ratio']:>5}"
        f"  {found['of the processor']:>11.2f}  {found['mebibytes']:>8.0f}  {size:>9.0f}"
    )


def measure(arguments: argparse.Namespace) -> dict[str, Any]:
    """Median seconds a query of product and evaluation, by clock and processor, and the peak beyond the inputs."""
    from hiertree.metrics import evaluate

    (num_items,), (num_levels,), (block_size,) = arguments.items, arguments.levels, arguments.block_sizes
    random = np.random.default_rng(0)
    paths = inaturalist_like(num_items, random) if num_levels == 7 else shop_like(num_items)[:, 2 - num_levels :]
    with tempfile.TemporaryDirectory(dir=arguments.folder) as folder:
        file = Path(folder, "gallery.npy") if arguments.mapped else None
        embeddings = clustered(paths, arguments.dimensions, random, file)
        number = min(arguments.queries or num_items, num_items)
        queries = embeddings[:number].copy() if arguments.queries else embeddings
        gallery = (embeddings, paths) if arguments.queries else ()
        multiplied = queries[: arguments.product_queries or number]
        evaluate(embeddings[:200], paths[:200], device=arguments.device)  # compile
        options = {"block_size": block_size or None, "device": arguments.device}

        def evaluation() -> object:
            return evaluate(queries, paths[:number], *gallery, **options)

        with peak_memory() as peak:
            evaluation()
        works = {
            "evaluate": lambda: timed(evaluation, number),
            "product": lambda: timed(lambda: product(multiplied, embeddings, arguments.device), len(multiplied)),
        }
        found = in_turn(works, arguments.repeats, divisor="product")
    middle = {name: medians(timings) for name, timings in found.items()}
    return {
        "evaluate": middle["evaluate"].clock,
        "product": middle["product"].clock,
        "ratio": ratio(found["evaluate"], found["product"]),
        "of the processor": middle["evaluate"].processor / middle["product"].processor,
        "mebibytes": peak[0],
    }


@contextmanager
def peak_memory() -> Iterator[list[float]]:
    """The most MiB of its own that the process holds meanwhile, beyond what it held before (Linux)."""
    begin, done = own_memory(), threading.Event()
    peak = [0.0]

    def watch() -> None:
        while not done.wait(0.005):
            peak[0] = max(peak[0], own_memory() - begin)

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        yield peak
    finally:
        done.set()
        watcher.join()


def own_memory() -> float:
    """MiB of memory that is no file's."""
    lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
    return int(next(line for line in lines if line.startswith("RssAnon")).split()[1]) / 2**10


def product(queries: NDArray[np.float32], gallery: NDArray[np.float32], device: str | None) -> None:
    """Every block of queries × the gallery, a memory map tile by tile."""
    if device is not None:
        product_on_device(queries, gallery, device)
        return
    width = max(TILE // gallery[:1].nbytes, 1) if isinstance(gallery, np.memmap) else len(gallery)
    scores = np.empty((PRODUCT_ROWS, min(width, len(gallery))), np.float32)
    for first in range(0, len(gallery), width):
        items = np.array(gallery[first : first + width], copy=None)
        for start in range(0, len(queries), PRODUCT_ROWS):
            block = queries[start : start + PRODUCT_ROWS]
            np.matmul(block, items.T, out=scores[: len(block), : len(items)])


def product_on_device(queries: NDArray[np.float32], gallery: NDArray[np.float32], device: str) -> None:
    """The same there, in full precision, the gallery sent once."""
    import torch

    items = torch.from_numpy(np.asarray(gallery)).to(device)
    for start in range(0, len(queries), PRODUCT_ROWS):
        scores = torch.from_numpy(queries[start : start + PRODUCT_ROWS]).to(device) @ items.T
    if scores.is_cuda:
        torch.cuda.synchronize()


def shop_like(num_items: int) -> NDArray[np.int64]:
    """(n, 2): classes of five under 12 super-categories."""
    classes = np.arange(num_items) // 5
    return np.stack([classes % 12, classes], axis=1)


def inaturalist_like(num_items: int, random: np.random.Generator) -> NDArray[np.int64]:
    """(n, 7): items at each level as unevenly spread as iNaturalist 2018's species, 49 % of pairs in one kingdom."""
    columns = [random.choice(len(KINGDOMS), size=num_items, p=KINGDOMS)]
    for number, power in CHILDREN:
        shares = np.arange(1, number + 1) ** -float(power)
        columns.append(columns[-1] * number + random.choice(number, size=num_items, p=shares / shares.sum()))
    return np.stack(columns, axis=1)


def clustered(
    paths: NDArray[np.int64], dimensions: int, random: np.random.Generator, file: Path | None
) -> NDArray[np.float32]:
    """Noise around one random center a node, so that rankings are good but not perfect; in a file if one is named."""
    shape = len(paths), dimensions
    if file is None:
        embeddings = np.empty(shape, np.float32)
    else:
        embeddings = np.lib.format.open_memmap(file, mode="w+", dtype=np.float32, shape=shape)
    centers = [random.standard_normal((int(column.max()) + 1, dimensions), dtype=np.float32) for column in paths.T]
    for start in range(0, len(paths), ROWS_AT_ONCE):
        rows = slice(start, min(start + ROWS_AT_ONCE, len(paths)))
        noise = 2.0 * random.standard_normal((rows.stop - start, dimensions), dtype=np.float32)
        embeddings[rows] = noise + sum(own[column[rows]] for own, column in zip(centers, paths.T, strict=True))
    if file is None:
        return embeddings
    embeddings.flush()
    return np.load(file, mmap_mode="r")


if __name__ == "__main__":
    main()
