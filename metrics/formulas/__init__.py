"""The metrics, one independent file per family; each reads the ranked lists of some queries.

A name of :mod:`hiertree.metrics.request` leads to a function ``(lists, metric)``, which returns the value of
the metric for each query, NaN where a query has none.
"""
