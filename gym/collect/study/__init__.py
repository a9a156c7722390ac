"""What follows a collection: metrics, profiles, comparisons, re-run verifiers and tools, exports, merges.

Reads the files that `gym.collect` wrote; what may be large is streamed, and results appear whole or not at all.
"""
