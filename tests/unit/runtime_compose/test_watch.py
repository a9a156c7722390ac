"""A changed file is noticed once it is quiet; what no server runs from is not looked at."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from pathlib import Path

from gym.runtime.file_watch import SavedFile, WatchedFiles, take_stamps, wait_for_change, watched_folders
from tests.support.compose_plans import plan_of, service, write_folder


def changes_while(folder: Path, change: Callable[[], object], files: tuple[Path, ...] = ()) -> tuple[str, ...]:
    """Those since before the change, which is made while it is watched (or, on a busy machine, a little earlier)."""
    stop, since = threading.Event(), take_stamps((folder,), files)
    changing, give_up = threading.Timer(0.1, change), threading.Timer(120, stop.set)
    changing.start()
    give_up.start()
    try:
        return wait_for_change((folder,), files=files, since=since, stop=stop)
    finally:
        give_up.cancel()


def test_a_new_file_is_a_change(tmp_path: Path) -> None:
    folder = write_folder(tmp_path)
    found = changes_while(folder, lambda: (folder / "new.py").touch())
    assert found == (str(folder / "new.py"),)


def test_a_written_a_new_and_a_removed_file_are_changes(tmp_path: Path) -> None:
    folder = write_folder(tmp_path)
    since = take_stamps((folder,))
    (folder / "app.py").write_text("app = 2\n")
    (folder / "new.py").write_text("x")
    (folder / "requirements.txt").unlink()
    found = wait_for_change((folder,), since=since)
    assert found == tuple(sorted(str(folder / name) for name in ("app.py", "new.py", "requirements.txt")))


def test_a_configuration_file_is_watched_as_well(tmp_path: Path) -> None:
    config = tmp_path / "env.yaml"
    config.write_text("a: 1\n")
    folder = write_folder(tmp_path)
    found = changes_while(folder, config.unlink, files=(config,))
    assert found == (str(config),)


def test_an_edited_test_is_no_change_and_the_watch_ends_on_request(tmp_path: Path) -> None:
    folder = write_folder(tmp_path)
    stop = threading.Event()
    (folder / "tests" / "test_app.py").write_text("new")
    threading.Timer(1.0, stop.set).start()
    threading.Timer(0.1, lambda: (folder / "tests" / "test_app.py").write_text("newer")).start()
    assert wait_for_change((folder,), stop=stop) == ()


def test_each_folder_of_a_plan_is_watched_once(tmp_path: Path) -> None:
    one, two = service("a", directory=tmp_path), service("b", directory=tmp_path)
    assert watched_folders(plan_of(one, two, service("c", launch="image", directory=None))) == (tmp_path,)


def test_a_file_that_is_saved_as_it_was_is_written_and_not_changed(tmp_path: Path) -> None:
    folder = write_folder(tmp_path)
    files = WatchedFiles((folder,))
    app = folder / "app.py"
    text = app.read_text()
    os.utime(app, ns=(1, 1))
    assert files.wait() == (app,)
    assert files.changed() == ()
    app.write_text("app = 2\n")
    files.wait()
    assert files.changed() == (SavedFile(app, "saved"),)
    app.write_text(text)  # undone before any server got it
    files.wait()
    assert files.changed() == ()


def test_what_no_server_got_yet_is_told_with_the_next_save(tmp_path: Path) -> None:
    folder = write_folder(tmp_path)
    files = WatchedFiles((folder,))
    (folder / "new.py").write_text("x = 1\n")
    files.wait()
    (folder / "requirements.txt").unlink()
    files.wait()
    both = (SavedFile(folder / "new.py", "new"), SavedFile(folder / "requirements.txt", "removed"))
    assert files.changed() == both
    files.give()
    assert files.changed() == ()


def test_what_an_editor_leaves_beside_a_file_is_no_save(tmp_path: Path) -> None:
    folder = write_folder(tmp_path)
    before = take_stamps((folder,))
    for name in ("4913", ".app.py.swp", "app.py~", ".#app.py", "app.pyc"):
        (folder / name).write_text("x")
    assert take_stamps((folder,)) == before


def test_a_folder_that_is_watched_later_is_as_its_servers_have_it(tmp_path: Path) -> None:
    one, two = write_folder(tmp_path / "one"), write_folder(tmp_path / "two")
    files = WatchedFiles((one,))
    (one / "app.py").write_text("app = 2\n")
    files.look_at((one, two))
    (two / "app.py").write_text("app = 3\n")
    while len(files.changed()) < 2:
        files.wait()
    assert files.changed() == (SavedFile(one / "app.py", "saved"), SavedFile(two / "app.py", "saved"))
    files.look_at((two,))
    assert files.changed() == (SavedFile(two / "app.py", "saved"),)
