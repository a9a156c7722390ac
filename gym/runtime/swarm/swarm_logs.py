"""What the tasks of a service wrote, on whatever node: one log, through restarts and moves."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import docker


class ServiceLogs:
    """Read as an engine's log of a container is."""

    def __init__(self, client: docker.DockerClient) -> None:
        self._client = client

    def logs(self, service: str, *, stream: bool = False, **options: Any) -> Any:
        options = {key: value for key, value in options.items() if value is not None}
        found = self._client.api.service_logs(service, stdout=True, stderr=True, is_tty=False, **options)
        return _Followed(found) if stream else b"".join(found)


class _Followed:
    """A thread of a command that ends reads it: no other thread may end a generator that waits."""

    def __init__(self, chunks: Iterator[bytes]) -> None:
        self._chunks = chunks

    def __iter__(self) -> Iterator[bytes]:
        return self._chunks

    def close(self) -> None:
        pass


def service_lines(client: docker.DockerClient, service: str, tail: int) -> list[str]:
    """The last ones; none where the engine does not say."""
    import docker.errors  # noqa: PLC0415

    with suppress(docker.errors.APIError, OSError):
        raw: bytes = ServiceLogs(client).logs(service, tail=tail)
        return raw.decode("utf-8", "replace").splitlines()[-tail:]
    return []
