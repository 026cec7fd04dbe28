"""Recipes: the settings of an experiment, and reading them."""
