# %% [markdown]
# # HAPPIER on your photos
#
# A folder of images and a table of their labels become a trained model, a measured one, and one that finds similar
# images. The images here are drawn, so that the notebook needs no files and takes about a minute on a CPU.

# %%
import os
import tempfile
from pathlib import Path

import pandas as pd

import hiertree as ht
from hiertree.metrics import evaluate

os.chdir(tempfile.mkdtemp())

# %% [markdown]
# ## The data
#
# A table with one row per image: its file, its label at every level, its split. The classes of the test split are others
# than those of training; that is what retrieval is measured on.

# %%
rows = []
for split in ("train", "test"):
    drawn = ht.datasets.load_synthetic(split, families=4, kinds=3, instances=6, images=8)
    for i, path in enumerate(drawn.paths):
        family, kind, instance = drawn.tree.labels_of(path)
        file = Path("photos", split, f"{i}.png")
        file.parent.mkdir(parents=True, exist_ok=True)
        drawn.images[i].save(file)
        rows.append((str(file), split, family, kind, instance))
table = pd.DataFrame(rows, columns=["file", "split", "family", "kind", "instance"])
table.to_csv("images.csv", index=False)
table.groupby("split").nunique()

# %% [markdown]
# ## The recipe
#
# One file holds every setting of an experiment; what is not said has a default. A fifth of the training classes is held
# out to choose the best epoch.

# %%
Path("recipe.yaml").write_text("""
data: {name: table, path: images.csv, root: ., image: file, levels: [family, kind, instance], split: split}
images: {size: 32, channels: 3, augmentation: {name: glyph}}
sampler: {name: ClassBalancedSampler, batch_size: 48, images_per_class: 4}
model: {backbone: small_cnn, width: 16, embedding_size: 64, pooling: average}
loss: {name: HAPPIER}
optimizer: {name: adam, lr: 4e-3}
training: {epochs: 12}
validation: {classes: 0.2, select: H-AP, every: 3}
""")

# %%
# !hiertree train recipe.yaml --out runs/happier --quiet

# %% [markdown]
# An interrupted run goes on where it was, by the same command. For real photos change `images.size`, take a `backbone` of
# timm with `pretrained: true`, and `augmentation: {name: photo}`.
#
# ## What the hierarchy buys
#
# The same recipe with a loss that knows the finest level alone:

# %%
# !hiertree train recipe.yaml --out runs/smooth-ap --set loss.name=SmoothAP --quiet
# !hiertree report runs/happier runs/smooth-ap --out report.html --quiet

# %% [markdown]
# ## Use the model
#
# A run's folder is a model, with its preprocessing. The best epoch by validation is in `best/`, the last one beside it.

# %%
model = ht.load_model("runs/happier/best")
test = table[table["split"] == "test"]
embeddings = model.embed(test["file"].tolist())
embeddings.shape

# %%
result = evaluate(embeddings, test[["family", "kind", "instance"]])
result.by_level()

# %% [markdown]
# Which families are hard?

# %%
result.by_class(level="family")

# %% [markdown]
# Next: [training](../training.md) has every setting, [losses](../losses.md) says which loss, the [guide](../guides/lightning.md)
# puts them into your own loop.
