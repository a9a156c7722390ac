"""A running stack: is it there, who serves its policy, and which one is meant by a trainer's head server."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.error import HTTPError
from urllib.parse import quote
from urllib.request import ProxyHandler, Request, build_opener

from nemo_gym.nemo_failures import StackError
from nemo_gym.nemo_settings import PREFIX, NemoSettings, read_settings
from nemo_gym.server_utils import HEAD_SERVER_KEY_NAME, BaseServerConfig

Json = dict[str, Any]
SECONDS: Final = 15.0  # the stack waits 5 s for its replicas to hear of new addresses
TOKEN_HINT: Final = "set GYM_TOKEN or GYM_TOKEN_FILE to the token that `gym up` was given"


@dataclass
class RunningStack:
    settings: NemoSettings
    pushed: Json | None = field(default=None, init=False)  # what the stack answered to it

    def check(self) -> None:
        if not isinstance(self._call("GET", "/discovery").get("instances"), dict):
            raise StackError(f"{self.settings.url} is not a stack: it answers /discovery with something else")

    def check_policy(self) -> None:
        if not self.settings.policy.urls:
            raise StackError(
                f"the configuration has no policy_base_url to tell the stack: serve the policy over HTTP, or set "
                f"{PREFIX}POLICY=keep to train against the model that the stack is configured with"
            )

    def push_policy(self) -> None:
        """Every replica of the model that is up asks the trainer's servers when this returns."""
        policy = self.settings.policy
        order = {"base_urls": policy.urls, "api_key": policy.api_key, "model": policy.model_name}
        self.pushed = self._call("PUT", self._upstreams, {name: value for name, value in order.items() if value})
        if not self.pushed.get("reached"):
            model = self.settings.options.model
            raise StackError(f"not every replica of {model} has the new addresses: look at gym logs {model}")

    def take_policy_back(self) -> None:
        """Unless the model was given other addresses since."""
        pushed, self.pushed = self.pushed, None
        if pushed is not None and _is_same(self._call("GET", self._upstreams), pushed):
            self._call("DELETE", self._upstreams)

    def poll(self) -> None:
        """Raises what a trainer must know; the stack itself restarts what has died."""
        servers = self._call("GET", "/servers").get("servers") or []
        if down := [str(one.get("name")) for one in servers if _is_down(one)]:
            raise StackError(f"{', '.join(down)} of {self.settings.url} does not run: look at gym logs {down[0]}")
        if self.pushed is not None:
            self._check_push(self.pushed)

    def _check_push(self, pushed: Json) -> None:
        view = self._call("GET", self._upstreams)
        if not _is_same(view, pushed):
            urls = ", ".join(view.get("base_urls") or ["no server"])
            raise StackError(
                f"{self.settings.options.model} asks {urls} now, not this trainer: another one has changed that; "
                f"give each trainer a stack, or set {PREFIX}POLICY=rows"
            )

    @property
    def _upstreams(self) -> str:
        return f"/admin/models/{quote(self.settings.options.model)}/upstreams"

    def _call(self, method: str, path: str, body: Json | None = None) -> Json:
        headers = {"content-type": "application/json", **bearer(self.settings.token)}
        data = None if body is None else json.dumps(body).encode()
        request = Request(self.settings.url + path, data, headers, method=method)
        try:
            with build_opener(ProxyHandler({})).open(request, timeout=SECONDS) as reply:
                found = json.loads(reply.read())
        except HTTPError as error:
            raise self._refusal(error.code, error.read()) from None
        except (OSError, ValueError) as error:
            what = f"no stack answers at {self.settings.url}: {getattr(error, 'reason', error)}"
            raise StackError(f"{what}; start it with `gym up`, or set {PREFIX}URL to what `gym ps` shows") from None
        return found if isinstance(found, dict) else {}

    def _refusal(self, status: int, body: bytes) -> StackError:
        url = self.settings.url
        if status in (401, 403):
            given = "refuses this token" if self.settings.token else "asks for a token"
            return StackError(f"{url} {given}: {TOKEN_HINT}")
        return StackError(f"{url} answered {status}: {said_in(body)}")


def bearer(token: str) -> dict[str, str]:
    return {"authorization": f"Bearer {token}"} if token else {}


def said_in(body: bytes) -> str:
    """The message of an error reply, of any server."""
    text = body[:2000].decode("utf-8", "replace").strip()
    try:
        error = json.loads(body).get("error") or text
    except (ValueError, AttributeError):
        error = text
    said = error.get("message") or text if isinstance(error, dict) else error
    return "; ".join(str(said).splitlines())


def _is_same(view: Json, pushed: Json) -> bool:
    """Versions restart when addresses are taken back, so they alone do not say whose they are."""
    return all(view.get(name) == pushed.get(name) for name in ("version", "base_urls", "model"))


def _is_down(server: Json) -> bool:
    """Not merely slow to answer: every replica refuses connections."""
    replicas = server.get("replicas") or ()
    return server.get("state") == "down" and all(one.get("state") == "down" for one in replicas)


_started: dict[int, RunningStack] = {}  # by the port of the head server that the trainer believes in


def remember(config: Mapping[str, Any], stack: RunningStack) -> None:
    _started[_port_of(config)] = stack


def forget(stack: RunningStack) -> None:
    for port in [port for port, one in _started.items() if one is stack]:
        del _started[port]


def find_stack(head: BaseServerConfig | None) -> RunningStack:
    """What `RunHelper.start` found in this process; else what the environment or this address says."""
    if head is not None and head.port in _started:
        return _started[head.port]
    if head is None and _started:
        return next(reversed(_started.values()))
    address = {} if head is None else {HEAD_SERVER_KEY_NAME: {"host": head.host, "port": head.port}}
    return RunningStack(read_settings(address, os.environ))


def _port_of(config: Mapping[str, Any]) -> int:
    return int((config.get(HEAD_SERVER_KEY_NAME) or {}).get("port") or 0)
