"""Names of a library's registry, and what a row gets wrong about them."""

from __future__ import annotations

import pytest

from gym.server.adapters.registered import find_registered, library_blamed, row_blamed
from gym.wire.failures import RolloutError

GAMES = {"chess-v1": 1, "draughts-v2": 2}


def test_a_name_that_is_not_there_is_the_rows_fault_and_the_nearest_is_shown() -> None:
    assert find_registered("chess-v1", GAMES, "games") == 1
    with pytest.raises(RolloutError, match=r"environment: games has no 'ches-v1': chess-v1\?") as caught:
        find_registered("ches-v1", GAMES, "games")
    assert caught.value.kind == "row"
    with pytest.raises(RolloutError, match="games has no 'go'$"):
        find_registered("go", GAMES, "games")


def test_only_the_errors_that_are_named_blame_the_row() -> None:
    with pytest.raises(RolloutError, match="settings: no such size") as caught, row_blamed("settings", ValueError):
        raise ValueError("no such size")
    assert caught.value.kind == "row"
    with pytest.raises(KeyError), row_blamed("settings", ValueError):
        raise KeyError("of the library")


def test_what_a_library_misses_here_is_a_failure_that_no_retry_helps() -> None:
    missing = pytest.raises(RolloutError, match="chess-v1 does not run here: OSError: no board")
    with missing as caught, library_blamed("chess-v1"):
        raise OSError("no board")
    assert (caught.value.kind, caught.value.retryable) == ("resources", False)
    with pytest.raises(ZeroDivisionError), library_blamed("chess-v1"):
        raise ZeroDivisionError("of the library")
