"""Which taskset, environment and harness the configuration means; says what is missing where it cannot be had."""

from __future__ import annotations

import importlib.metadata
import sys
from collections.abc import Mapping
from typing import Any, Final

import verifiers.v1 as vf
from pydantic import ValidationError
from verifiers.v1.configs.agent import agent_config_fields

from gym.errors import UserError

LINE: Final = "0.4"
IN_PROCESS: Final = "in_process_chat"  # the harness beside this file
EXTRAS: Final = {"textarena": "ta", "openenv": "openenv", "harbor": "harbor"}


def load_env(given: Mapping[str, Any], *, max_turns: int | None) -> vf.Env[Any]:
    """The environment of `given`, verifiers' own `[env]` block. A wrong one ends the server's start."""
    check_version()
    taskset = given.get("taskset")
    name = taskset.get("id") if isinstance(taskset, Mapping) else None
    if not isinstance(name, str) or not name:
        raise UserError("environment.taskset.id: which taskset?", "environment: {taskset: {id: textarena, ...}}")
    try:
        config = vf.resolve_env_config(fill_seats(given, name, max_turns=max_turns))
        env = vf.load_environment(config)
    except ImportError as error:
        raise UserError(f"environment: {error}", f"what it needs, into requirements.txt{_extra(name)}") from None
    except (AttributeError, TypeError, ValueError, ValidationError) as error:
        raise UserError(f"environment: {error}") from None
    refuse_commands(config)
    return env


def check_version() -> None:
    found = importlib.metadata.version("verifiers")
    if not found.startswith(f"{LINE}."):
        what = f"verifiers {found} is installed: this server plays the tasksets of {LINE}"
        raise UserError(what, "for environments of 0.3 and before: the server verifiers_legacy")


def fill_seats(given: Mapping[str, Any], taskset: str, *, max_turns: int | None) -> dict[str, Any]:
    """A seat that says nothing plays here, by the package's chat program, without commands."""
    kind = vf.env_config_type(taskset, str(given.get("id") or ""))
    filled = dict(given)
    for seat in (name for name, field in kind.model_fields.items() if isinstance(field.default, vf.AgentConfig)):
        own = dict(filled.get(seat) or {})
        own.setdefault("runtime", {"type": "subprocess"})
        if vf.default_harness_id(taskset) == "bash":
            own.setdefault("harness", {"id": IN_PROCESS})
        own.setdefault("max_turns", max_turns)
        filled[seat] = own
    return filled


def refuse_commands(config: vf.EnvConfig) -> None:
    """What the policy types must not run in this server's process tree, beside other rollouts and their keys."""
    for seat, agent in agent_config_fields(config).items():
        harness = vf.load_harness(config.agent_harnesses()[seat])
        if agent.runtime.type == "subprocess" and harness.EXECUTES_CODE:
            what = f"environment.{seat}.harness: {harness.config.id} runs the policy's commands beside this server"
            hint = (
                f"the harness {IN_PROCESS}, or a runtime that is a container: {{{seat}: {{runtime: {{type: docker}}}}}}"
            )
            raise UserError(what, hint)


def _extra(taskset: str) -> str:
    python = f"this is Python {sys.version_info.major}.{sys.version_info.minor}"
    return f": verifiers[{EXTRAS[taskset]}] ({python})" if taskset in EXTRAS else f" ({python})"
