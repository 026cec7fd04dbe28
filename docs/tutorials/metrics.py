# %% [markdown]
# # H-AP on your ranking
#
# You have embeddings, or ranked lists that some system made, and labels on several levels. This notebook measures how
# well the ranking respects the levels. It needs no files: the images are drawn.

# %%
import numpy as np

import hiertree as ht
from hiertree.metrics import evaluate, evaluate_ranking, evaluate_scores
from hiertree.metrics.statistics import compare_systems

images = ht.datasets.load("synthetic", split="test").drop_absent_classes()
paths = images.paths
print(dict(zip(images.tree.level_names, images.tree.level_sizes, strict=True)))
paths[:3]

# %% [markdown]
# Every image has a *path*: one integer a level, coarse → fine. Two images of one kind, but of different instances, agree
# in the first two numbers; their *level* is 2.
#
# Two simple descriptors stand for the models to compare: the image itself, shrunk to 8 × 8 pixels, and a histogram of
# its colors.

# %%
pixels = np.stack([np.asarray(images.images[i], dtype=np.float32) for i in range(len(images))])
small = pixels.reshape(-1, 8, 4, 8, 4, 3).mean(axis=(2, 4)).reshape(len(pixels), -1)
small -= small.mean(axis=0)
bins = (pixels // 64).astype(int) @ [16, 4, 1]
colors = np.stack([np.bincount(b.ravel(), minlength=64) for b in bins]).astype(np.float32)

# %% [markdown]
# ## Measure
#
# Each image is the query once and retrieves all others by cosine similarity. One call computes every metric at every
# level, from one ranking.

# %%
result = evaluate(small, paths)
print(result)

# %% [markdown]
# Under the means stand the *conventions*: a number without them cannot be compared with one from elsewhere.
#
# `AP[1]` counts every image of the same family as a positive, `AP[3]` images of the same instance alone. H-AP is one
# number for all levels: an image of the same kind counts more than one of the same family.

# %%
systems = {"pixels": result, "colors": evaluate(colors, paths)}
for name, found in systems.items():
    print(name, found.summary()[["H-AP", "AP[1]", "AP[2]", "AP[3]", "R@1"]].round(3).to_dict())

# %% [markdown]
# ## Is the difference real?
#
# Both systems answer the same queries, so their values are paired; and queries of one instance resemble each other, so
# the test takes whole instances.

# %%
compare_systems(systems, metrics=["H-AP", "R@1"], clusters=paths[:, -1])

# %% [markdown]
# ## Ranked lists
#
# A search library returns indices, best first. A list may be shorter than the gallery: a positive that it does not hold
# counts as never found.

# %%
unit = colors / np.linalg.norm(colors, axis=1, keepdims=True)
scores = unit @ unit.T
lists = np.argsort(-scores, axis=1)[:, :100]
evaluate_ranking(lists, query_paths=paths, metrics=["H-AP", "R@1", "mAP@R"]).summary()

# %% [markdown]
# Lists by name work the same way, with a judgment, the level, for each pair of names. Such runs and judgments may also be
# TREC files.

# %%
run = {"photo-1": ["a", "b", "c"]}
judged = {"photo-1": {"a": 3, "b": 0, "c": 1, "d": 2}}
evaluate_ranking(run, judged, metrics=["H-AP", "NDCG", "AP[1]"]).summary()

# %% [markdown]
# ## Ties
#
# Equal scores have no order, and a sort invents one. `ties="average"`, the default, is the exact mean over all orders;
# `"worst"` and `"best"` bound what a sort may give by luck. Rounded scores show how much that can be.

# %%
levels = ht.levels(paths, paths)
others = ~np.eye(len(paths), dtype=bool)
for ties in ("worst", "average", "best"):
    found = evaluate_scores(scores.round(2), levels, valid=others, metrics=["H-AP", "R@1"], ties=ties)
    print(f"{ties:8}", found.summary().round(3).to_dict())

# %% [markdown]
# Next: [metrics](../metrics.md) has every option, [statistics](../statistics.md) says what a difference is worth.
