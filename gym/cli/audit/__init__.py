"""`gym audit`: how good a verifier is, measured. `process` runs in the server's own environment, on the SDK alone."""
