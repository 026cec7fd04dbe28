"""Slow transcriptions of the definitions, in plain loops: what the fast code is tested against."""
