"""Labels from images, for landmarks that have none."""
