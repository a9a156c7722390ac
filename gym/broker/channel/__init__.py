"""The connection into one sandbox: frames to a helper and back, and the commands that it runs."""
