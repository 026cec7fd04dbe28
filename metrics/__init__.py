"""Ranking metrics over label hierarchies."""

if __name__ != "hiertree.metrics":
    raise ImportError("import this package as hiertree.metrics (pip install the repository first)")
