"""The mini-swe-agent package, loaded without its greeting and its configuration folder; and what it calls of ours.

The package is synchronous: each rollout runs it in a thread, and what it asks is done on the event loop.
"""

from __future__ import annotations

import asyncio
import atexit
import importlib
import logging
import os
import shutil
import tempfile
import time
from collections.abc import Coroutine, Mapping
from typing import Any, Final, NamedTuple, TypeVar

import orjson

from gym.server.rollout_client import RolloutClient
from gym.wire import items
from gym.wire.failures import RolloutError

T = TypeVar("T")
SUBMITTED: Final = "COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT"
CONFIG: Final = "swebench.yaml"


class Package(NamedTuple):
    """What is used of it."""

    version: str
    agent: Any  # DefaultAgent
    exceptions: Any
    actions: Any  # models.utils.actions_toolcall_response
    config: dict[str, Any]  # its own prompts for SWE-bench


def load_package() -> Package:
    os.environ["MSWEA_SILENT_STARTUP"] = "1"
    home = tempfile.mkdtemp(prefix="mini-swe-agent-")
    atexit.register(shutil.rmtree, home, ignore_errors=True)
    os.environ["MSWEA_GLOBAL_CONFIG_DIR"] = home
    package = importlib.import_module("minisweagent")
    logging.getLogger("minisweagent").handlers.clear()  # it would paint every message on the terminal
    return Package(
        package.__version__,
        importlib.import_module("minisweagent.agents.default").DefaultAgent,
        importlib.import_module("minisweagent.exceptions"),
        importlib.import_module("minisweagent.models.utils.actions_toolcall_response"),
        importlib.import_module("minisweagent.config").get_config_from_spec(CONFIG),
    )


class Bridge:
    """From the package's thread to the event loop. Stopped when the rollout ends: then the thread ends too."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._stopped = False

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        if self._stopped:
            work.close()
            raise RolloutError("cancelled", "the rollout has ended")
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()

    def stop(self) -> None:
        self._stopped = True


class StackModel:
    """Fits the package's `Model`: asks the stack's model server, in Responses items, which are kept as they come."""

    def __init__(self, package: Package, bridge: Bridge, rollout: RolloutClient, params: Mapping[str, Any]) -> None:
        self.config = package.config["model"]
        self.usage: dict[str, Any] | None = None
        self.last: dict[str, Any] = {}
        self._package, self._bridge, self._rollout = package, bridge, rollout
        self._params = {**params, "tools": [package.actions.BASH_TOOL_RESPONSE_API]}

    def query(self, messages: list[dict[str, Any]], **_: Any) -> dict[str, Any]:
        reply = self._bridge.run(self._rollout.ask_model({**self._params, "input": to_items(messages)}))
        self.last = reply
        self.usage = items.add_usage(self.usage, reply.get("usage"))
        extra = {"cost": 0.0, "timestamp": time.time()}
        try:
            actions = self._package.actions.parse_toolcall_actions_response(
                reply["output"],
                format_error_template=self.config["format_error_template"],
                template_kwargs={"finish_reason": self._package.actions.finish_reason_from_responses_api(reply)},
            )
        except self._package.exceptions.FormatError as error:
            error.messages[0]["extra"] |= {**extra, "response": reply}
            raise
        return {**reply, "object": "response", "extra": {**extra, "actions": actions}}

    def format_message(self, **fields: Any) -> dict[str, Any]:
        return fields

    def format_observation_messages(
        self, message: dict[str, Any], outputs: list[dict[str, Any]], template_vars: dict[str, Any] | None = None
    ) -> list[dict[str, Any]]:
        observations: list[dict[str, Any]] = self._package.actions.format_toolcall_observation_messages(
            actions=message["extra"]["actions"],
            outputs=outputs,
            observation_template=self.config["observation_template"],
            template_vars=template_vars,
        )
        return observations

    def get_template_vars(self, **_: Any) -> dict[str, Any]:
        return {}

    def serialize(self) -> dict[str, Any]:
        return {}


class SessionEnvironment:
    """Fits the package's `Environment`: each command goes to the sandbox that the environment's session holds."""

    def __init__(self, package: Package, bridge: Bridge, rollout: RolloutClient, cwd: str, timeout: float) -> None:
        self.config = {"cwd": cwd, "timeout": timeout}
        self._package, self._bridge, self._rollout = package, bridge, rollout

    def execute(self, action: dict[str, Any], cwd: str = "") -> dict[str, Any]:
        asked = {"command": action.get("command", ""), "timeout": self.config["timeout"]}
        asked |= {"cwd": cwd} if cwd else {}
        status, text = self._bridge.run(self._rollout.call_tool("run_command", orjson.dumps(asked)))
        if status >= 400:
            return {"output": "", "returncode": -1, "exception_info": text}
        output: dict[str, Any] = orjson.loads(text)
        first, _, rest = output["output"].lstrip().partition("\n")
        if output["returncode"] == 0 and first.strip() == SUBMITTED:
            extra = {"exit_status": "Submitted", "submission": rest}
            raise self._package.exceptions.Submitted({"role": "exit", "content": rest, "extra": extra})
        return output

    def get_template_vars(self, **_: Any) -> dict[str, Any]:
        return {**self.config, "system": "Linux", "release": "", "version": "", "machine": ""}

    def serialize(self) -> dict[str, Any]:
        return {}


def to_items(messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The package's messages as Responses items; its own notes and its last word are left out."""
    found: list[dict[str, Any]] = []
    for one in messages:
        if one.get("object") == "response":
            found.extend(one["output"])
        elif one.get("role") != "exit":
            found.append({key: value for key, value in one.items() if key != "extra"})
    return found
