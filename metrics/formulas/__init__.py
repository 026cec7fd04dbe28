"""The metrics, one formula a module; each reads the ranked lists of some queries and no other module's metric.

A module that :mod:`hiertree.metrics.conventions.names` names has a function ``compute(lists, metric)``, which returns
the value of the metric for each query, NaN where a query has none.
"""
