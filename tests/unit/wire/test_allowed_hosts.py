from __future__ import annotations

from typing import Any

import pytest

from gym.errors import UserError
from gym.wire.allowed_hosts import AllowedHosts

PUBLIC = ("1.1.1.1", "2606:4700:4700::1111")
NEAR = (
    "127.0.0.1",
    "::1",
    "0.0.0.0",
    "10.1.2.3",
    "172.17.0.1",
    "192.168.1.1",
    "100.64.0.1",
    "fd12::1",
    "::ffff:10.0.0.1",
)
NEVER = (
    "169.254.169.254",
    "fe80::1",
    "fe80::1%eth0",
    "fd00:ec2::254",
    "100.100.100.200",
    "224.0.0.1",
    "64:ff9b::a9fe:a9fe",
)


@pytest.mark.parametrize(
    ("entries", "public", "near"),
    [("public", True, False), ("private", True, True), ([], False, False), ("none", False, False)],
)
def test_a_word_allows_a_kind_of_address(entries: Any, public: bool, near: bool) -> None:
    allowed = AllowedHosts(entries)
    assert {allowed.allows_address(one) for one in PUBLIC} == {public}
    assert {one for one in NEAR if allowed.allows_address(one)} == (set(NEAR) if near else set())
    assert not any(allowed.allows_address(one) for one in NEVER)
    assert not allowed.allows_name("trainer.local")


def test_a_list_allows_what_it_names_and_nothing_else() -> None:
    allowed = AllowedHosts(["10.0.0.0/8", "192.168.7.7", "trainer.local", "*.svc.cluster.local", "169.254.169.254"])
    asked = ["10.9.9.9", "::ffff:10.9.9.9", "192.168.7.7", "169.254.169.254", "192.168.7.8", "127.0.0.1", "1.1.1.1"]
    assert [allowed.allows_address(one) for one in asked] == [True, True, True, True, False, False, False]
    names = ["trainer.local", "a.svc.cluster.local", "svc.cluster.local", "eviltrainer.local", "localhost"]
    assert [allowed.allows_name(one) for one in names] == [True, True, False, False, False]


def test_words_and_names_go_together() -> None:
    allowed = AllowedHosts(["public", "10.0.0.0/8"])
    assert [allowed.allows_address(one) for one in ("1.1.1.1", "10.0.0.1", "192.168.0.1")] == [True, True, False]


@pytest.mark.parametrize("entry", ["", "10.0.0.0/99", "http://trainer", "a b", 7, None])
def test_an_entry_that_is_none_says_what_to_write(entry: Any) -> None:
    with pytest.raises(UserError, match="policy_urls") as caught:
        AllowedHosts([entry])
    assert "10.0.0.0/8" in caught.value.hint
