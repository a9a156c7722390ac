"""Tokens of a sandbox broker: made once, readable by the owner alone; the broker gets their digests."""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
from pathlib import Path

import pytest

from gym.engine import SocketFacts, socket_facts
from gym.errors import InfraError
from gym.plan import Plan, SandboxPlan
from gym.plan.model import Service
from gym.runtime.compose.layout import Layout, State, write_stack
from gym.runtime.sandbox_access import (
    BrokerTokens,
    keep_tokens,
    read_tokens,
    write_config,
)
from gym.runtime.sandbox_leftovers import config_path, remove_leftovers
from gym.wire.sandbox import Grant, ProviderName
from tests.support.compose_plans import plan_of, service

GRANT = Grant(images=("python:3.13-slim",))


def broker(*names: str, provider: ProviderName = "auto") -> SandboxPlan:
    return SandboxPlan(provider=provider, settings={"lease": 5}, grants=dict.fromkeys(names, GRANT))


def asking(*services: Service) -> Plan:
    return plan_of(*services, sandbox=broker(*(one.name for one in services)))


def test_a_token_is_made_once_and_lies_where_only_its_owner_reads(tmp_path: Path) -> None:
    first = keep_tokens(tmp_path, broker("a", "b"))
    assert len({first.operator, *first.instances.values()}) == 3
    assert all(len(one) >= 64 for one in first.instances.values())
    assert (tmp_path / "sandbox-tokens.json").stat().st_mode & 0o777 == 0o600
    second = keep_tokens(tmp_path, broker("b", "c"))
    assert (second.operator, second.instances["b"]) == (first.operator, first.instances["b"])
    assert set(second.instances) == {"b", "c"}
    assert read_tokens(tmp_path) == second


def test_tokens_that_cannot_be_read_are_not_tokens(tmp_path: Path) -> None:
    (tmp_path / "sandbox-tokens.json").write_text("{")
    assert read_tokens(tmp_path) is None
    assert len(keep_tokens(tmp_path, broker("a")).instances) == 1


def test_tokens_do_not_show_in_a_log() -> None:
    assert "abc" not in repr(BrokerTokens(operator="abc", instances={"a": "abc"}))


def test_the_broker_gets_digests_of_tokens_and_a_stack_that_is_this_folders_alone(tmp_path: Path) -> None:
    documents = []
    for folder in (tmp_path / "one", tmp_path / "two"):
        plan = asking(service("coder"))
        assert plan.sandbox is not None
        tokens = keep_tokens(folder, plan.sandbox)
        write_config(folder, plan, tokens, mode=0o600)
        text = config_path(folder).read_text()
        assert tokens.operator not in text
        assert tokens.instances["coder"] not in text
        documents.append(json.loads(text))
        assert documents[-1]["operator_sha256"] == hashlib.sha256(tokens.operator.encode()).hexdigest()
    entry = documents[0]["instances"]["coder"]
    assert len(entry["token_sha256"]) == 64
    assert Grant.model_validate(entry["grant"]) == GRANT
    assert (documents[0]["provider"], documents[0]["settings"]) == ("auto", {"lease": 5})
    assert documents[0]["stack"] != documents[1]["stack"]


def test_without_a_broker_there_is_nothing_to_remove(tmp_path: Path) -> None:
    remove_leftovers(tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_a_compose_stack_has_tokens_as_secrets_and_a_configuration_that_the_broker_can_read(tmp_path: Path) -> None:
    layout = Layout(tmp_path / "home")
    plan = asking(service("coder", sandbox=GRANT))
    state = State(project="gym-demo-1", images={"coder": "gym-coder:1"}, base_image="gym-base:1")
    write_stack(layout, plan, {}, state)
    tokens = read_tokens(layout.home)
    assert tokens is not None
    assert (layout.secrets / "gym-sandbox-coder").read_text() == tokens.instances["coder"]
    assert config_path(layout.home).stat().st_mode & 0o777 == 0o644
    assert config_path(layout.home).parent.stat().st_mode & 0o777 == 0o755
    found = [path for path in layout.home.rglob("*") if path.is_file() and tokens.operator in path.read_text()]
    assert [path.name for path in found] == ["sandbox-tokens.json"]


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere the engine has a machine of its own")
def test_an_engine_without_a_socket_here_cannot_be_given_to_a_broker(tmp_path: Path) -> None:
    with pytest.raises(InfraError, match="has no socket on this machine"):
        socket_facts("tcp://127.0.0.1:2375")
    socket = tmp_path / "docker.sock"
    socket.touch()
    assert socket_facts(f"unix://{socket}") == SocketFacts(str(socket), socket.stat().st_gid)
    assert socket_facts(f"unix://{tmp_path}/gone.sock").group is None


def test_a_broker_needs_nothing_that_an_image_with_the_bare_sdk_has_not() -> None:
    """What `pip install compose-gym` alone leaves out cannot be imported here; the broker starts all the same."""
    script = """
import sys
for name in ("jinja2", "docker", "typer", "rich", "httpx", "backports.zstd", "aiohttp", "mcp"):
    sys.modules[name] = None
import gym.broker.__main__, gym.broker.sweep
import gym.broker.providers.docker.docker_provider, gym.broker.providers.local
"""
    subprocess.run([sys.executable, "-c", script], check=True)
