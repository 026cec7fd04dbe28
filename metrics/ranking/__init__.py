"""From scores to ranked positives: tree order, masks, sorting, ties."""
