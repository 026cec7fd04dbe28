"""Images in, unit vectors out."""
