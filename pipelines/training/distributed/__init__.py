"""The processes of one run."""
