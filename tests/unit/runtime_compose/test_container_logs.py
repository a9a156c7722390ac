"""Logs are followed through a restart, and to containers that come later, each line once."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import docker.errors
import pytest

from gym import labels
from gym.errors import InfraError
from gym.runtime.compose import container_logs
from gym.runtime.compose.container_logs import follow_logs, read_logs
from gym.runtime.compose.containers import Container


class Api:
    """An engine's logs: each time that a container's are asked for, what it has written until its next end."""

    def __init__(self, **written: list[list[str]]) -> None:
        self.written = written
        self.asked: list[tuple[str, Any, Any]] = []

    def logs(self, container: str, *, tail: Any, stream: bool = False, since: Any = None, **_: Any) -> Any:
        self.asked.append((container, tail, since))
        if not self.written[container]:
            raise docker.errors.APIError("409: marked for removal")
        lines = self.written[container].pop(0)
        return Chunks(lines) if stream else "\n".join(line.partition(" ")[2] for line in lines).encode()


class Chunks:
    """As an engine sends them: cut anywhere."""

    def __init__(self, lines: list[str]) -> None:
        self._text = "".join(f"{line}\n" for line in lines).encode()

    def __iter__(self) -> Iterator[bytes]:
        yield self._text[:9]
        yield self._text[9:]

    def close(self) -> None:
        pass


class Engine:
    def __init__(self, api: Api) -> None:
        self.api = api


def container(name: str, state: str = "running") -> Container:
    return Container(id=name, name=name, state=state, service=name, labels={labels.INSTANCE: name})


def stamped(second: int, text: str) -> str:
    return f"2026-11-23T12:00:{second:02d}.000000000Z {text}"


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(container_logs, "LOOK_SECONDS", 0.01)


def test_a_restarted_and_a_later_container_are_followed_and_no_line_comes_twice() -> None:
    first, second = [stamped(1, "starts"), stamped(2, "ends")], [stamped(2, "ends"), stamped(3, "starts once more")]
    api = Api(one=[first, second], two=[[stamped(4, "hello")]])

    def find() -> list[Container]:
        if api.written["one"]:
            return [container("one")]
        if api.written["two"]:
            return [container("one", "exited"), container("two")]
        raise InfraError("None of this stack's containers is there.")

    lines = list(follow_logs(Engine(api).api.logs, None, find, 5))
    assert [line for line in lines if line != "hello"] == ["starts", "ends", "starts once more"]
    assert lines.count("hello") == 1
    assert api.asked[0] == ("one", 5, None)
    assert ("one", "all", 1795435202) in api.asked
    assert ("two", "all", None) in api.asked


def test_what_ended_is_read_and_not_waited_for() -> None:
    api = Api(one=[[stamped(1, "last words")]])
    assert list(follow_logs(Engine(api).api.logs, None, lambda: [container("one", "exited")], 5)) == ["last words"]
    api = Api(one=[[stamped(1, "a")]], two=[[stamped(1, "b")]])
    both = [container("one"), container("two")]
    assert [line.split(" | ")[1] for line in read_logs(Engine(api).api.logs, None, both, 5)] == ["a", "b"]
