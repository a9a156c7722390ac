"""Egress: what a sandbox with `allow: [hosts]` may reach, through a gate in the broker and through nothing else.

The sandbox itself has no network. A relay (the helper's `--relay`) listens on its loopback and carries what it is told
over the sandbox's own channel; the gate looks at it, and opens the connections that are granted.
"""
