"""What the cases of the growth table read, written into the working folder in a size."""

from __future__ import annotations

import json
import pickle
import tarfile
from io import BytesIO
from pathlib import Path

import numpy as np
import pandas as pd


def leaves(count: int) -> pd.DataFrame:
    """A table of items with three levels, five items a leaf."""
    leaf = np.arange(count) // 5
    return pd.DataFrame(
        {"image": [f"{row}.jpg" for row in range(count)], "kind": leaf // 400, "group": leaf // 20, "leaf": leaf}
    )


def clustered(count: int) -> tuple[np.ndarray, np.ndarray]:
    """Vectors around those of their leaves, and paths."""
    random, paths = np.random.default_rng(0), leaves(count).iloc[:, 1:].to_numpy()
    centers = random.standard_normal((count, 32), np.float32)
    return centers[paths[:, 2]] + random.standard_normal((count, 32), np.float32), paths


def write_gallery(count: int) -> None:
    """A thousand queries in a gallery."""
    vectors, paths = clustered(count)
    queries = {"embeddings": vectors[:1000], "paths": paths[:1000]}
    np.savez("e.npz", **queries, gallery_embeddings=vectors, gallery_paths=paths)


def write_gallery_as(suffix: str, count: int) -> None:
    """A hundred queries and a gallery in a format that holds no labels, and tables of these."""
    import torch
    from safetensors.numpy import save_file

    vectors, _ = clustered(count)
    for name, rows in (("q", 100), ("g", count)):
        leaves(rows).to_csv(f"{name}.csv", index=False)
        save = {".npy": np.save, ".pt": lambda file, array: torch.save(torch.from_numpy(array), file)}.get(
            suffix, lambda file, array: save_file({"embeddings": array}, file)
        )
        save(f"{name}{suffix}", vectors[:rows])


def write_queries(count: int) -> None:
    """Items that retrieve each other."""
    vectors, paths = clustered(count)
    np.savez("e.npz", embeddings=vectors, paths=paths)


def write_table(count: int, *, name: str = "t.csv") -> None:
    """A table of items, in the format of the name."""
    table = leaves(count)
    if name.endswith(".parquet"):
        table.to_parquet(name, index=False)
    elif name.endswith(".xlsx"):
        table.to_excel(name, index=False)
    elif name.endswith(".zst"):
        import pyarrow as pa

        with pa.CompressedOutputStream(name, "zstd") as stream:
            stream.write(table.to_csv(index=False).encode())
    else:
        table.to_csv(name, index=False, sep="\t" if name.endswith(".tsv") else ",")


def write_run(count: int, *, suffix: str = ".txt") -> None:
    """Lists of a hundred items for as many queries as give so many lines, but 200, and the table of all."""
    queries, random = max(200, count // 100), np.random.default_rng(0)
    write_table(queries)
    rows = np.stack([random.choice(queries, 100, replace=False) for _ in range(queries)])
    names, path = [f"{row}.jpg" for row in range(queries)], Path(f"run{suffix}")
    if suffix == ".npy":
        np.save(path, rows)
    elif suffix == ".json":
        lists = {
            name: {names[item]: -rank for rank, item in enumerate(row)} for name, row in zip(names, rows, strict=True)
        }
        path.write_text(json.dumps(lists), encoding="utf-8")
    elif suffix == ".txt":
        with path.open("w", encoding="utf-8") as file:
            for name, row in zip(names, rows, strict=True):
                file.writelines(f"{name} Q0 {names[item]} {rank} {-rank} t\n" for rank, item in enumerate(row))
    else:
        pairs = {"query_id": np.repeat(names, 100), "doc_id": np.array(names)[rows.ravel()]}
        lines = pd.DataFrame({**pairs, "score": np.tile(-np.arange(100), queries)})
        {".csv": lines.to_csv, ".parquet": lines.to_parquet}[suffix](path, index=False)


def write_table_of_files(count: int) -> None:
    """A table of images that are there, empty."""
    write_table(count)
    for row in range(count):
        Path(f"{row}.jpg").touch()


def write_table_of_embeddings(count: int) -> None:
    """A thousand queries and a gallery with columns of labels in Parquet, and one of the images."""
    import pyarrow as pa
    from pyarrow import parquet

    Path("0.jpg").write_bytes(png())
    vectors, _ = clustered(count)
    table = pa.Table.from_pandas(
        leaves(count).astype(str).assign(split=np.where(np.arange(count) < 1000, "query", "gallery"))
    )
    parquet.write_table(
        table.append_column("embedding", pa.FixedSizeListArray.from_arrays(vectors.ravel(), 32)), "e.parquet"
    )


def write_judged_pairs(count: int) -> None:
    """A hundred queries, a gallery, and grades of all pairs."""
    random = np.random.default_rng(0)
    for name, rows in (("q.npy", 100), ("g.npy", count)):
        np.save(name, random.standard_normal((rows, 32), np.float32))
    grades = np.stack([random.random(count) < 0.01 for _ in range(100)]).astype(np.uint8)
    np.save("grades.npy", grades)
    lists = [{"easy": np.flatnonzero(row), "hard": [], "junk": [], "bbx": [0.0, 0.0, 1.0, 1.0]} for row in grades]
    truth = {"gnd": lists, "imlist": [f"g{row}" for row in range(count)], "qimlist": [f"q{row}" for row in range(100)]}
    Path("grades.pkl").write_bytes(pickle.dumps(truth, protocol=2))


def write_edges(count: int) -> None:
    """As many leaves of a tree of four levels as edges, a pair a line, as paths and in GraphML."""
    leaf = [(f"leaf {row}", f"group {row // 20}") for row in range(count)]
    group = [(f"group {row}", f"kind {row // 20}") for row in range(-(-count // 20))]
    pairs = leaf + group + [(f"kind {row}", "root") for row in range(-(-count // 400))]
    pd.DataFrame(pairs, columns=["child", "parent"]).to_csv("e.csv", index=False)
    Path("e.txt").write_text("".join(f"{parent}\t{child}\n" for child, parent in pairs), encoding="utf-8")
    paths = [f"kind {row}" for row in range(-(-count // 400))]
    paths += [f"kind {row // 20} > group {row}" for row in range(-(-count // 20))]
    paths += [f"kind {row // 400} > group {row // 20} > leaf {row}" for row in range(count)]
    Path("paths.txt").write_text("\n".join(paths) + "\n", encoding="utf-8")
    nodes = "".join(f'<node id="{child}"/>' for child, _ in pairs)
    edges = "".join(f'<edge source="{parent}" target="{child}"/>' for child, parent in pairs)
    text = f'<graph edgedefault="directed"><node id="root"/>{nodes}{edges}</graph>'
    Path("g.graphml").write_text(f'<graphml xmlns="http://graphml.graphdrawing.org/xmlns">{text}</graphml>')


def png() -> bytes:
    """A small image."""
    from PIL import Image

    stream = BytesIO()
    Image.new("RGB", (32, 32)).save(stream, "PNG")
    return stream.getvalue()


def write_images(count: int) -> None:
    """Small images in folders of classes, five in each, and in an archive."""
    image = png()
    with tarfile.open("images.tar", "w") as archive:
        for row in range(count):
            file = Path("photos", f"class {row // 5}", f"{row}.png")
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(image)
            for name, data in ((f"{row}.png", image), (f"{row}.cls", str(row // 5).encode())):
                member = tarfile.TarInfo(name)
                member.size = len(data)
                archive.addfile(member, BytesIO(data))


def write_network(count: int) -> None:
    """Images, and the random weights of a small network."""
    import timm
    import torch

    write_images(count)
    torch.save(timm.create_model("test_resnet").state_dict(), "w.pth")


def write_recipe(count: int, *, tested: bool = False) -> None:
    """A recipe of five steps, and a table of small images, of which a hundred or all but these are tested."""
    image, row = png(), np.arange(count)
    for name in row:
        Path(f"{name}.jpg").write_bytes(image)
    is_tested = row >= (100 if tested else count - 100)
    leaf = np.where(is_tested, 20 + row // 5, row % 20)
    kinds = {"image": [f"{name}.jpg" for name in row], "kind": leaf // 10, "leaf": leaf}
    pd.DataFrame(kinds | {"split": np.where(is_tested, "test", "train")}).to_csv("t.csv", index=False)
    batches = {"name": "ClassBalancedSampler", "batch_size": 16, "images_per_class": 4, "reduce_per_class": 4}
    settings = {
        "data": {"name": "table", "path": "t.csv", "root": ".", "levels": ["kind", "leaf"], "split": "split"},
        "images": {"size": 32, "workers": 0, "cache": False},
        "sampler": batches,
        "model": {"backbone": "small_cnn", "width": 4, "pretrained": False, "embedding_size": 32},
        "loss": {"name": "SmoothAP"},
        "optimizer": {"name": "adam", "lr": 1e-3},
        "training": {"epochs": 1, "device": "cpu", "logger": "none"},
    }
    Path("recipe.yaml").write_text(json.dumps(settings), encoding="utf-8")
