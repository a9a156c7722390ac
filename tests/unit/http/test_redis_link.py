"""The address of a Redis: what it may be, and how it is shown."""

from __future__ import annotations

import pytest

from gym.errors import UserError
from gym.http.redis_link import check_address, show_address


def test_valkey_is_another_word_for_it() -> None:
    assert check_address("valkey://a:1/2", "state") == "redis://a:1/2"
    assert check_address("valkeys://a?ssl_ca_certs=ca.pem", "state") == "rediss://a?ssl_ca_certs=ca.pem"


def test_a_password_is_shown_nowhere() -> None:
    assert show_address("rediss://me:canary@a:1?ssl_ca_certs=ca.pem") == "rediss://****@a:1?ssl_ca_certs=ca.pem"
    assert "canary" not in show_address("redis://a:1?password=canary")
    assert "canary" not in show_address("redis://a:1?b=canary@c")


def test_a_password_where_nothing_would_know_it_for_one_is_refused() -> None:
    with pytest.raises(UserError, match="behind the `\\?`") as refused:
        check_address("redis://a:1?password=canary", "state")
    assert "canary" not in str(refused.value)
