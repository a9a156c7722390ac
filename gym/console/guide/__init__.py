"""The Docs page: how to call what is shown, and where it is described."""
