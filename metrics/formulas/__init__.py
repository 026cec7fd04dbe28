"""Metrics from ranked positives, one file each."""
