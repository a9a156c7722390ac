"""What both runtimes do for a sandbox broker: tokens, its configuration, and removing what a dead one left.

BrokerTokens lie in the stack's home, readable by its owner alone; the broker itself gets their digests.
"""

from __future__ import annotations

import secrets
from pathlib import Path
from typing import Any, Final

import orjson
from pydantic import Field

from gym import labels
from gym.files import read_document, write_atomically
from gym.plan.model import Plan, SandboxPlan, Value
from gym.runtime.sandbox_leftovers import FOLDER, TOKENS, config_path
from gym.wire.sandbox import token_digest
from gym.wire.stack_names import project_name

STATE: Final = "state"  # what the broker writes down, beside its configuration


class BrokerTokens(Value):
    """One for each instance that may ask the broker, and one for people, who see all of the stack."""

    operator: str = Field(repr=False)
    instances: dict[str, str] = Field(default_factory=dict, repr=False)


def keep_tokens(home: Path, broker: SandboxPlan) -> BrokerTokens:
    """Those there are; made where there are none, once for a stack from its `up` to its `down`."""
    known = read_tokens(home) or BrokerTokens(operator=secrets.token_hex(32))
    wanted = {name: known.instances.get(name) or secrets.token_hex(32) for name in broker.grants}
    tokens = BrokerTokens(operator=known.operator, instances=wanted)
    write_atomically(home / TOKENS, tokens.model_dump_json(), mode=0o600)
    return tokens


def read_tokens(home: Path) -> BrokerTokens | None:
    return read_document(BrokerTokens, home / TOKENS)


def prepare_state(home: Path) -> Path:
    """The folder in which the broker keeps what its successor has to know."""
    folder = home / FOLDER / STATE
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def write_config(home: Path, plan: Plan, tokens: BrokerTokens, *, mode: int) -> None:
    """What GYM_SANDBOX_CONFIG names."""
    assert plan.sandbox is not None
    document = broker_config(plan.sandbox, project_name(plan.stack, home), tokens)
    write_atomically(config_path(home), orjson.dumps(document, option=orjson.OPT_INDENT_2).decode(), mode=mode)


def broker_config(broker: SandboxPlan, stack: str, tokens: BrokerTokens) -> dict[str, Any]:
    """`stack` is what labels say: two stacks of one name in two folders never touch each other's sandboxes."""
    instances = {
        name: {"token_sha256": token_digest(tokens.instances[name]), "grant": grant.model_dump(mode="json")}
        for name, grant in broker.grants.items()
    }
    return {
        "stack": stack,
        "provider": broker.provider,
        "settings": broker.settings,
        "instances": instances,
        "operator_sha256": token_digest(tokens.operator),
    }


def access_environ(url: str, token: str) -> dict[str, str]:
    """The variables of a server that holds a grant."""
    return {labels.ENV_SANDBOX_URL: url, labels.ENV_SANDBOX_TOKEN: token}
