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
from gym.sandbox.broker import keeper
from gym.sandbox.broker.app import App
from gym.sandbox.broker.audit import Audit
from gym.sandbox.broker.config import BrokerConfig, read_config
from gym.sandbox.broker.service import Broker, Policy
from gym.sandbox.broker.websocket import WebSocketProtocol
from gym.sandbox.docker.starter import Starter
from gym.sandbox.egress.gate import Gate
from gym.sandbox.factory import STATE, make_provider
from gym.sandbox.policy import check_spec
from gym.sandbox.provider import Provider
from gym.server import serve
from gym.server.config import Settings, read_settings
from gym.server.refusing import Rules
from gym.wire.sandbox import Grant, SandboxSpec


def run(environ: Mapping[str, str] = os.environ) -> None:
    config = read_config(environ)
    folder = Path(environ[labels.ENV_SANDBOX_CONFIG]).parent
    gate, options = Gate(config.settings.egress), config.settings.options
    broker = make_broker(config, make_provider(config.provider, folder, options, stack=config.stack, gate=gate))
    gate.note = broker.audit.note
    if environ.get(labels.ENV_WANTED) and broker.provider.name == "docker":
        starter = Starter(config.stack, Path(environ[labels.ENV_WANTED]), folder / STATE, broker.audit.note)
        broker.beside["starter"] = starter.run
    told = read_settings(environ)
    signal.signal(signal.SIGUSR1, lambda *_: broker.leave_to_next())  # how a runtime says that another one follows
    settings = Settings(name="sandbox", listen=told.listen, drain_seconds=told.drain_seconds)
    rules = Rules(tokens=True)  # files come as they are, and a token with each
    make = functools.partial(BrokerServer, broker=broker)
    serve.run_app(App(broker), settings, ws=WebSocketProtocol, make_server=make, rules=rules)


def make_broker(config: BrokerConfig, provider: Provider) -> Broker:
    return Broker(config, provider, policy_of(provider), Audit(config.settings.audit))


def policy_of(provider: Provider) -> Policy:
    """Where images are an engine's, their full names go on; elsewhere the name that was asked for is the name."""
    if provider.name == "docker":
        return check_spec

    def check_plain(spec: SandboxSpec, grant: Grant) -> SandboxSpec:
        return check_spec(spec, grant).model_copy(update={"image": spec.image})

    return check_plain


class BrokerServer(serve.DrainingServer):
    def __init__(self, config: uvicorn.Config, broker: Broker) -> None:
        super().__init__(config)
        self._broker = broker

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        await asyncio.gather(super().shutdown(sockets), keeper.stop(self._broker))
