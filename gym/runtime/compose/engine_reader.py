"""The engine's containers, asked over its socket: for commands that are typed often. docker-py takes longer to import
than they take in all."""

from __future__ import annotations

import http.client
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple
from urllib.parse import quote, urlencode, urlsplit

import orjson

from gym.engine import CLIENT_SECONDS, SocketConnection, require_engine
from gym.errors import InfraError
from gym.runtime.compose.containers import Container, Inspected, read_inspection, read_list

OLDEST_API = "v1.44"  # of engine 25, the oldest that works here


class EngineReader(NamedTuple):
    """Reads, and changes nothing."""

    host: str

    def containers(self, *labels: str) -> list[Container]:
        """Those that carry all of the labels, running or not, in a stable order."""
        filters = orjson.dumps({"label": labels}).decode()
        listed = self._ask("containers/json", {"all": "1", "filters": filters})
        return read_list(listed or (), self._labels_of_image)

    def inspect(self, container: Container) -> Inspected | None:
        """None when it is gone by now."""
        facts = self._ask(f"containers/{quote(container.id)}/json")
        return None if facts is None else read_inspection(facts)

    def is_swarm_manager(self) -> bool:
        return bool(((self._ask("info") or {}).get("Swarm") or {}).get("ControlAvailable"))

    def _labels_of_image(self, image: str) -> dict[str, str]:
        name = quote(image, safe=":")
        facts = self._ask(f"images/{name}/json") or {}
        return dict((facts.get("Config") or {}).get("Labels") or {})

    def _ask(self, path: str, query: Mapping[str, str] | None = None) -> Any:
        """None for what is not there."""
        target = f"/{OLDEST_API}/{path}{f'?{urlencode(query)}' if query else ''}"
        connection = _connect(self.host)
        try:
            connection.request("GET", target)
            reply = connection.getresponse()
            body = reply.read()
        except (OSError, http.client.HTTPException) as error:
            raise InfraError(f"The engine at {self.host} did not answer: {error}.", "Try again.") from error
        finally:
            connection.close()
        if reply.status == http.HTTPStatus.NOT_FOUND:
            return None
        if reply.status != http.HTTPStatus.OK:
            raise InfraError(f"The engine at {self.host} answers {reply.status}: {body[:300]!r}.", "Try again.")
        return orjson.loads(body)


def read_engine() -> EngineReader:
    return EngineReader(require_engine(compose=False).host)


def unique(found: Sequence[Container]) -> list[Container]:
    return sorted({one.id: one for one in found}.values(), key=lambda one: (one.service, one.number))


def _connect(host: str) -> http.client.HTTPConnection:
    if host.startswith("unix://"):
        return SocketConnection(host.removeprefix("unix://"), CLIENT_SECONDS)
    return http.client.HTTPConnection(urlsplit(host).netloc, timeout=CLIENT_SECONDS)
