"""`gym ls`: every stack of this user, wherever it was started; what `gym down --all` would stop."""

from __future__ import annotations

from gym.cli.options import AsJson
from gym.cli.pages import ls_page


def command(as_json: AsJson = False) -> int:
    """Show all your stacks on this machine and its container engine."""
    return ls_page.show(as_json=as_json)
