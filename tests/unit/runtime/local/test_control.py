from __future__ import annotations

import stat
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path

import orjson
import pytest

from gym.errors import GymError, InfraError, StartFailed, UserError
from gym.runtime.local.control import ask, bind_control, connect, error_from_dict, error_to_dict
from gym.runtime.local.home import Home, prepare_home


def serve_once(home: Home, *replies: dict[str, object]) -> threading.Thread:
    listener = bind_control(home)

    def serve() -> None:
        with listener:
            connection, _ = listener.accept()
            with connection, connection.makefile("rb") as lines:
                asked = orjson.loads(lines.readline())
                lines_out = [orjson.dumps(reply) + b"\n" for reply in ({"heard": asked}, *replies)]
                connection.sendall(b"".join(lines_out))  # at once: the caller leaves after the last it needs

    thread = threading.Thread(target=serve)
    thread.start()
    return thread


@pytest.fixture
def short_temp(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """pytest's own folders may be longer than the path of a socket."""
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:
        monkeypatch.setattr(tempfile, "tempdir", folder)
        yield Path(folder)


def test_an_order_is_answered_line_by_line_until_it_is_done(tmp_path: Path) -> None:
    home = prepare_home(tmp_path)
    server = serve_once(home, {"status": 1}, {"done": 2}, {"status": "too late"})
    connection = connect(home)
    assert connection is not None

    assert list(ask(connection, "apply", timeout=3)) == [
        {"heard": {"verb": "apply", "timeout": 3}},
        {"status": 1},
        {"done": 2},
    ]
    server.join()


def test_an_end_before_the_answer_is_not_an_answer(tmp_path: Path) -> None:
    home = prepare_home(tmp_path)
    server = serve_once(home)
    connection = connect(home)
    assert connection is not None

    with pytest.raises(ConnectionResetError):
        list(ask(connection, "status"))
    server.join()


def test_a_folder_too_deep_for_a_socket_has_it_elsewhere_and_in_private(tmp_path: Path, short_temp: Path) -> None:
    home = prepare_home(tmp_path / ("deep" * 30))
    with bind_control(home) as listener:
        path = Path(listener.getsockname())
        found = connect(home)
        assert found is not None
        found.close()

    assert path.is_relative_to(short_temp)
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    assert connect(home) is None


def test_a_strangers_folder_is_not_used_for_it(tmp_path: Path, short_temp: Path) -> None:
    home = prepare_home(tmp_path / ("deep" * 30))
    bind_control(home).close()
    (private,) = short_temp.iterdir()
    private.chmod(0o777)

    with pytest.raises(UserError, match="not a private folder"):
        bind_control(home)


@pytest.mark.parametrize(
    "error",
    [
        UserError("a port is in use", "take another"),
        InfraError("the disk is full"),
        StartFailed("mcqa", "ended 3 times at its start", "last\nwords", "gym logs mcqa-1"),
        StartFailed("mcqa", "not healthy"),
    ],
)
def test_an_error_is_the_same_on_both_sides(error: GymError) -> None:
    copy = error_from_dict(orjson.loads(orjson.dumps(error_to_dict(error))))

    assert type(copy) is type(error)
    assert (str(copy), copy.hint) == (str(error), error.hint)
