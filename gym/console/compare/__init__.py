"""Compare: runs of the same tasks, paired."""
