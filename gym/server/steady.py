"""A pytest plugin of `gym test`: property tests try the same examples each time, however slow the machine is.

Without hypothesis it does nothing. A profile that a server's own conftest.py loads comes later and wins.
"""

from __future__ import annotations

from contextlib import suppress

with suppress(ImportError):
    from hypothesis import HealthCheck, settings

    settings.register_profile("steady", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
    settings.load_profile("steady")
