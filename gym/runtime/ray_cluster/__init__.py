"""The plan of a stack as actors of a Ray cluster. Nothing here imports Ray before a stack is asked for."""
