"""Sandboxes: short-lived environments for code that a model wrote. The broker makes them; servers ask it over HTTP."""
