"""What the containers of a stack wrote, merged line by line; followed until the reader stops."""

from __future__ import annotations

import queue
import threading
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

from gym.runtime.compose.containers import Container, replica_id

if TYPE_CHECKING:
    import docker

    from gym.plan.model import Plan

_END = None


def read_logs(client: docker.DockerClient, plan: Plan | None, containers: list[Container], tail: int) -> Iterator[str]:
    """The last lines of each, one container after the other."""
    width = max((len(replica_id(one, plan)) for one in containers), default=0)
    for one in containers:
        raw: bytes = client.api.logs(one.id, tail=tail)
        yield from _prefixed(raw.decode("utf-8", "replace").splitlines(), one, plan, len(containers) > 1, width)


def follow_logs(
    client: docker.DockerClient, plan: Plan | None, containers: list[Container], tail: int
) -> Iterator[str]:
    """The last lines of each, then whatever comes, until every one of them has ended."""
    lines: queue.Queue[str | None] = queue.Queue(maxsize=10_000)
    width = max((len(replica_id(one, plan)) for one in containers), default=0)
    streams = [(one, client.api.logs(one.id, tail=tail, stream=True, follow=True)) for one in containers]
    for one, stream in streams:
        named = (_prefixed([line], one, plan, len(containers) > 1, width) for line in _lines(stream))
        threading.Thread(target=_pump, args=(named, lines), daemon=True).start()
    running = len(streams)
    try:
        while running:
            line = lines.get()
            if line is _END:
                running -= 1
            else:
                yield line
    finally:
        for _, stream in streams:
            stream.close()


def _pump(batches: Iterable[Iterable[str]], lines: queue.Queue[str | None]) -> None:
    try:
        for batch in batches:
            for line in batch:
                lines.put(line)
    except Exception:  # noqa: BLE001 (whatever closing the stream under the reading thread raises)
        pass
    finally:
        lines.put(_END)


def _lines(chunks: Iterable[Any]) -> Iterator[str]:
    rest = b""
    for chunk in chunks:
        *whole, rest = (rest + chunk).split(b"\n")
        for line in whole:
            yield line.decode("utf-8", "replace").rstrip("\r")
    if rest:
        yield rest.decode("utf-8", "replace")


def _prefixed(lines: Iterable[str], one: Container, plan: Plan | None, prefix: bool, width: int) -> Iterator[str]:
    name = f"{replica_id(one, plan):<{width}} | " if prefix else ""
    return (f"{name}{line}" for line in lines)
