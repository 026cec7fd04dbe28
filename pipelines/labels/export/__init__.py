"""A reviewed proposal → a data set ready to publish."""
