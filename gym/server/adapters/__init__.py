"""Base classes for environments that come from a library: a scorer, tools known after reset, games of text."""
