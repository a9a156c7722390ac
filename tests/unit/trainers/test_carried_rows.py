"""Rows on their way through a trainer's data set."""

from __future__ import annotations

from typing import Any

import pytest

from gym.errors import UserError
from gym.trainers.carried_rows import pack_row, put_endpoint, unpack_row

ROW: dict[str, Any] = {"responses_create_params": {"input": "What?"}, "answer": None, "name": "ä", "id": 10**29 + 7}


def test_a_row_comes_out_of_its_column_as_it_went_in() -> None:
    assert unpack_row({**pack_row(ROW), "prompt": []}) == ROW


@pytest.mark.parametrize("fields", [ROW, {"row": ROW}])
def test_columns_that_are_the_row_and_a_row_as_an_object_do_as_well(fields: dict[str, Any]) -> None:
    assert unpack_row(fields) == ROW


@pytest.mark.parametrize("fields", [{}, {"row": "{"}, {"row": "[]"}, {"row": {}}, {"prompt": "What?"}])
def test_what_carries_no_row_is_refused_with_the_way_to_write_it(fields: dict[str, Any]) -> None:
    with pytest.raises(UserError, match="pack_row"):
        unpack_row(fields)


def test_an_endpoint_leaves_out_what_is_not_given() -> None:
    assert put_endpoint(ROW, "") == ROW
    given = put_endpoint(ROW, "http://host:1/v1", key="secret-key")
    assert given == ROW | {"policy_base_url": "http://host:1/v1", "policy_api_key": "secret-key"}
