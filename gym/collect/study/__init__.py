"""What follows from a collection: metrics, profiles, comparisons, verifiers and tools run again, exports, merges.

Reads the files that `gym.collect` wrote; what may be large is streamed, and results appear whole or not at all.
"""
