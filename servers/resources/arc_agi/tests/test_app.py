"""arc_agi on a real socket, and as pure functions: which grid is read."""

from __future__ import annotations

from typing import Any

import pytest
from grids import read_grid

from gym.server import ServerApp
from gym.server.fuzz import fuzz_verify
from gym.server.testing import Rows


@pytest.mark.parametrize("fields", [{}, {"strict": True}])
def test_no_well_formed_request_breaks_it(app: ServerApp, rows: Rows, fields: dict[str, Any]) -> None:
    fuzz_verify(
        app.configured(fields),
        rows,
        texts=["\\boxed{[[1,2],[3]]}", "[[1]] [[2]]", "\\boxed{[[99999999999999999999]]}"],
    )


@pytest.mark.parametrize(
    ("text", "grid", "strictly"),
    [
        (r"\boxed{[[1, 2], [3, 4]]}", [[1, 2], [3, 4]], [[1, 2], [3, 4]]),
        ("it is [[1,2],\n [3,4]], so", [[1, 2], [3, 4]], None),
        (r"[[9]] \boxed{[[1]]} \boxed{[[2]]}", [[1]], [[2]]),
        (r"\boxed{[[1], []]}", [[1], []], [[1], []]),
        (r"\boxed{[[]]} [[1]]", [[1]], None),
        (r"\boxed{2} stands for [[1, 2]]", [[1, 2]], None),
        (r"\boxed{[[1]]} \boxed{2}", [[1]], None),
        (r"\boxed{[[[1]]]}", None, None),
        (r"\boxed{[[1]}", None, None),
        ("[[1]] and [[2]]", [[1]], None),
        ("[" * 2000, None, None),
        ("", None, None),
    ],
)
def test_which_grid_is_read(text: str, grid: Any, strictly: Any) -> None:
    assert read_grid(text) == grid
    assert read_grid(text, strict=True) == strictly
