"""JSON over HTTP to a model registry, and files to it."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlencode, urlsplit

from gym.config import redact_text
from gym.data.registries.registry_http import NotSuccess, open_reply, read_up_to
from gym.errors import InfraError

_MAX_REPLY: Final = 64 << 20


class RegistryRefused(Exception):
    """A status that is not a success, with the registry's own code and sentence."""

    def __init__(self, status: int, code: str, detail: str) -> None:
        super().__init__(f"{status} {code} {detail}")
        self.status = status
        self.code = code
        self.detail = detail


class Rest:
    """Requests below one URL; the token goes to its host alone, never to where a redirect points."""

    def __init__(self, base: str, token: str) -> None:
        self.base = base
        self._token = token

    def authorization(self, url: str) -> str:
        own, other = urlsplit(self.base), urlsplit(url)
        same = (own.scheme, own.netloc) == (other.scheme, other.netloc)
        return f"Bearer {self._token}" if self._token and same else ""

    def ask(
        self, method: str, path: str, *, query: Mapping[str, str] | None = None, body: Mapping[str, Any] | None = None
    ) -> dict[str, Any]:
        url = f"{self.base}{path}" + (f"?{urlencode(query)}" if query else "")
        content = b"" if body is None else json.dumps(body).encode()
        raw = self._send(method, url, {"Content-Type": "application/json"} if content else {}, content)
        try:
            found = json.loads(raw or b"{}")
        except ValueError:
            found = None
        if not isinstance(found, dict):
            raise InfraError(f"{self.base}: no JSON object came back from {path}", "Is that the registry's own URL?")
        return found

    def put(self, url: str, source: Path) -> None:
        """The whole file as the request's body, read as it is sent."""
        with source.open("rb") as file:
            self._send("PUT", url, {"Content-Type": "application/octet-stream"}, file)

    def delete(self, url: str) -> None:
        self._send("DELETE", url)

    def _send(
        self, method: str, url: str, headers: Mapping[str, str] | None = None, content: bytes | Iterable[bytes] = b""
    ) -> bytes:
        asked = open_reply(method, url, headers or {}, authorization=self.authorization(url), content=content)
        try:
            with asked as reply:
                return read_up_to(reply, _MAX_REPLY)
        except NotSuccess as error:
            raise _refused(error.status, error.body) from None
        except OSError as error:
            raise InfraError(
                f"{self.base} cannot be reached: {error}", "Check `mlflow_tracking_uri` and the network."
            ) from error


def _refused(status: int, raw: bytes) -> RegistryRefused:
    try:
        found = json.loads(raw)
        code, detail = str(found.get("error_code", "")), str(found.get("message", ""))
    except (ValueError, AttributeError):
        code, detail = "", ""
    return RegistryRefused(status, code, redact_text(detail[:500]))
