"""Who may talk to whom, by the plan's own needs: everything else is refused. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from gym import labels
from gym.plan.model import Plan, Service
from gym.render.kubernetes.cluster_facts import OUTSIDE_PORT, KubernetesFacts, host_of
from gym.render.kubernetes.manifest_parts import COMPONENT, INSTANCE, Tree, named, selected
from gym.wire.stack_names import CONSOLE, PORT, ROUTER, SANDBOX, label_value
from gym.wire.telemetry import KEY as TELEMETRY
from gym.wire.telemetry import read_telemetry

API: Final = "networking.k8s.io/v1"
NODE_NAMES: Final = "169.254.20.10/32"  # of a cluster whose nodes keep names of their own
COLLECTOR: Final = "collector"
ANYWHERE: Final = ({"ipBlock": {"cidr": "0.0.0.0/0"}}, {"ipBlock": {"cidr": "::/0"}})
# Of a sandbox's internet, what is none: the cluster, the networks around it, where clouds hand out credentials.
NEAR: Final = ("10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "100.64.0.0/10", "169.254.0.0/16", "127.0.0.0/8")
NEAR_6: Final = ("fc00::/7", "fe80::/10", "::1/128")


def policies(plan: Plan, facts: KubernetesFacts) -> list[Tree]:
    found = [_deny_all(plan, facts.namespace), _names(plan, facts.namespace)]
    found += [_server(plan, one, facts) for one in plan.services]
    found += [_sidecar(plan, one.slug, one.instance_slug, one.spec.port, facts) for one in plan.sidecars]
    found += [_router(plan, facts), _console(plan, facts), _collector(plan, facts)]
    if plan.sandbox:
        found += [_broker(plan, facts), _deny_all(plan, facts.sandboxes), _sandbox_internet(plan, facts)]
    return found


def _server(plan: Plan, service: Service, facts: KubernetesFacts) -> Tree:
    callers = [host_of(one.slug) for one in plan.services if service.name in one.needs and one.launch == "sdk"]
    own = [(host_of(one.slug), PORT) for one in plan.services if one.name in service.needs and service.launch == "sdk"]
    beside = [(host_of(one.slug), one.spec.port) for one in plan.sidecars_of(service.name)]
    broker = [(SANDBOX, PORT)] if service.sandbox else []
    egress = [_to(plan, name, port) for name, port in (*own, *beside, *broker, (ROUTER, labels.ROUTER_PORT))]
    if service.type == "responses_api_models":  # its provider may be anywhere, in the cluster too
        egress.append({})
    else:
        egress += _traces(plan)
    agents = service.type == "responses_api_agents"
    return _policy(
        plan,
        host_of(service.slug),
        facts.namespace,
        ingress=[_from(plan, [ROUTER, CONSOLE, *callers, *([COLLECTOR] if agents else [])], PORT)],
        egress=egress,
    )


def _sidecar(plan: Plan, slug: str, instance: str, port: int, facts: KubernetesFacts) -> Tree:
    name = host_of(slug)
    return _policy(plan, name, facts.namespace, ingress=[_from(plan, [host_of(instance)], port)], egress=[])


def _router(plan: Plan, facts: KubernetesFacts) -> Tree:
    """Servers come in by the inside port, where no page is shown; by the outside one who is let in by label."""
    label = {"matchLabels": {labels.MAY_ENTER: "true"}}
    outside = [
        {"podSelector": label},
        {"namespaceSelector": label},
        {"podSelector": {"matchLabels": selected(plan, COLLECTOR)}},
    ]
    inside = {"podSelector": {"matchLabels": {INSTANCE: label_value(plan.stack)}}}
    servers = [host_of(one.slug) for one in plan.services]
    return _policy(
        plan,
        ROUTER,
        facts.namespace,
        ingress=[
            {"from": [inside], "ports": [_port(labels.ROUTER_PORT)]},
            {"from": outside, "ports": [_port(OUTSIDE_PORT)]},
        ],
        egress=[*(_to(plan, name, PORT) for name in (*servers, CONSOLE)), *_traces(plan)],
    )


def _console(plan: Plan, facts: KubernetesFacts) -> Tree:
    """Its pages show what verifiers expect: no server reaches them but through the router, which refuses."""
    egress = [_to(plan, host_of(one.slug), PORT) for one in plan.services]
    return _policy(plan, CONSOLE, facts.namespace, ingress=[_from(plan, [ROUTER], PORT)], egress=egress)


def _collector(plan: Plan, facts: KubernetesFacts) -> Tree:
    agents = [host_of(one.slug) for one in plan.services if one.type == "responses_api_agents"]
    egress = [_to(plan, ROUTER, OUTSIDE_PORT), *(_to(plan, name, PORT) for name in agents)]
    return _policy(plan, COLLECTOR, facts.namespace, ingress=[], egress=egress)


def _broker(plan: Plan, facts: KubernetesFacts) -> Tree:
    """The API server is at an address that no manifest knows; as a gate it leads to the hosts that grants name."""
    assert plan.sandbox is not None
    granted = [host_of(one.slug) for one in plan.services if one.sandbox]
    gate = any("allow" in grant.network for grant in plan.sandbox.grants.values())
    ports = [] if gate else [_port(443), _port(6443)]
    return _policy(
        plan,
        SANDBOX,
        facts.namespace,
        ingress=[_from(plan, granted, PORT)],
        egress=[{"to": [*ANYWHERE], **({"ports": ports} if ports else {})}],
    )


def _sandbox_internet(plan: Plan, facts: KubernetesFacts) -> Tree:
    found = named("NetworkPolicy", "sandboxes-internet", plan, facts.sandboxes, SANDBOX, API)
    out = [
        {"ipBlock": {"cidr": "0.0.0.0/0", "except": [*NEAR]}},
        {"ipBlock": {"cidr": "::/0", "except": [*NEAR_6[:2]]}},
    ]
    found["spec"] = {
        "podSelector": {"matchLabels": {labels.SANDBOX_NETWORK: "internet"}},
        "policyTypes": ["Egress"],
        "egress": [{"to": out}],
    }
    return found


def _deny_all(plan: Plan, namespace: str) -> Tree:
    found = named("NetworkPolicy", "deny-all", plan, namespace, "policy", API)
    return found | {"spec": {"podSelector": {}, "policyTypes": ["Ingress", "Egress"]}}


def _names(plan: Plan, namespace: str) -> Tree:
    """The cluster's name servers, wherever they are."""
    found = named("NetworkPolicy", "name-servers", plan, namespace, "policy", API)
    ports = [{"protocol": kind, "port": 53} for kind in ("UDP", "TCP")]
    found["spec"] = {
        "podSelector": {"matchExpressions": [{"key": COMPONENT, "operator": "NotIn", "values": ["service"]}]},
        "policyTypes": ["Egress"],
        "egress": [{"to": [{"namespaceSelector": {}}, {"ipBlock": {"cidr": NODE_NAMES}}], "ports": ports}],
    }
    return found


