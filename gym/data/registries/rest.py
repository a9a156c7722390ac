"""JSON over HTTP to a model registry, and files to it, by the standard library."""

from __future__ import annotations

import http.client
import json
import urllib.error
import urllib.request
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlencode, urlsplit

from gym.config import redact_text
from gym.errors import InfraError

_SECONDS: Final = 60.0
_MAX_REPLY: Final = 64 << 20


class RequestRefused(Exception):
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
        data = None if body is None else json.dumps(body).encode()
        headers = {} if data is None else {"Content-Type": "application/json"}
        raw = self._send(urllib.request.Request(url, data=data, headers=headers, method=method))
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
            headers = {"Content-Type": "application/octet-stream", "Content-Length": str(source.stat().st_size)}
            self._send(urllib.request.Request(url, data=file, headers=headers, method="PUT"))

    def delete(self, url: str) -> None:
        self._send(urllib.request.Request(url, method="DELETE"))

    def _send(self, request: urllib.request.Request) -> bytes:
        if token := self.authorization(request.full_url):
            request.add_unredirected_header("Authorization", token)
        try:
            with urllib.request.urlopen(request, timeout=_SECONDS) as reply:
                raw: bytes = reply.read(_MAX_REPLY)
                return raw
        except urllib.error.HTTPError as error:
            with error:
                raise _refused(error.code, error.read(1 << 16)) from None
        except (OSError, http.client.HTTPException) as error:
            reason = getattr(error, "reason", None) or error or type(error).__name__
            raise InfraError(
                f"{self.base} cannot be reached: {reason}", "Check `mlflow_tracking_uri` and the network."
            ) from error


def _refused(status: int, raw: bytes) -> RequestRefused:
    try:
        found = json.loads(raw)
        code, detail = str(found.get("error_code", "")), str(found.get("message", ""))
    except (ValueError, AttributeError):
        code, detail = "", ""
    return RequestRefused(status, code, redact_text(detail[:500]))
