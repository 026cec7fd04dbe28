"""The metrics, a family a file; each reads the ranked lists of some queries and no other file's metric.

A name of :mod:`hiertree.metrics.request` leads to a function ``(lists, metric)``, which returns the value of
the metric for each query, NaN where a query has none.
"""
