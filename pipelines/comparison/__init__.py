"""Comparisons of recipes: the runs, tests of their differences, and the table for papers and pages."""
