from __future__ import annotations

from pathlib import Path

import orjson
import pytest

from gym.errors import UserError
from gym.runtime.local.home import Home, prepare_home
from gym.runtime.local.process_logs import LogFile, begin_logs, choose_processes, read_logs, rotate, tail_from


@pytest.fixture
def home(tmp_path: Path) -> Home:
    home = prepare_home(tmp_path)
    services = [
        {"name": "my_weather", "slug": "my-weather", "replicas": 2},
        {"name": "mcqa", "slug": "mcqa", "replicas": 1},
    ]
    services.append({"name": "idle", "slug": "idle", "replicas": 0})
    home.plan.write_bytes(orjson.dumps({"services": services}))
    for name in ("my-weather-1", "my-weather-2", "mcqa-1"):
        home.log(name).write_text(f"{name} a\n{name} b\n{name} c\n")
    return home


def test_names_are_instances_or_single_processes(home: Home) -> None:
    assert choose_processes(home, ("my_weather",)) == ["my-weather-1", "my-weather-2"]
    assert choose_processes(home, ("my-weather-2", "router", "my_weather")) == [
        "my-weather-2",
        "router",
        "my-weather-1",
    ]
    assert choose_processes(home, ()) == ["my-weather-1", "my-weather-2", "mcqa-1", "router", "console", "supervisor"]


def test_an_unknown_name_is_answered_with_the_nearest_or_with_all(home: Home) -> None:
    with pytest.raises(UserError, match="Did you mean my_weather") as near:
        choose_processes(home, ("my_wether",))
    with pytest.raises(UserError, match="There are: my_weather, mcqa, idle, router, console, supervisor$"):
        choose_processes(home, ("zzz",))
    with pytest.raises(UserError, match="`idle` has no replica"):
        choose_processes(home, ("idle",))

    assert "my_wether" in near.value.what


def test_last_lines_of_several_are_distinguished_and_of_one_are_plain(home: Home) -> None:
    several = list(read_logs(home, ("my_weather",), follow=False, tail=1, runs=lambda: True))
    one = list(read_logs(home, ("mcqa",), follow=False, tail=2, runs=lambda: True))

    assert several == ["my-weather-1 | my-weather-1 c", "my-weather-2 | my-weather-2 c"]
    assert one == ["mcqa-1 b", "mcqa-1 c"]
    assert list(read_logs(home, ("mcqa",), follow=False, tail=0, runs=lambda: True)) == []


def test_a_stack_that_starts_again_has_new_logs_and_the_ones_before_stand_beside(home: Home) -> None:
    begin_logs(home)
    assert list(read_logs(home, ("mcqa",), follow=False, tail=9, runs=lambda: True)) == []
    assert home.log("mcqa-1").with_name("mcqa-1.log.1").read_text().endswith("mcqa-1 c\n")


def test_following_ends_with_the_stack_and_misses_nothing_before(home: Home) -> None:
    def runs() -> bool:
        with home.log("mcqa-1").open("a") as log:
            log.write("the last\n")
        return False

    assert list(read_logs(home, ("mcqa",), follow=True, tail=1, runs=runs)) == ["mcqa-1 c", "the last"]


def test_a_line_is_shown_once_it_is_whole(tmp_path: Path) -> None:
    path = tmp_path / "x.log"
    file = LogFile(path)
    path.write_text("half")
    assert file.news() == []
    with path.open("a") as log:
        log.write(" and half\nnext")

    assert file.news() == ["half and half"]
    assert file.news() == []


def test_a_log_that_grew_too_long_is_put_aside_and_its_writers_and_readers_go_on(tmp_path: Path) -> None:
    path = tmp_path / "x.log"
    with path.open("ab", buffering=0) as writer:
        writer.write(b"old\n" * 100)
        reader = LogFile(path)
        reader.last(1)
        rotate(path, max_bytes=50)
        writer.write(b"new\n")

        assert reader.news() == ["new"]
    assert path.read_text() == "new\n"
    assert (tmp_path / "x.log.1").read_text() == "old\n" * 100


def test_a_short_log_stays(tmp_path: Path) -> None:
    path = tmp_path / "x.log"
    path.write_text("short\n")
    rotate(path, max_bytes=50)

    assert path.read_text() == "short\n"
    assert not (tmp_path / "x.log.1").exists()


def test_the_last_words_are_those_since_the_last_start(tmp_path: Path) -> None:
    path = tmp_path / "x.log"
    path.write_text("before\nstart\na\nb\n")

    assert tail_from(path, len("before\n"), 20) == ["start", "a", "b"]
    assert tail_from(path, 1000, 1) == ["b"]
    assert tail_from(tmp_path / "none", 0, 5) == []
