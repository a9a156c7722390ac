"""Egress: what a sandbox with `allow: [hosts]` may reach, through a gate in the broker and through nothing else.

The sandbox itself has no network. A relay (the helper's `--relay`) listens on its loopback and carries connections over
the sandbox's own channel; the gate checks them, and opens those that are granted.
"""
