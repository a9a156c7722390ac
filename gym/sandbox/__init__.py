"""Sandboxes: short-lived places where what a model wrote may run. The broker makes them; everybody else asks it."""
