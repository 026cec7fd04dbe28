# %% [markdown]
# # Labels from landmark ids
#
# From a table of landmarks and what each is an *instance of* (a church, a lake …) to a hierarchy, landmark → supercategory
# → natural or human-made, as H-GLDv2 has it. It needs no network. Everything is written into an empty folder:

# %%
import os
import tempfile

import pandas as pd

import hiertree as ht
from hiertree.pipelines.demo import LANDMARKS
from hiertree.pipelines.labels import build

os.chdir(tempfile.mkdtemp())

# %% [markdown]
# ## The table
#
# One row per landmark: an id, its category on Wikimedia Commons, and the types, several separated by `|`. Where these are not
# known, `hiertree labels scrape` asks Wikimedia. hiertree comes with 293 landmarks:

# %%
landmarks = pd.read_csv(LANDMARKS)
landmarks.sample(5, random_state=1)

# %% [markdown]
# ## Build
#
# `build` runs all steps: clean the types, turn them into vectors, cluster them, give each cluster a name and a kind,
# write the tables and the tree. `hiertree labels build` is the same as a command.

# %%
built = build({"landmarks": LANDMARKS, "cluster": {"clusters": 40, "seed": 0}}, out="labels")
{key: built.report[key] for key in ("landmarks", "kept", "dropped", "distinct_labels", "clusters", "kinds")}

# %% [markdown]
# Landmarks without a type, with several, or of a type that is no landmark are left out, and the reason is kept:

# %%
pd.read_csv("labels/exported/dropped.csv")[["landmark_id", "instance_of", "reason"]]

# %% [markdown]
# ## Look
#
# A proposal is for people to correct. Here are the clusters with the types that went into them:

# %%
clusters = pd.read_csv("labels/exported/clusters.csv")
clusters.sort_values("landmarks", ascending=False)[["name", "kind", "landmarks", "labels"]].head(12)

# %% [markdown]
# `hiertree labels review labels/clustered --annotator anna` opens a page on this machine, where clusters are renamed,
# merged, split and moved; every action goes into a log. With `review: LOG` in the plan, the next build applies it.
#
# ## Use
#
# The export is a table with H-GLDv2's columns and a tree:

# %%
tree = ht.LabelTree.from_csv(
    "labels/exported/tree.csv", levels=["natural_or_human_made", "hierarchical_label", "landmark_id"]
)
print(tree.num_levels, tree.level_sizes)
paths = tree.paths([1, 2, 99])  # Mount Everest, the Matterhorn, a place of worship
print(ht.levels(paths, paths))

# %% [markdown]
# The two mountains meet at level 2, the supercategory; neither has anything in common with the third. These paths are
# what [metrics](metrics.py) and [losses](../losses.md) take. `labels/tree/index.html` is a page of the tree to explore.
#
# Next: [labels](../labels.md) explains each step, [scraping](../scraping.md) how Wikimedia is asked,
# [review](../review.md) the page for people.
