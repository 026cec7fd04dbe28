"""Print how many bytes a step of the proxy loss with 100,000 classes takes beyond its inputs; for Linux."""

from __future__ import annotations

from pathlib import Path

import torch

from hiertree.losses import ProxyDecomposability

NUM_CLASSES, SIZE, BATCH = 100_000, 64, 512


def peak() -> int:
    """Most memory ever held; unlike resource's figure, not that of the process which started this one."""
    status = Path("/proc/self/status").read_text(encoding="utf-8")
    return int(status.split("VmHWM:")[1].split()[0]) * 1024


def main() -> None:
    loss = ProxyDecomposability(NUM_CLASSES, SIZE)
    embeddings = torch.randn(BATCH, SIZE, requires_grad=True)
    ProxyDecomposability(9, SIZE)(embeddings[:4], torch.arange(4)).backward()  # loads what is loaded lazily
    baseline = peak()
    loss(embeddings, torch.arange(BATCH)).backward()
    print(peak() - baseline)


if __name__ == "__main__":
    main()
