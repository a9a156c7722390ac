"""Plan -> text: what the router, the engine and the servers read. Pure, but for `files`, which puts text on disk."""
