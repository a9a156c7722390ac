"""Sandboxes as containers of a Docker engine, asked over its own API."""
