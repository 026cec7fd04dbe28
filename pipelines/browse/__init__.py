"""A local page on which one clicks an image and sees its nearest neighbors, by every model that embedded it."""
