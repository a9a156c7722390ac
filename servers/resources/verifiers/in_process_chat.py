"""A harness of verifiers: the package's own chat program, in this process instead of one for each rollout.

Its `null` harness starts the same program by uv, which takes a second and a package index. The program stays as it is.
"""

from __future__ import annotations

import argparse
import json
import ssl
import tempfile
import traceback
from contextvars import ContextVar
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any, Final

import certifi
import verifiers.v1 as vf
from openai import AsyncOpenAI
from verifiers.v1.dialects.chat import message_to_wire
from verifiers.v1.harnesses.utils.launch import CHAT_PROGRAM_SOURCE

GIVEN: ContextVar[argparse.Namespace] = ContextVar("given")  # in place of the program's command line
OPENED: ContextVar[list[AsyncOpenAI]] = ContextVar("opened")  # its clients, which a process would close by its end
NOT_ASKED_FOR: Final = {
    **dict.fromkeys(("bash", "compaction", "edit", "search"), False),
    "initial_messages_file": "",
    "serper_key": "",
    "summarize_at_tokens": None,
}


class InProcessConfig(vf.HarnessConfig):
    pass


class InProcessChat(vf.Harness[InProcessConfig]):
    APPENDS_SYSTEM_PROMPT = True
    SUPPORTS_MCP = True
    SUPPORTS_RESUME = True
    SUPPORTS_TOOL_INTERCEPTION = True
    EXECUTES_CODE = False
    NEEDS_CONTAINER = False

    async def launch(
        self,
        ctx: vf.ModelContext,
        trace: vf.Trace,
        runtime: vf.Runtime,
        endpoint: str,
        secret: str,
        mcp_urls: dict[str, str],
        data: vf.TaskData,
        tool_interception_url: str | None = None,
    ) -> vf.ProgramResult:
        system, prompt = self.resolve_prompt(data)
        messages = None if isinstance(prompt, str) or prompt is None else [message_to_wire(one) for one in prompt]
        servers = {name: {"url": url, "timeout": self.config.tool_timeout} for name, url in mcp_urls.items()}
        arguments = {
            "base_url": endpoint,
            "api_key": secret,
            "model": ctx.model,
            "system_prompt": system or "",
            "prompt": prompt if isinstance(prompt, str) else "",
            "mcp_config": json.dumps({"mcpServers": servers}) if servers else "",
            "tool_interception_url": tool_interception_url or "",
        }
        return await run_program(arguments, messages)


async def run_program(arguments: dict[str, Any], messages: list[dict[str, Any]] | None) -> vf.ProgramResult:
    """How the program would have ended as a process."""
    given = argparse.Namespace(**NOT_ASKED_FOR, **arguments)
    with tempfile.TemporaryDirectory(prefix="verifiers-") as folder:
        if messages is not None:
            path = Path(folder) / "messages.json"
            path.write_text(json.dumps(messages), "utf-8")
            given.initial_messages_file = str(path)
        GIVEN.set(given)
        OPENED.set(opened := [])
        try:
            await PROGRAM.main()
        except SystemExit as error:
            code = error.code if isinstance(error.code, int) else 1
            return vf.ProgramResult(exit_code=code, stdout="", stderr=traceback.format_exc())
        except Exception:  # noqa: BLE001 (a process would have printed it, too)
            return vf.ProgramResult(exit_code=1, stdout="", stderr=traceback.format_exc())
        finally:
            for client in opened:
                await client.close()
    return vf.ProgramResult(exit_code=0, stdout="", stderr="")


def load_program() -> Any:
    program = ModuleType("verifiers_chat_program")
    exec(compile(CHAT_PROGRAM_SOURCE, "verifiers/chat_program.py", "exec"), program.__dict__)
    program.__dict__["parse_args"] = GIVEN.get
    program.__dict__["AsyncOpenAI"] = open_client
    context = ssl.create_default_context(cafile=certifi.where())  # once, and not for each rollout
    program.__dict__["certifi"] = SimpleNamespace(where=lambda: context)
    return program


def open_client(**settings: Any) -> AsyncOpenAI:
    client = AsyncOpenAI(**settings)
    OPENED.get().append(client)
    return client


PROGRAM = load_program()
__all__ = ["InProcessChat"]
