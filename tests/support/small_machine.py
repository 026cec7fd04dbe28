"""A loader with one worker on a machine that lacks what its argument says; a script, which workers can import."""

from __future__ import annotations

import os
import resource
import sys

import torch
from torch import Tensor
from torch.utils.data import Dataset

from hiertree.errors import DeviceError
from hiertree.pipelines.training.data.batches import BatchKey, batch_loader


class NumberedBatches(Dataset[Tensor]):
    """Batches of half a megabyte; from the first one on a worker may open one more file, if files are scarce."""

    def __init__(self, *, scarce_files: bool) -> None:
        self._scarce_files = scarce_files

    def __getitem__(self, key: BatchKey) -> Tensor:
        if self._scarce_files and key.batch == 0:
            next_file = os.dup(0)
            os.close(next_file)
            resource.setrlimit(resource.RLIMIT_NOFILE, (next_file + 1, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
        return torch.full((1 << 19,), key.batch, dtype=torch.uint8)


def main(lack: str) -> None:
    """Print the numbers of the batches that arrive whole, or the error."""
    keys = [BatchKey(0, batch, []) for batch in range(4)]
    loader = batch_loader(NumberedBatches(scarce_files=lack == "files"), keys, workers=1)
    try:
        print([int(batch[0]) for batch in loader if (batch == batch[0]).all()])
    except DeviceError as error:
        print(error)


if __name__ == "__main__":
    main(sys.argv[1])
