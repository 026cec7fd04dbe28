"""Every loss, made for a few classes."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from hiertree import losses

CLASSES, SIZE = 8, 4
LOSSES: dict[str, Callable[[], losses.Loss]] = {
    "HAPPIER": lambda: losses.HAPPIER(CLASSES, SIZE),
    "HAPPIER by relevance": lambda: losses.HAPPIER(CLASSES, SIZE, split_by="relevance"),
    "ROADMAP": losses.ROADMAP,
    "ROADMAP of proxies": lambda: losses.ROADMAP(CLASSES, SIZE, decomposability="proxy"),
    "RODNDCG": lambda: losses.RODNDCG(CLASSES, SIZE),
    "RODRecall": lambda: losses.RODRecall(CLASSES, SIZE),
    "SupHAP": losses.SupHAP,
    "SupNDCG": losses.SupNDCG,
    "SupAP": losses.SupAP,
    "SupRecall": losses.SupRecall,
    "SmoothHAP": losses.SmoothHAP,
    "SmoothNDCG": losses.SmoothNDCG,
    "SmoothAP": losses.SmoothAP,
    "SmoothRecall": lambda: losses.SmoothRecall(similarity_mixup=True),
    "PairDecomposability": lambda: losses.PairDecomposability(reduction="avg_nonzero"),
    "ProxyDecomposability": lambda: losses.ProxyDecomposability(CLASSES, SIZE, centers=2, sampled_classes=3),
    "soft centers": lambda: losses.ProxyDecomposability(CLASSES, SIZE, centers=2, center_temperature=0.1),
    "TieAwareAP": losses.TieAwareAP,
    "TieAwareNDCG": losses.TieAwareNDCG,
    "HashNet": losses.HashNet,
    "DPSH": losses.DPSH,
    "DTSH": losses.DTSH,
    "MIHash": losses.MIHash,
    "HierarchicalTriplet": lambda: losses.HierarchicalTriplet((0.1, 0.2)),
    "Hyperbolic": lambda: losses.Hyperbolic(losses.SupCon()),
    "HIER": lambda: losses.HIER(losses.SupAP(), SIZE, num_proxies=CLASSES),
    "FastAP": losses.FastAP,
    "SoftBinAP": losses.SoftBinAP,
    "BlackboxAP": losses.BlackboxAP,
    "HiMulCon": lambda: losses.HiMulCon(2),
    "CSL": lambda: losses.CSL(np.stack([np.arange(CLASSES) // 2, np.arange(CLASSES)], axis=1), SIZE),
    "DistributedLoss": lambda: losses.DistributedLoss(losses.HAPPIER(CLASSES, SIZE)),
    "LevelSum": lambda: losses.LevelSum(lambda size: losses.ProxyDecomposability(size, SIZE), (4, CLASSES)),
    "LevelSum of sums": lambda: losses.LevelSum(lambda size: losses.HAPPIER(size, SIZE), (4, CLASSES)),
    "memory": lambda: losses.CrossBatchMemory(losses.HAPPIER(CLASSES, SIZE), SIZE, 2, batch_loss=True),
    "memory first": lambda: losses.CrossBatchMemory(losses.SupAP(), SIZE, 2, enqueue="before"),
    "the library's softmax": lambda: losses.LevelSum(
        lambda size: losses.PytorchMetricLearning("NormalizedSoftmaxLoss", (size,), SIZE), (4, CLASSES)
    ),
}
