"""A page on which a person reads rollouts: served over files of any size, or written as one file of its own."""
