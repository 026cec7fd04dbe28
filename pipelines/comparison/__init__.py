"""Comparisons: what to run, the runs, whether they differ, and the table in the formats of papers and pages."""
