"""Plan and discovery -> the router's two files: a static one, read once, and a dynamic one, read at every change.

Neither holds a secret: who may come in from wider than loopback is asked of the console (`/auth`).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any
from urllib.parse import quote

from gym import labels
from gym.plan.model import Plan, Service
from gym.plan.slugs import path_segment, server_path
from gym.render.foreign import SAME_ORIGIN, WITH_ORIGIN, known_hosts, refusing_middlewares, refusing_routers
from gym.render.yaml_text import to_yaml
from gym.wire.discovery import Discovery, ReplicaView
from gym.wire.telemetry import KEY as TELEMETRY
from gym.wire.telemetry import read_telemetry

Tree = dict[str, Any]

MADE = "Written by gym, do not edit."
OUTSIDE = "outside"
INSIDE = "inside"
CONSOLE = "console"
LOG_FIELDS = (
    "StartUTC",
    "ClientHost",
    "RequestMethod",
    "RequestPath",
    "RequestContentSize",
    "DownstreamStatus",
    "DownstreamContentSize",
    "OriginStatus",
    "Duration",
    "RetryAttempts",
    "RouterName",
    "ServiceURL",
    "entryPointName",
)
# Seconds, as servers count them themselves: by default the first ends at 100 ms and the last at 5 s.
BUCKETS = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0)
# A replica that refuses leaves within three seconds; one that is busy may keep silent for as long and stays.
HEALTH_CHECK = {"path": "/healthz", "interval": "3s", "unhealthyInterval": "1s", "timeout": "2900ms"}
# Only a connection that failed is retried, never what was sent. Each try takes the next replica: with one of
# two replicas dead and others asking in between, ten tries all meet the dead one once in a thousand times.
NO_PAGES = "no-pages"
RETRY = {"attempts": 10, "initialInterval": "20ms"}
# Our own servers refuse names that are not theirs. By what name the client came stands in X-Forwarded-Host.
OWN_HOST = {"passHostHeader": False}
NO_SPANS: Tree = {"observability": {"tracing": False}}  # pages and polls of the stack itself are not part of a rollout
# Traefik matches on a path in which everything is decoded but the reserved characters of RFC 3986.
RESERVED = ":/?#[]@!$&'()*+,;=%"
RAW_IN_SEGMENT = ":@!$&'()*+,="  # reserved, yet a client may send them as they are


def traefik_static(
    plan: Plan, *, directory: str, outside: str = "", inside: str = "", access_log: str = "", level: str = "WARN"
) -> str:
    """`outside` and `inside` are addresses of entry points; with an inherited socket only the name matters.

    `access_log` is a path, or "" for standard output.
    """
    router = plan.router
    entry_points = {OUTSIDE: _entry_point(outside or f"{router.host}:{router.port}", plan)}
    if inside:
        entry_points[INSIDE] = _entry_point(inside, plan)
    document: Tree = {
        "global": {"checkNewVersion": False, "sendAnonymousUsage": False},
        "entryPoints": entry_points,
        "providers": {
            "providersThrottleDuration": "100ms",  # two seconds by default: a new replica would wait that long
            "file": {"directory": directory, "watch": True},
        },
        "metrics": {"prometheus": {"manualRouting": True, "addRoutersLabels": True, "buckets": [*BUCKETS]}},
        **_tracing(plan),
        "accessLog": _access_log(access_log),
        "log": {"level": level, "noColor": True},
    }
    return to_yaml(document, f"Router of the stack {plan.stack}: what it reads once, at its start. {MADE}")


def traefik_dynamic(
    plan: Plan,
    discovery: Discovery,
    *,
    console: str,
    entry_points: Sequence[str] = (OUTSIDE,),
    names: Sequence[str] = (),
) -> str:
    """`console` is its URL; `entry_points` those of the static file; `names` the router's own inside the stack."""
    services = {CONSOLE: _console_service(console)}
    middlewares: Tree = {"retry": {"retry": RETRY}, **refusing_middlewares(console)}
    if INSIDE in entry_points:
        middlewares[NO_PAGES] = {"replacePath": {"path": "/refused/inside"}}
    if plan.router.needs_token:
        middlewares |= _guards(console)
    routers: Tree = {}
    for service in plan.services:
        replicas = _healthy(discovery, service)
        routers |= _routers(service, plan, entry_points, up=bool(replicas))
        if replicas:
            middlewares[f"strip-{service.slug}"] = {"stripPrefix": {"prefixes": _plain_prefixes(service)}}
            services[service.slug] = _balancer(service, replicas)
        for replica in (one for one in replicas if one.route):
            middlewares[_strip_name(replica)] = {"stripPrefix": {"prefixes": [replica.route]}}
            services[_replica_name(replica)] = _server(service, replica)
            routers |= _replica_routers(replica, plan)
    for entry_point in entry_points:
        routers |= _own_routers(plan, entry_point) | _refusing_routers(plan, entry_point, names)
    document: Tree = {
        "http": {
            "routers": routers,
            "middlewares": middlewares,
            "services": services,
            "serversTransports": _transports(),
        }
    }
    return to_yaml(document, f"Router of the stack {plan.stack}: generation {discovery.generation}. {MADE}")


