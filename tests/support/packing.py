"""Files packed as their names say, by the libraries of each format."""

from __future__ import annotations

import bz2
import gzip
import lzma
import zipfile
from pathlib import Path

import pyarrow as pa


def pack(file: Path, content: bytes) -> None:
    """Write a file whose suffix is that of a packing."""
    if file.suffix == ".zip":
        with zipfile.ZipFile(file, "w") as archive:
            archive.writestr(file.stem, content)
    elif file.suffix == ".zst":
        with pa.CompressedOutputStream(str(file), "zstd") as stream:
            stream.write(content)
    else:
        compress = {".gz": gzip.compress, ".bz2": bz2.compress, ".xz": lzma.compress}[file.suffix]
        file.write_bytes(compress(content))
