"""What the console answers, as plain data: live servers, and a NeMo Gym head server's two documents. Pure."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from typing import Any
from urllib.parse import quote, urlsplit

from gym import labels
from gym.config.redaction import redact
from gym.console.discovery_sources import ConsoleConfig, ServerFacts
from gym.console.origin import Origin
from gym.console.probes import Probe
from gym.wire.discovery import Discovery, InstanceView, ReplicaView
from gym.wire.failures import RolloutError
from gym.wire.server_types import AGENTS, KINDS

NOT_ASKED = Probe("unknown_error", "not asked yet")


def held_view(discovery: Discovery, probes: Mapping[str, Probe]) -> list[dict[str, Any]]:
    """`/held`: the model servers that may not ask their providers more at once, and how many calls wait for it.

    Some were refused lately; where none was, as many are under way as the configuration allows.
    """
    found = []
    for name, one in discovery.instances.items():
        upstreams = [probes.get(each.id, NOT_ASKED).health.get("upstream") for each in one.replicas]
        refusals = [each for each in upstreams if isinstance(each, Mapping) and "throttled" in each]
        waiting, refused = _sum(refusals, "waiting"), _sum(refusals, "refused_lately")
        if waiting or refused:
            provider = ", ".join(dict.fromkeys(_host(url) for each in refusals for url in each.get("urls", ())))
            seconds = _sum(refusals[:1], "lately_seconds")
            entry = {"instance": name, "provider": provider, "waiting": waiting, "refused": refused}
            found.append({**entry, "seconds": seconds})
    return found


def _sum(upstreams: Iterable[Mapping[str, Any]], key: str) -> int:
    return sum(value for one in upstreams if isinstance(value := one.get(key), int))


def _host(url: object) -> str:
    try:
        return urlsplit(str(url)).netloc
    except ValueError:
        return ""


def prefix_of(name: str, config: ConsoleConfig) -> str:
    return config.servers[name].prefix if name in config.servers else labels.SERVER_PREFIX + quote(name, safe="")


def servers_view(
    discovery: Discovery, config: ConsoleConfig, probes: Mapping[str, Probe], origin: Origin
) -> dict[str, Any]:
    """`/servers`: what the page shows and `gym` may ask."""
    servers = [_server_view(name, one, config, probes, origin) for name, one in instances(discovery, config).items()]
    return {
        "stack": discovery.stack or config.stack,
        "generation": discovery.generation,
        "router": origin.url,
        "healthy": sum(one["state"] == "healthy" for one in servers),
        "total": len(servers),
        "servers": servers,
    }


def settings_view(config: ConsoleConfig) -> dict[str, Any]:
    """`/settings`: the fields of every instance, secrets masked, and the digests of what else it is made of."""
    tree = redact(config.config)
    found = {}
    for name, facts in config.servers.items():
        block = tree.get(name)
        by_type = block.get(facts.type) if isinstance(block, Mapping) else None
        fields = by_type.get(facts.implementation) if isinstance(by_type, Mapping) else None
        shown = {key: value for key, value in (fields or {}).items() if key != "entrypoint"}
        found[name] = {"type": facts.type, "fields": shown, "parts": facts.parts}
    return {"instances": found, "telemetry": config.telemetry}


def server_instances_view(
    discovery: Discovery, config: ConsoleConfig, probes: Mapping[str, Probe], origin: Origin, *, now: float
) -> list[dict[str, Any]]:
    """`/server_instances` as a head server lists them, one entry an instance, reached through the router."""
    known = instances(discovery, config)
    return [_head_entry(name, one, config, probes, origin, now) for name, one in known.items()]


def config_yaml(discovery: Discovery, config: ConsoleConfig, origin: Origin) -> str:
    """`/global_config_dict_yaml`: clients build `http://{host}:{port}` and append a path, so the port holds the prefix.

    No `entrypoint` is given: clients check blocks that have one, and would refuse this port.
    """
    from gym.render.yaml_text import escape_interpolation, to_yaml  # noqa: PLC0415 (20 ms, for other head servers' clients)

    tree: dict[str, Any] = dict(redact(config.config))
    for name, one in instances(discovery, config).items():
        where = {"host": origin.host, "port": f"{origin.port}{prefix_of(name, config)}"}
        tree[name] = {one.type: {one.implementation: {**_fields(tree.get(name), one), **where}}}
        if one.type == AGENTS:
            # From 0.7 on its clients post /run to an environment server that fronts the agent.
            fronted = {**where, "agent_server": {"type": AGENTS, "name": name}}
            tree.setdefault(f"{name}_env", {"environment_servers": {"legacy_agent": fronted}})
    tree["head_server"] = {"host": origin.host, "port": origin.port}
    return to_yaml(escape_interpolation(tree))


def unreachable(name: str, one: InstanceView, probes: Mapping[str, Probe]) -> RolloutError:
    """The console was asked in the place of an instance that it knows: no instance answers."""
    found = {each.id: probes.get(each.id, NOT_ASKED) for each in one.replicas}
    if healthy := [id for id, probe in found.items() if probe.ok]:
        # Healthy just now: the reconciler will see it too, and there is no reason to give.
        message = f"{name} answers again ({', '.join(healthy[:3])}), and is not routed yet: ask again in a second"
    else:
        said = "; ".join(f"{id}: {probe.detail}" for id, probe in list(found.items())[:3])
        message = f"{name} has no healthy replica ({said or one.state}). See: gym ps, gym logs {name}"
    return RolloutError(KINDS[one.type], message, server=name, retryable=True, status=503)


def unknown_instance(asked: str, known: Iterable[str]) -> dict[str, Any]:
    names = sorted(known)
    near = difflib.get_close_matches(asked, names, n=3, cutoff=0.5)
    meant = f"Did you mean {' or '.join(near)}? " if near else ""
    message = f"no instance is called {asked!r}. {meant}This stack has: {', '.join(names) or 'none'}"
    failure = RolloutError("row", message, server=asked, retryable=False)
    return {"error": failure.to_dict(), "nearest": near, "instances": names}


def instances(discovery: Discovery, config: ConsoleConfig) -> dict[str, InstanceView]:
    """Those of the discovery document in the plan's order, and the planned ones that it does not name yet."""
    planned = {name: discovery.instances.get(name) or _planned(facts) for name, facts in config.servers.items()}
    return planned | {name: one for name, one in discovery.instances.items() if name not in planned}