def route_prefix(service: Service) -> str:
    """`/s/mcqa`: what a client puts between the router's address and a path of the instance."""
    return server_path(service.name, service.slug)


def _tracing(plan: Plan) -> Tree:
    """Its spans lie between those of the caller and of the server."""
    url = read_telemetry(plan.settings.get(TELEMETRY), {}).traces_url
    return {"tracing": {"serviceName": "router", "otlp": {"http": {"endpoint": url}}}} if url else {}


def _entry_point(address: str, plan: Plan) -> Tree:
    return {
        "address": address,
        "transport": {
            # Rollouts take as long as they take: their callers carry a deadline, the router has none.
            "respondingTimeouts": {"readTimeout": "0s", "writeTimeout": "0s", "idleTimeout": "600s"},
            "lifeCycle": {"graceTimeOut": f"{plan.drain_seconds:g}s"},
        },
    }


def _access_log(path: str) -> Tree:
    fields = {
        "defaultMode": "drop",
        "names": dict.fromkeys(LOG_FIELDS, "keep"),
        "headers": {"defaultMode": "drop", "names": {"X-Gym-Rollout-Id": "keep", "Authorization": "drop"}},
    }
    target = {"filePath": path} if path else {}
    return {**target, "format": "json", "fields": fields}


def _routers(service: Service, plan: Plan, entry_points: Iterable[str], *, up: bool) -> Tree:
    """An instance without a healthy replica is the console's: it answers 503 in the words of the contract."""
    routers: Tree = {}
    for entry_point in entry_points:
        name, guards, rule = _router_name(service.slug, entry_point), _guard_names(plan, entry_point), _rule(service)
        if up:
            own = [*guards, f"strip-{service.slug}", "retry"]
            routers |= _both(name, _router(entry_point, rule, own, service.slug))
        else:
            routers[name] = _router(entry_point, rule, guards, CONSOLE)
    return routers


def _replica_routers(replica: ReplicaView, plan: Plan) -> Tree:
    """For callers from outside: the servers of a stack find one another without the router."""
    rule = f"PathPrefix(`{replica.route}/`)"
    own = [*_guard_names(plan, OUTSIDE), _strip_name(replica), "retry"]
    return _both(_replica_name(replica), _router(OUTSIDE, rule, own, _replica_name(replica)))


def _replica_name(replica: ReplicaView) -> str:
    return f"replica-{replica.id}.one"  # no slug has a dot


def _strip_name(replica: ReplicaView) -> str:
    return f"strip-{_replica_name(replica)}"


def _own_routers(plan: Plan, entry_point: str) -> Tree:
    guards = _guard_names(plan, entry_point)
    metrics = _router(entry_point, "Path(`/metrics`)", guards, "prometheus@internal") | NO_SPANS
    front = _router(entry_point, "PathPrefix(`/`)", guards, CONSOLE) | NO_SPANS  # refuses foreign origins by itself
    # The console asks for the token itself, at the inside entry point too: it must not be hidden from it.
    asked = _router(entry_point, "PathPrefix(`/admin/`)", [], CONSOLE) | NO_SPANS
    admin = {_router_name("gym-admin", entry_point): asked}
    # Pages show rollouts, and with them what verifiers expect: no server of the stack gets to see them.
    closed = _router(entry_point, "PathPrefix(`/view`)", [NO_PAGES], CONSOLE) | NO_SPANS
    pages = {_router_name("gym-pages", entry_point): closed}
    return {
        **(admin if plan.router.needs_token else {}),
        **(pages if entry_point == INSIDE else {}),
        **_both(_router_name("gym-metrics", entry_point), metrics),
        _router_name("gym-console", entry_point): {**front, "priority": 1},
    }


def _refusing_routers(plan: Plan, entry_point: str, names: Sequence[str]) -> Tree:
    wide = plan.router.needs_token and entry_point == OUTSIDE
    hosts = "" if wide else known_hosts(loopback=entry_point == OUTSIDE, names=names)
    return refusing_routers(entry_point, _router_name("", entry_point), CONSOLE, hosts=hosts)


