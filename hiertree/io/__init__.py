"""Files and tables on disk: atomic writing, checked reading, outputs that destroy nothing, provenance and progress."""
