"""Runs the broker until SIGTERM; what it made goes while the requests in flight end, not after them."""

from __future__ import annotations

import asyncio
import functools
import os
import signal
import socket
from collections.abc import Mapping
from pathlib import Path

import uvicorn

from gym import labels
from gym.broker import lifecycle
from gym.broker.app import App
from gym.broker.audit_log import Audit
from gym.broker.config import BrokerConfig, read_config
from gym.broker.console_notes import ConsoleNotes
from gym.broker.container_restarts import ContainerRestarter
from gym.broker.grant_check import check_spec
from gym.broker.provider import EgressGate, Provider
from gym.broker.providers.factory import STATE, make_provider
from gym.broker.service import Broker, Policy
from gym.http.tracing import start_tracing, stop_tracing
from gym.http.websocket import WebSocketProtocol
from gym.server import serve
from gym.server.config import Settings, read_settings
from gym.server.refusing import Rules
from gym.wire.sandbox import Grant, SandboxSpec


def run(environ: Mapping[str, str] = os.environ) -> None:
    config = read_config(environ)
    folder = Path(environ[labels.ENV_SANDBOX_CONFIG]).parent
    audit = Audit(config.settings.audit)
    gate = make_gate(config, audit)
    provider = make_provider(config.provider, folder, config.settings.options, gate=gate)
    broker = make_broker(config, provider, audit)
    tell = broker.audit.note
    if environ.get(labels.ENV_NOTES):
        notes = ConsoleNotes(Path(environ[labels.ENV_NOTES]), tell)
        broker.background["notes"] = functools.partial(notes.run, broker)
        tell = notes.tell
    if environ.get(labels.ENV_WANTED) and broker.provider.name == "docker":
        starter = ContainerRestarter(config.stack, Path(environ[labels.ENV_WANTED]), folder / STATE, tell)
        broker.background["starter"] = starter.run
    own = read_settings(environ)
    signal.signal(signal.SIGUSR1, lambda *_: broker.leave_to_next())  # how a runtime says that another one follows
    settings = Settings(name="sandbox", listen=own.listen, drain_seconds=own.drain_seconds)
    rules = Rules(tokens=True)  # files come as they are, and a token with each
    make = functools.partial(BrokerServer, broker=broker)
    tracer = start_tracing(own.telemetry, settings.name)
    try:
        serve.run_app(App(broker), settings, ws=WebSocketProtocol, make_server=make, rules=rules)
    finally:
        stop_tracing(tracer)


def make_gate(config: BrokerConfig, audit: Audit) -> EgressGate | None:
    """None where no grant lets sandboxes `allow` hosts: then nothing of the gate is even loaded."""
    if not any("allow" in access.grant.network for access in config.instances.values()):
        return None
    from gym.broker.egress.gate import RelayEgressGate  # noqa: PLC0415

    return RelayEgressGate(config.settings.egress, note=audit.note)


def make_broker(config: BrokerConfig, provider: Provider, audit: Audit) -> Broker:
    return Broker(config, provider, policy_of(provider), audit)


def policy_of(provider: Provider) -> Policy:
    """Where images are an engine's, their full names go on; elsewhere the name that was asked for is the name."""
    if provider.name in ("docker", "kubernetes"):
        return check_spec

    def check_plain(spec: SandboxSpec, grant: Grant) -> SandboxSpec:
        return check_spec(spec, grant).model_copy(update={"image": spec.image})

    return check_plain


class BrokerServer(serve.DrainingServer):
    def __init__(self, config: uvicorn.Config, broker: Broker) -> None:
        super().__init__(config)
        self._broker = broker

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        await asyncio.gather(super().shutdown(sockets), lifecycle.stop(self._broker))