def _both(name: str, router: Tree) -> Tree:
    """The same for programs, and for browsers: what carries an Origin is asked about first."""
    checked = {
        "rule": f"{WITH_ORIGIN} && ({router['rule']})",
        "middlewares": [SAME_ORIGIN, *router.get("middlewares", ())],
    }
    return {name: router, f"{name}.origin": {**router, **checked}}


def _router(entry_point: str, rule: str, middlewares: Sequence[str], service: str) -> Tree:
    own = {"middlewares": [*middlewares]} if middlewares else {}
    return {"entryPoints": [entry_point], "rule": rule, **own, "service": service}


def _router_name(slug: str, entry_point: str) -> str:
    return slug if entry_point == OUTSIDE else f"{slug}.{entry_point}"


def _guard_names(plan: Plan, entry_point: str) -> list[str]:
    return ["auth", "hide-token"] if plan.router.needs_token and entry_point == OUTSIDE else []


def _guards(console: str) -> Tree:
    return {
        "auth": {
            "forwardAuth": {
                "address": f"{console}/auth",
                "trustForwardHeader": False,
                "authRequestHeaders": ["Authorization"],
                "maxResponseBodySize": 65536,
            }
        },
        # The token is between a client and the router; no server has to see it.
        "hide-token": {"headers": {"customRequestHeaders": {"Authorization": ""}}},
    }


def _rule(service: Service) -> str:
    segments = dict.fromkeys((_routing_segment(service), _routing_segment(service, RAW_IN_SEGMENT)))
    paths = [f"{labels.SERVER_PREFIX}{segment}" for segment in segments]
    return " || ".join(f"PathPrefix(`{path}/`) || Path(`{path}`)" for path in paths)


def _routing_segment(service: Service, raw: str = "") -> str:
    if path_segment(service.name, service.slug) != quote(service.name, safe=""):
        return service.slug
    return "".join(quote(one, safe=raw) if one in RESERVED else one for one in service.name)


def _plain_prefixes(service: Service) -> list[str]:
    """What is stripped is looked for in the decoded path."""
    named = path_segment(service.name, service.slug) == quote(service.name, safe="")
    return [labels.SERVER_PREFIX + (service.name if named else service.slug)]


def _balancer(service: Service, replicas: Sequence[ReplicaView]) -> Tree:
    balancer: Tree = {
        # By turns. Power of two choices counts what is in flight, so a replica that refuses connections looks idle: of
        # two replicas it would get every try until a health check finds it. Least-time prefers what fails fastest.
        "strategy": "wrr",
        "servers": [{"url": one.url} for one in replicas],
        "sticky": {"cookie": _sticky_cookie(service)},
        **_way(service),
    }
    # No responseForwarding: event streams and chunked replies are flushed at once without it. With flushInterval -1ms
    # Traefik 3.7.15 cut one in a hundred replies to requests that it had retried.
    if service.launch == "sdk":
        balancer["healthCheck"] = HEALTH_CHECK
    return {"loadBalancer": balancer}


def _server(service: Service, replica: ReplicaView) -> Tree:
    """Unlike the balancer it checks no health: a caller that finds it dead sees an error at once, and takes another."""
    return {"loadBalancer": {"servers": [{"url": replica.url}], **_way(service)}}


def _way(service: Service) -> Tree:
    return {"serversTransport": "known", **OWN_HOST} if service.launch == "sdk" else {"serversTransport": "unknown"}


def _sticky_cookie(service: Service) -> Tree:
    return {
        "name": labels.COOKIE_REPLICA + service.slug,
        "path": route_prefix(service),
        "httpOnly": True,
        "sameSite": "lax",
    }


def _console_service(url: str) -> Tree:
    return {"loadBalancer": {"servers": [{"url": url}], "serversTransport": "known", **OWN_HOST}}


def _transports() -> Tree:
    """An idle connection is closed here before the server closes it, or a request could meet the closing: SDK servers
    keep theirs 75 s, foreign images may do with uvicorn's 5 s."""
    common = {"maxIdleConnsPerHost": 4096}
    timeouts = {"dialTimeout": "5s", "responseHeaderTimeout": "0s"}
    return {
        "known": {**common, "forwardingTimeouts": {**timeouts, "idleConnTimeout": "60s"}},
        "unknown": {**common, "forwardingTimeouts": {**timeouts, "idleConnTimeout": "3s"}},
    }


def _healthy(discovery: Discovery, service: Service) -> list[ReplicaView]:
    view = discovery.instances.get(service.name)
    return [one for one in view.replicas if one.healthy] if view else []
