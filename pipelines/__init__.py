"""Pipelines that run for minutes or days: label building, training, evaluation, the demo."""

if __name__ != "hiertree.pipelines":
    raise ImportError("import this package as hiertree.pipelines (pip install the repository first)")
