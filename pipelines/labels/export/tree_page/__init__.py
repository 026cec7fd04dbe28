"""The label tree as a page to explore, and as a drawing."""
