"""Every file is read inside the block that names it when its content fails."""

from __future__ import annotations

import ast

from project import ROOT

DOORS = {"reading_file", "reading_arrays"}
READERS = {  # called by name or as a method
    *("loadmat", "load_file", "safe_open", "read_index", "read_schema", "read_metadata", "read_csv", "read_bytes"),
    *("ParquetFile", "ZipFile", "memmap", "fromfile", "open_memmap", "iterparse", "Unpickler", "open"),
}
METHODS = {"read_text", "read_parquet", "read_table", "load"}  # those called by name alone are blocks themselves
LOADERS = {"np", "numpy", "torch", "pickle", "json"}
OWN_FILES = ("__file__", "files(", "resources(", "_FOLDER /", "LANDMARKS")  # the package's, which no one gives
BESIDE = {
    "hiertree/datasets/readers/images.py::_opened": "inside decode, whose error names the image",
    "hiertree/datasets/resumable_download.py::_append": "writes",
    "hiertree/datasets/resumable_download.py::_extract": "inside the block of unpack",
    "hiertree/io/array_files.py": "inside the block of reading_arrays",
    "hiertree/io/files.py": "writes",
    "hiertree/io/provenance.py::file_digest": "bytes of any content",
    "hiertree/io/reading.py": "the block itself",
    "hiertree/io/tables.py::_open_zipped": "inside the blocks of what reads packed files",
    "hiertree/io/tables.py::_open_zstandard": "inside the blocks of what reads packed files",
    "hiertree/io/tables.py::open_unpacked": "inside the blocks of what reads packed files",
    "pipelines/browse/server.py::_neighbors_of": "inside a block whose error names the photograph",
    "pipelines/cli/training.py::compare": "prints what it has just written",
    "pipelines/inference/exporting.py::write_network": "what it has just written",
    "pipelines/demo.py::run_demo": "compares bytes with those that it writes",
    "pipelines/labels/scrape/store.py::is_store": "looks at the first bytes",
    "pipelines/local_pages/local_server.py::page_files": "the package's own files",
    "pipelines/local_pages/local_server.py::serve_until_interrupted": "opens a browser",
    "pipelines/training/recipe/published.py": "the package's own files",
    "pipelines/training/recipe/reading.py::_content": "the package's own files",
    "pipelines/stored_embeddings/shards.py::__init__": "inside the block of Shards._opened",
}


def _name(call):
    return ast.unparse(call.func)


def _reads(call):
    """Whether a call opens a file for reading."""
    owner, _, name = _name(call).rpartition(".")
    if name not in READERS and not (name in METHODS and owner and (name != "load" or owner in LOADERS)):
        return False
    nodes = (*call.args, *(keyword.value for keyword in call.keywords))
    values = [node.value for node in nodes if isinstance(node, ast.Constant)]
    writes = any(
        isinstance(value, str) and set("wax+") & set(value) and set(value) <= set("rwaxbt+") for value in values
    )
    return not writes and not any(site in _name(call) for site in OWN_FILES)


def _sites(node, functions=(), door=False):
    """The function, line and name of each call that reads outside a block."""
    if isinstance(node, ast.FunctionDef):
        functions = (*functions, node.name)
    if isinstance(node, ast.With):
        calls = [item.context_expr for item in node.items]
        door = door or any(isinstance(call, ast.Call) and _name(call).rpartition(".")[2] in DOORS for call in calls)
    if isinstance(node, ast.Call) and not door and _reads(node):
        yield functions[-1] if functions else "", node.lineno, _name(node)
    for child in ast.iter_child_nodes(node):
        yield from _sites(child, functions, door)


def _places():
    sites = {}
    for package in ("hiertree", "metrics", "losses", "pipelines"):
        for file in sorted((ROOT / package).rglob("*.py")):
            name = file.relative_to(ROOT).as_posix()
            for function, line, call in _sites(ast.parse(file.read_text(encoding="utf-8"))):
                sites.setdefault(f"{name}::{function}", []).append(f"line {line}: {call}")
    return sites


def test_no_file_is_read_beside_the_block():
    sites = _places()
    allowed = {site for site in sites if {site, site.partition("::")[0]} & BESIDE.keys()}
    assert {site: calls for site, calls in sites.items() if site not in allowed} == {}
    unused = {name for name in BESIDE if not any(site.startswith(name) for site in sites)}
    assert unused == set()


def test_a_file_read_beside_the_block_is_noticed():
    source = """
def read(path):
    with reading_file(path, expected="numbers"):
        return np.load(path)

def beside(path):
    text = path.read_text()
    with path.open() as file, zipfile.ZipFile(file) as archive:
        return pq.read_table(archive)

def write(path):
    with path.open("wb") as file:
        file.write(read_text(path))
"""
    assert [(function, call) for function, _, call in _sites(ast.parse(source))] == [
        ("beside", "path.read_text"),
        ("beside", "path.open"),
        ("beside", "zipfile.ZipFile"),
        ("beside", "pq.read_table"),
    ]
