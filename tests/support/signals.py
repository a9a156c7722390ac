"""Signals as a program finds them that a person starts."""

from __future__ import annotations

import signal


def let_children_be_interrupted() -> None:
    """A child that a test starts ends at Ctrl-C, also where this process was started with SIGINT ignored.

    A shell does that to background jobs, and so does some CI. What is ignored stays ignored in every child; what has a
    handler is the default again. The handler does nothing, so this process ignores SIGINT as before.
    """
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, lambda _number, _frame: None)
