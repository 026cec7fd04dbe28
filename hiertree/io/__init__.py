"""Files and tables on disk: written whole or not at all, read with care, with their provenance and progress."""
