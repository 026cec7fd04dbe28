"""Rank losses over label hierarchies."""

if __name__ != "hiertree.losses":
    raise ImportError("import this package as hiertree.losses (pip install the repository first)")
