"""Label texts as vectors."""
