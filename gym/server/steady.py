"""A pytest plugin of `gym test`: property tests try the same examples each time, however slow the machine is.

Without hypothesis it does nothing. A profile that a server's own conftest.py loads comes later and wins.

pytest rewrites what its plugins come with, hypothesis and anyio too, and keeps it compiled only where Python may
write bytecode. `gym test` leaves nothing in a server's folder, so it may not, and to compile all that again took each
run 1.5 s of CPU. It may until the first file of the folder is loaded.
"""

from __future__ import annotations

import sys
from contextlib import suppress

import pytest

writes_none, sys.dont_write_bytecode = sys.dont_write_bytecode, False

with suppress(ImportError):
    from hypothesis import HealthCheck, settings

    settings.register_profile("steady", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
    settings.load_profile("steady")


@pytest.hookimpl(tryfirst=True)
def pytest_load_initial_conftests() -> None:
    sys.dont_write_bytecode = writes_none
