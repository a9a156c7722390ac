"""`/admin/models/NAME/upstreams`: where a model finds its provider, said and changed while the stack runs.

What is said is a file that only the console writes and only that model's replicas read, so it outlives both.
"""

from __future__ import annotations

import asyncio
import difflib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson
from pydantic import AliasChoices, ConfigDict, Field, ValidationError

from gym.console.discovery_sources import DiscoverySources
from gym.console.probes import Probe, Prober
from gym.errors import InfraError, UserError
from gym.files import read_document, write_atomically
from gym.render.host_urls import rewrite_urls
from gym.wire.discovery import ReplicaView
from gym.wire.upstream_file import FILE, Upstreams

MAX_BYTES = 1 << 20
CONFIRM_SECONDS, LOOK_SECONDS = 5.0, 0.1
NAMES = {
    "base_urls": ("base_urls", "base_url", "policy_base_url"),
    "api_key": ("api_key", "policy_api_key"),
    "model": ("model", "policy_model_name"),
    "headers": ("headers",),
}


class AddressesRequest(Upstreams):
    """What a trainer may say, under its own names as well."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    base_urls: tuple[str, ...] = Field(min_length=1, validation_alias=AliasChoices(*NAMES["base_urls"]))
    api_key: str = Field(default="", repr=False, validation_alias=AliasChoices(*NAMES["api_key"]))
    model: str = Field(default="", validation_alias=AliasChoices(*NAMES["model"]))


@dataclass(frozen=True)
class UpstreamAdmin:
    """`folder` holds one folder for each model; None where the runtime gave none. `contained`: we are a container."""

    sources: DiscoverySources
    prober: Prober
    folder: Path | None = None
    contained: bool = False

    async def show(self, name: str) -> dict[str, Any]:
        """Without keys."""
        return self._view(name, self._read(name), await self._ask(name))

    async def put(self, name: str, body: bytes) -> dict[str, Any]:
        """Every replica has heard of it when this returns, or `reached` is false."""
        path = self._path(name)
        order = parse_order(body)
        if deaf := [id for id, probe in (await self._ask(name)).items() if probe.ok and not _hears(probe)]:
            kind = self.sources.config().servers[name].implementation
            what = f"{deaf[0]} takes no addresses at run time ({name} is a {kind} model)"
            raise UserError(what, "openai and vllm_model do: gym up ... --model vllm_model")
        earlier = self._read(name)
        wanted = Upstreams(
            version=earlier.version + 1 if earlier else 1,
            base_urls=tuple(rewrite_urls(list(order.base_urls))) if self.contained else order.base_urls,
            api_key=order.api_key,
            model=order.model,
            headers=order.headers,
        )
        try:
            write_atomically(path, wanted.model_dump_json(), durable=True)
        except OSError as error:
            raise InfraError(f"the addresses could not be written: {error.strerror}", "free some space") from error
        return await self._confirm(name, wanted)

    async def delete(self, name: str) -> dict[str, Any]:
        """Back to what is configured."""
        self._path(name).unlink(missing_ok=True)
        return await self._confirm(name, None)

    async def _confirm(self, name: str, wanted: Upstreams | None) -> dict[str, Any]:
        deadline = asyncio.get_running_loop().time() + CONFIRM_SECONDS
        while True:
            view = self._view(name, wanted, await self._ask(name))
            if view["reached"] or asyncio.get_running_loop().time() > deadline:
                return view
            await asyncio.sleep(LOOK_SECONDS)

    async def _ask(self, name: str) -> Mapping[str, Probe]:
        found = (await self.sources.discovery()).instances.get(name)
        replicas: tuple[ReplicaView, ...] = found.replicas if found else ()
        return await self.prober.ask(replicas)

    def _path(self, name: str) -> Path:
        facts = self.sources.config().servers
        models = sorted(one for one, fact in facts.items() if fact.type == "responses_api_models")
        if name not in models:
            near = difflib.get_close_matches(name, models, n=1)
            hint = f"did you mean {near[0]}?" if near else f"models are: {', '.join(models) or 'none'}"
            raise UserError(f"there is no model {name!r} in this stack", hint)
        if self.folder is None or not facts[name].slug:
            raise UserError("this stack cannot take addresses while it runs", "start it with `gym up`")
        return self.folder / facts[name].slug / FILE

    def _read(self, name: str) -> Upstreams | None:
        return read_document(Upstreams, self._path(name))

    def _view(self, name: str, wanted: Upstreams | None, probes: Mapping[str, Probe]) -> dict[str, Any]:
        version = wanted.version if wanted else 0
        heard = {id: dict(probe.health.get("upstream") or {}) for id, probe in probes.items() if probe.ok}
        down = [id for id, probe in probes.items() if not probe.ok]
        return {
            "name": name,
            "source": "run time" if wanted else "configuration",
            "version": version,
            "base_urls": list(wanted.base_urls)
            if wanted
            else next((one.get("urls", []) for one in heard.values()), []),
            "model": wanted.model if wanted else "",
            "has_key": bool(wanted and wanted.api_key),
            "reached": all(one.get("version") == version for one in heard.values()),
            "replicas": heard | {id: {"state": "not running: it hears of them when it starts"} for id in down},
        }


def parse_order(body: bytes) -> AddressesRequest:
    """Whatever is wrong is said without the values: one of them is a key."""
    try:
        fields = orjson.loads(body)
    except orjson.JSONDecodeError as error:
        raise UserError(f"the body is not JSON: {error}", 'send {"base_urls": ["http://HOST:8000/v1"]}') from None
    if not isinstance(fields, dict):
        raise UserError("the body is not an object", 'send {"base_urls": ["http://HOST:8000/v1"]}')
    known = [name for names in NAMES.values() for name in names]
    for key in fields:
        if key not in known:
            near = difflib.get_close_matches(key, known, n=1)
            hint = f"did you mean {near[0]}?" if near else f"there are: {', '.join(NAMES)}"
            raise UserError(f"there is no key {key!r}", hint)
    try:
        return AddressesRequest.model_validate(fields)
    except ValidationError as error:
        first = error.errors()[0]
        raise UserError(f"{'.'.join(map(str, first['loc']))}: {first['msg']}", "nothing was changed") from None


def _hears(probe: Probe) -> bool:
    return "version" in (probe.health.get("upstream") or {})