def _traces(plan: Plan) -> list[Tree]:
    """The collector of traces may be anywhere; the port is its own."""
    url = read_telemetry(plan.settings.get(TELEMETRY), {}).traces_url
    if not url:
        return []
    port = url.partition("://")[2].partition("/")[0].rpartition(":")[2]
    return [{"to": [*ANYWHERE], "ports": [_port(int(port) if port.isdigit() else 443)]}]


def _policy(plan: Plan, name: str, namespace: str, *, ingress: Sequence[Tree], egress: Sequence[Tree]) -> Tree:
    found = named("NetworkPolicy", name, plan, namespace, "policy", API)
    found["spec"] = {
        "podSelector": {"matchLabels": selected(plan, name)},
        "policyTypes": ["Ingress", "Egress"],
        "ingress": [*ingress],
        "egress": [*egress],
    }
    return found


def _from(plan: Plan, names: Iterable[str], port: int) -> Tree:
    peers = [{"podSelector": {"matchLabels": selected(plan, name)}} for name in dict.fromkeys(names)]
    return {"from": peers, "ports": [_port(port)]}


def _to(plan: Plan, name: str, port: int) -> Tree:
    return {"to": [{"podSelector": {"matchLabels": selected(plan, name)}}], "ports": [_port(port)]}


def _port(port: int) -> Tree:
    return {"protocol": "TCP", "port": port}
