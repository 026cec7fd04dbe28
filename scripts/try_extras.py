"""Install hiertree as a stranger does, extra by extra in clean venvs, and use what each promises.

``python scripts/try_extras.py base labels search train`` builds the wheel and, for each name, makes a venv, installs
the wheel with that extra, and runs from an empty folder with an empty home: what the extra is for, and what needs
another extra, which must end with one line that names it. ``--shared`` adds the extras to one venv instead.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import venv
from collections.abc import Iterator
from pathlib import Path
from typing import Any

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).resolve().parent.parent
MOST_MEGABYTES = {"base": 500}

_EVALUATE = "import numpy as np; from hiertree.metrics import evaluate; x = np.eye(9)[:, :4] + 1"
_FEW = "--set data.families=4 --set data.kinds=3 --set data.instances=4 --set data.images=6 --set sampler.batch_size=64"
_BUILD = "labels build landmarks.csv --out labels"


def _command(line: str) -> str:
    return f"from hiertree.pipelines.cli import main; main({line.split()!r})"


_DOWNLOAD = """
import hashlib, pathlib, threading
from dataclasses import replace
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
import hiertree as ht
from hiertree.datasets.description import Download
server = ThreadingHTTPServer(("127.0.0.1", 0), SimpleHTTPRequestHandler)
threading.Thread(target=server.serve_forever, daemon=True).start()
md5 = hashlib.md5(pathlib.Path("landmarks.csv").read_bytes()).hexdigest()
file = Download(url=f"http://127.0.0.1:{server.server_port}/landmarks.csv", md5=md5, unpack=False)
ht.datasets.download(replace(ht.datasets.describe("omniglot"), downloads=(file,)), pathlib.Path("fetched"))
assert pathlib.Path("fetched/landmarks.csv").is_file()
"""
_HUGGING_FACE = """
import datasets, hiertree as ht, numpy as np
from PIL import Image
rows = {"image": [Image.fromarray(np.zeros((4, 4, 3), np.uint8))] * 2, "kind": ["a", "b"], "name": ["c", "d"]}
features = datasets.Features(image=datasets.Image(), kind=datasets.Value("string"), name=datasets.Value("string"))
found = ht.datasets.from_huggingface(datasets.Dataset.from_dict(rows, features=features), levels=["kind", "name"])
assert found.images[1].size == (4, 4)
"""
_SENTENCES = """
from sentence_transformers import SentenceTransformer, models
SentenceTransformer(modules=[models.BoW(["lake", "church", "building", "park"])]).save("bag-of-words")
"""
# Extras whose programs need those of another: labels to encode, a run to export.
NEEDS = {
    "clip": "labels",
    "export": "train",
    "sentences": "labels",
}
# What works with each extra.
USED = {
    "base": (
        "import hiertree as ht; assert ht.LabelTree.from_paths([('a', 'b', 1), ('a', 'c', 2)]).num_levels == 3",
        "from hiertree import *; assert LabelTree.from_paths([('a', 1)]).leaves == (1,)",
        "from hiertree.metrics import *; assert evaluate([[1, 0], [1, 1]], [0, 0])['R@1'] == 1",
        "import numpy as np; np.savez('e.npz', embeddings=np.eye(9)[:, :4] + 1, paths=np.arange(9)[:, None] // 3)",
        _command("evaluate e.npz --json --per-query q.csv"),
        _command("--help"),
        *(_command(f"labels {name} --help") for name in ("scrape", "build", "review")),
        _command("recipes"),
        _command("recipes show sop-happier"),
        _command("datasets list"),
    ),
    "arrow": (
        "import pandas as pd; pd.DataFrame({'a': ['1']}).to_parquet('t.parquet')",
        "from hiertree.io.tables import read_table; assert read_table('t.parquet').a[1] == '1'",
        _command("evaluate e.npz --per-query q.parquet"),
    ),
    "clip": ("from hiertree.pipelines.networks.clip import load_clip; load_clip('ViT-B-32', None, 'cpu')",),
    "download": (_DOWNLOAD,),
    "export": (_command("export run --out exported"),),
    "plots": (
        f"{_EVALUATE}; evaluate(x, [0, 1, 2] * 3).plot().savefig('levels.png')",
        _command("report e.npz --out report.html"),
    ),
    "search": ("import faiss",),
    "labels": (_command(_BUILD), _command("labels tree labels --out tree.html")),
    "interop": (
        "from hiertree.metrics import RetrievalMetric; RetrievalMetric('H-AP')",
        "from hiertree.losses import SupHAP, as_pytorch_metric_learning; as_pytorch_metric_learning(SupHAP())",
        _HUGGING_FACE,
    ),
    "sentences": (_SENTENCES, _command(f"{_BUILD} --encoder sentence-transformers --sentence-model ./bag-of-words")),
    "train": (
        _command(f"train synthetic-happier --out run --set training.epochs=1 {_FEW}"),
        "import hiertree as ht; ht.load_model('run')",
        "import torch; from hiertree.losses import SupHAP; SupHAP()(torch.eye(4), torch.tensor([0, 0, 1, 1]))",
    ),
}
# What ends with one line without each extra.
REFUSED = {
    "all": (_command("demo"),),
    "arrow": (
        "open('t.parquet', 'w'); from hiertree.io.tables import read_table; read_table('t.parquet')",
        "open('t.xlsx', 'w'); from hiertree.io.tables import read_table; read_table('t.xlsx')",
        _command("evaluate absent.npz --per-query q.parquet"),
    ),
    "download": (_DOWNLOAD,),
    "interop": ("from hiertree.metrics import RetrievalMetric",),
    "plots": (f"{_EVALUATE}; evaluate(x, [0, 1, 2] * 3).plot()", _command("report e.npz --out report.html")),
    "clip": (_command(f"{_BUILD} --encoder clip"),),
    "export": ("__import__('os').makedirs('run', exist_ok=True); " + _command("export run --out exported"),),
    "labels": (_command(_BUILD), _command("browse ."), "from hiertree.pipelines.labels import build"),
    "sentences": (_command(f"{_BUILD} --encoder sentence-transformers"),),
    "train": (
        _command("train synthetic-happier --out run"),
        _command("embed sop-happier photos --out embedded"),
        _command("compare synthetic-happier synthetic-smooth-ap --out compared"),
        "import hiertree as ht; ht.load_model('run')",
        "import hiertree.losses",
        f"{_EVALUATE}; evaluate(x, [0, 1, 2] * 3, device='cpu')",
    ),
}


def main(names: list[str], *, shared: bool) -> None:
    """Try the extras."""
    with tempfile.TemporaryDirectory() as folder:
        build = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", folder, str(ROOT)]
        subprocess.run(build, check=True)
        (wheel,) = Path(folder).glob("*.whl")
        installed: set[str] = set()
        for name in names:
            extras = {name, NEEDS.get(name, name)}
            installed = installed | extras if shared else extras
            _try(name, Path(folder) / ("shared" if shared else name), wheel, installed)


def requirements(name: str) -> list[str]:
    """What pip is asked for by an extra, ``base`` for none, beyond hiertree itself."""
    table = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extra: list[str] = [] if name == "base" else table["optional-dependencies"][name]
    return sorted([*table["dependencies"], *extra])


def _try(name: str, place: Path, wheel: Path, installed: set[str]) -> None:
    """Install an extra, use it, ask for the others, and print the megabytes of the venv."""
    venv.create(place, with_pip=False)
    python = place / ("Scripts" if os.name == "nt" else "bin") / "python"
    target = str(wheel) if name == "base" else f"hiertree[{','.join(sorted(installed - {'base'}))}] @ {wheel.as_uri()}"
    subprocess.run([sys.executable, "-m", "pip", "--python", str(python), "install", "--quiet", target], check=True)
    megabytes = sum(file.stat().st_size for file in place.rglob("*") if file.is_file()) // 10**6
    print(f"{name}: {megabytes} MB", flush=True)
    if megabytes > MOST_MEGABYTES.get(name, megabytes):
        raise SystemExit(f"{name} takes {megabytes} MB: expected at most {MOST_MEGABYTES[name]}")
    with tempfile.TemporaryDirectory() as empty:
        folder = Path(empty) / "work"
        folder.mkdir()
        (folder / "landmarks.csv").write_bytes((ROOT / "pipelines" / "landmarks.csv").read_bytes())
        for program in [*USED["base"], *USED.get(NEEDS.get(name, ""), ()), *USED[name]]:
            answer = _run(python, program, folder)
            if answer.returncode:
                raise SystemExit(f"{name}: {program}\n{answer.stderr}")
        for other, program in _refused(installed):
            answer = _run(python, program, folder)
            if f'pip install "hiertree[{other}]"' not in answer.stderr.splitlines()[-1] or not answer.returncode:
                raise SystemExit(f"{name}: {program} names no extra {other}\n{answer.stderr}")


def _refused(installed: set[str]) -> Iterator[tuple[str, str]]:
    """Programs for which an extra is missing whose packages no installed extra brings."""
    present = {line for name in installed for line in requirements(name)}
    for other, programs in REFUSED.items():
        if other in NEEDS and not set(requirements(NEEDS[other])) <= present:
            continue  # what that one misses is named first
        if other == "all" or not set(requirements(other)) <= present:
            yield from ((other, program) for program in programs)


def _run(python: Path, program: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """Run a program in a folder, with nothing of this machine's home or environment."""
    kept = {key: value for key, value in os.environ.items() if key in ("PATH", "SYSTEMROOT", "TMPDIR", "TEMP")}
    environment: dict[str, Any] = {**kept, "HOME": str(folder.parent), "USERPROFILE": str(folder.parent)}
    return subprocess.run(
        [python, "-c", program], cwd=folder, env=environment, capture_output=True, text=True, check=False
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="+", choices=list(USED))
    parser.add_argument("--shared", action="store_true", help="Add the extras to one venv, in this order.")
    options = parser.parse_args()
    main(options.names, shared=options.shared)