def _planned(facts: ServerFacts) -> InstanceView:
    return InstanceView(type=facts.type, implementation=facts.implementation, state="starting")


def _server_view(
    name: str, one: InstanceView, config: ConsoleConfig, probes: Mapping[str, Probe], origin: Origin
) -> dict[str, Any]:
    prefix = prefix_of(name, config)
    facts = config.servers.get(name)
    return {
        "name": name,
        "type": one.type,
        "implementation": one.implementation,
        "state": _state(one, probes),
        "url": origin.url + prefix,
        "prefix": prefix,
        "ours": facts is None or facts.launch == "sdk",
        "needs": list(facts.needs) if facts else [],
        "digest": one.digest,
        "replicas": [_replica_view(each, probes.get(each.id, NOT_ASKED)) for each in one.replicas],
    }


def _replica_view(replica: ReplicaView, probe: Probe) -> dict[str, Any]:
    return {
        "id": replica.id,
        "url": replica.url,
        "state": "healthy" if probe.ok else "down" if probe.outcome == "connection_error" else "unhealthy",
        "routed": replica.healthy,
        "detail": probe.detail,
        "milliseconds": probe.milliseconds,
        "health": probe.health,
    }


def _state(one: InstanceView, probes: Mapping[str, Probe]) -> str:
    healthy = sum(probes.get(each.id, NOT_ASKED).ok for each in one.replicas)
    if not one.replicas:
        return one.state if one.state in ("starting", "down") else "stopped"
    if healthy == len(one.replicas):
        return "healthy"
    return "degraded" if healthy else "starting" if one.state == "starting" else "down"


def _head_entry(
    name: str, one: InstanceView, config: ConsoleConfig, probes: Mapping[str, Probe], origin: Origin, now: float
) -> dict[str, Any]:
    prefix = prefix_of(name, config)
    facts = config.servers.get(name)
    found = [probes.get(each.id, NOT_ASKED) for each in one.replicas]
    first = next((each for each in found if each.ok), found[0] if found else Probe("connection_error"))
    started = min((each.started for each in found if each.started), default=now)  # who is not ours does not say
    return {
        "process_name": name,
        "server_type": one.type,
        "name": one.implementation,
        "dir_path": facts.directory if facts else "",
        "entrypoint": facts.entrypoint if facts else "app.py",
        "host": origin.host,
        "port": origin.port,  # clients insist on an integer here; `url` has the prefix
        "url": origin.url + prefix,
        "pid": None,
        "config_path": name,
        "start_time": started,
        "status": first.outcome,
        "uptime_seconds": round(max(now - started, 0.0), 1),
        "replicas": len(one.replicas),
        "healthy_replicas": sum(each.ok for each in found),
    }


def _fields(block: Any, one: InstanceView) -> dict[str, Any]:
    by_type = block.get(one.type) if isinstance(block, Mapping) else None
    fields = by_type.get(one.implementation) if isinstance(by_type, Mapping) else None
    return {key: value for key, value in fields.items() if key != "entrypoint"} if isinstance(fields, Mapping) else {}
