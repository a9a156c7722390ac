"""A plan's settings for the sandbox broker are checked by the command, not by the broker that reads them."""

from __future__ import annotations

import pytest

from gym.cli.planning import check_settings
from gym.errors import ConfigError
from gym.plan import SandboxPlan
from gym.wire.sandbox import Grant


def test_settings_of_the_broker_are_checked_before_anything_starts() -> None:
    with pytest.raises(ConfigError) as caught:
        check_settings(SandboxPlan(grants={"coder": Grant()}, settings={"lease_second": 5, "creates": 0}))
    text = str(caught.value)
    assert "sandbox_settings.lease_second: no such setting" in text
    assert "Did you mean lease_seconds" in text
    assert "sandbox_settings.creates: Input should be greater than or equal to 1; found 0" in text
