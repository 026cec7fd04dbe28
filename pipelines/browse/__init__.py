"""A local page: click an image and see its nearest neighbors under each model that embedded it."""
