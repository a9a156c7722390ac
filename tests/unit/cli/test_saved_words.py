"""One line tells what was saved, and what became of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from gym.cli.saved_words import describe_changes, describe_late, describe_reload, name_files
from gym.cli.watching import check_syntax
from gym.errors import NotUp, UserError
from gym.plan import Change
from gym.runtime.file_watch import SavedFile
from tests.support.compose_plans import plan_of, service

HERE = Path("/home/ada/eval")
TRACEBACK = """Traceback (most recent call last):
  File "/opt/gym/serve.py", line 61, in load_app
  File "/home/ada/eval/tally/app.py", line 34, in <module>
    nonsense
NameError: name 'nonsense' is not defined
"""


def test_few_files_are_named_and_many_are_counted() -> None:
    saved = [
        SavedFile(HERE / "tally/app.py", "saved"),
        SavedFile(HERE / "tally/new.py", "new"),
        SavedFile(Path("/src/other/old.py"), "removed"),
    ]
    assert name_files(saved, HERE) == "tally/app.py saved, tally/new.py is new, other/old.py removed"
    more = [*saved, *(SavedFile(HERE / f"{number}.py", "saved") for number in range(40))]
    assert name_files(more, HERE).endswith("other/old.py removed and 40 more")


def test_a_change_is_described_with_its_reason_and_an_installation_by_name() -> None:
    changes = (
        Change(action="keep", service="policy_model"),
        Change(action="replace", service="tally", why="sources, requirements changed"),
        Change(action="create", service="mcqa", why="new"),
        Change(action="scale", service="judge", why="1 -> 2 replicas"),
    )
    assert describe_changes(changes, images=True) == (
        "tally replaced, its requirements installed in a new image (sources, requirements changed); mcqa started; "
        "judge scaled (1 -> 2 replicas)"
    )
    assert describe_changes(changes[1:2], images=False).startswith("tally replaced, its requirements installed (")
    assert describe_changes(changes[:1], images=True) == "nothing changes for the servers"


def test_a_reload_says_whether_an_image_was_built() -> None:
    assert describe_reload(("tally", "tally_2"), built=False) == "tally, tally_2 reloaded"
    assert describe_reload(("tally",), built=True) == "tally replaced, from a new image"


def test_a_server_that_does_not_start_is_described_by_its_last_word_and_place() -> None:
    late = NotUp("tally-1", "ended 3 times while it started", TRACEBACK)
    assert describe_late(late) == (
        "tally-1 does not start: NameError: name 'nonsense' is not defined (app.py, line 34)"
    )
    assert describe_late(NotUp("tally-1", "is late.")) == "tally-1: is late"
    lacking = NotUp("tally-1", "ended 3 times", "app.py:2: its environment has no `chess`.\nName its package.\n")
    assert describe_late(lacking) == "tally-1 does not start: app.py:2: its environment has no `chess`"


def test_a_syntax_error_names_its_line_and_another_pythons_is_not_judged(tmp_path: Path) -> None:
    app = tmp_path / "app.py"
    app.write_text("x = 1\nif x\n    pass\n")
    with pytest.raises(UserError, match=r"app\.py, line 2: expected ':': `if x`"):
        check_syntax([SavedFile(app, "saved")], plan_of(service("tally", directory=tmp_path)))
    check_syntax([SavedFile(app, "saved")], plan_of(service("tally", directory=tmp_path, python="3.99")))
    check_syntax([SavedFile(tmp_path / "gone.py", "removed")], plan_of(service("tally", directory=tmp_path)))


@pytest.mark.parametrize("content", [b"x = '\xff'\n", b"x = 1\0\n"])
def test_what_is_not_text_is_refused_and_not_a_bug(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "app.py").write_bytes(content)
    with pytest.raises(UserError, match=r"app\.py"):
        check_syntax([SavedFile(tmp_path / "app.py", "saved")], plan_of(service("tally", directory=tmp_path)))
