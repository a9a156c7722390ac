"""What `--only` takes: the names of the report."""

from __future__ import annotations

import pytest

from gym.cli.audit.check_names import KINDS, NAMES, checks_of, is_shown
from gym.cli.audit.process import audit
from gym.cli.commands.audit import command
from gym.errors import UserError
from tests.unit.cli.audit.test_planted_faults import Planted, cases, rows


async def test_every_name_that_a_report_shows_is_taken_and_there_is_no_other() -> None:
    found = await audit(Planted.app(), "planted", {}, tuple(cases()), tuple(rows()), quick=True)
    shown = {one.check for one in found}
    assert shown <= set(NAMES)
    assert set(NAMES) - shown <= {"worthless answers"}


def test_a_kind_of_worthless_answer_is_shown_alone_and_the_whole_check_with_all() -> None:
    assert checks_of(["empty", "random", "memory"]) == ["worthless answers", "memory"]
    assert [one for one in NAMES if is_shown(one, ["empty"])] == ["oracle answers", "empty"]
    assert {one for one in NAMES if is_shown(one, ["worthless answers"])} >= set(KINDS)
    assert all(is_shown(one, ()) for one in NAMES)


def test_another_name_is_refused_before_anything_is_looked_for() -> None:
    with pytest.raises(UserError, match="no check is called 'emty'") as refused:
        command("no_such_server", only=["emty"])
    assert refused.value.hint.startswith("Did you mean empty? There are: oracle answers, worthless answers, empty,")
