"""What a loss sees as its batch: a memory of earlier ones, one in two passes, one over several processes."""
