"""Recipes: what an experiment is, and how it is read."""
