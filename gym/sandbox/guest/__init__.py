"""Python that runs inside sandboxes, of any version from 3.8 on. It imports nothing of ours but its neighbours.

`gym.sandbox.short_programs.pack` sends it there as text.
"""
