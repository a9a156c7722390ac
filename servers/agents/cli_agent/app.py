"""A command-line agent as it comes, in the sandbox that the environment hands out: its model calls become the response.

The environment seeds the sandbox and verifies what is left in it; the program knows a URL and a key. Neither knows the
other, so any such program works with any environment that shares a sandbox, or judges a text.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import PurePosixPath
from typing import Any, Final, NamedTuple

import orjson
from kit import ProgramKit
from program import Launch, OwnSandbox, ProgramConfig, launch
from program_gate import ProgramGate
from pydantic import Field

from gym.sandbox.broker_client import Sandbox, SandboxEnded, Sandboxes
from gym.sandbox.inside_port import InsidePort
from gym.sandbox.inside_server import InsideServer
from gym.sandbox.processes import SandboxJob
from gym.server import Agent, AgentConfig
from gym.server.adapters.play_tools import PlayLimits
from gym.server.agent import RunRow
from gym.server.rollout_client import RolloutClient, read_seeded
from gym.server.run_trace import RunTrace
from gym.wire import items
from gym.wire.call_sequences import CallSequence, sequences_of
from gym.wire.failures import RolloutError
from gym.wire.observations import observation_items
from gym.wire.sandbox import ExecResult
from gym.wire.splice import splice

VERIFY_SHARE, VERIFY_SECONDS = 0.1, 60.0  # of the rollout's time: kept for the verdict, and the most of it
KILL_SECONDS: Final = 30.0
START_SECONDS: Final = 300.0  # until the first answer, at least
POLL_SECONDS: Final = 1.0
LONGEST_SECONDS: Final = 86400.0  # that the broker takes
SHOWN, MAX_OUTPUT = 4000, 1 << 20  # of its output: characters in the rollout, bytes that the broker keeps


class CliAgentConfig(AgentConfig):
    """`max_steps` is how many model calls the program may make, its sub-agents' among them."""

    program: ProgramConfig
    program_seconds: float = Field(default=1800.0, gt=0)  # without the model's; less where the environment says so
    workdir: str | None = None  # where it starts; else the environment's folder
    model: str = "policy"  # what {model} stands for; the model server answers to any name
    task_field: str = "problem_statement"  # of the row; without it, the texts of the row's input
    own_sandbox: OwnSandbox | None = None  # where the environment gives none


class Ending(NamedTuple):
    """How the program ended. `fault` is "" where it ended by itself without an error."""

    fault: str
    limit: str  # the budget that was spent
    seconds: float
    result: ExecResult | None = None
    sandbox_gone: bool = False


class CliAgent(Agent):
    config: CliAgentConfig

    async def start(self) -> None:
        self.sandboxes = self.own(Sandboxes.from_settings(self.settings))
        await self.sandboxes.begin()
        self.kit = self.own(ProgramKit(self.sandboxes, self.config.program))

    async def respond_to(self, row: RunRow, rollout: RolloutClient) -> dict[str, Any]:
        raise RolloutError("row", f"{self.name} works on rows: POST /run", retryable=False)

    async def run(self, row: RunRow, rollout: RolloutClient) -> bytes:
        wanted = rollout.trace is not None
        rollout.trace = rollout.trace or RunTrace()
        handle, shown = await self._seed(row, rollout)
        async with self._sandbox(handle, rollout) as sandbox:
            calls = ProgramGate(rollout, row.params, PlayLimits(self.config), self.config.model)
            calls.max_seconds = min(self.config.program_seconds, float(handle.get("seconds") or math.inf))
            workdir = self.config.workdir or str(handle.get("workdir") or "") or await find_workdir(sandbox)
            task = task_text(row, self.config.task_field, shown)
            ending = await self._work(sandbox, calls, rollout, task, workdir)
            trace = orjson.loads(await rollout.fetch_trace())
            found = await asyncio.to_thread(sequences_of, trace["calls"])
            body = await self._verify(row, rollout, ending, found, trace)
        if not wanted:
            await rollout.drop_trace()
        return body

    async def _seed(self, row: RunRow, rollout: RolloutClient) -> tuple[dict[str, Any], str]:
        """What the environment says of the sandbox, {} where it has none; and what it shows first."""
        if self.config.resources_server is None:
            return {}, ""
        reply = await rollout.post(rollout.resources_server, "/seed_session", row.body, kind="resources", hop="seed")
        rollout.session_open = bool(rollout.cookies)
        given = read_seeded(reply.body, rollout.resources_server)
        handle = orjson.loads(reply.body or b"{}").get("sandbox_handle") or {}
        if given.get("tools") and not handle:
            names = ", ".join(str(one.get("name")) for one in given["tools"])
            what = f"the environment is worked with by its tools ({names}), and a program has none of them"
            raise RolloutError("agent", f"{what}: simple_agent calls them", retryable=False)
        if handle and not handle.get("key"):
            what = "the environment's `sandbox_handle` has no `key`: it advertises `{**sandbox.share(), ...}`"
            raise RolloutError("agent", what, retryable=False)
        shown = observation_items(given.get("observation"))
        return dict(handle), "\n\n".join(filter(None, (items.item_text(one) for one in shown)))

    @asynccontextmanager
    async def _sandbox(self, handle: dict[str, Any], rollout: RolloutClient) -> AsyncIterator[Sandbox]:
        if handle:
            yield await self.sandboxes.visit(handle)
            return
        if self.config.own_sandbox is None:
            what = f"the environment hands out no sandbox: give {self.name} an `own_sandbox: {{image: ...}}`"
            raise RolloutError("agent", what, retryable=False)
        async with await self.sandboxes.create(self.config.own_sandbox.spec(), rollout=rollout.id) as sandbox:
            yield sandbox

    async def _work(
        self, sandbox: Sandbox, calls: ProgramGate, rollout: RolloutClient, task: str, workdir: str
    ) -> Ending:
        """Runs the program to its end. Raises what only the infrastructure can have caused."""
        if self.config.program.is_carried:
            await self.kit.put_into(sandbox)
        server = InsideServer(calls)
        port = InsidePort(self.sandboxes, sandbox, server.accept)
        try:
            async with port:
                words = {"prompt": task, "workdir": workdir, "model": calls.model}
                words |= {"prompt_file": "/tmp/gym-task.md", "base_url": port.url, "key": calls.key}
                ending = await self._run_program(sandbox, calls, rollout, launch(self.config.program, words), workdir)
        finally:
            await server.aclose()
        failure = calls.failure or (None if ending.sandbox_gone or not ending.fault else port.error)
        if failure is not None:
            raise failure
        if not calls.answered:
            shown = show(ending.result) or "no output"
            what = f"the program made no model call: {ending.fault or 'it ended at once'}: {shown[-600:]}"
            raise RolloutError("agent", what, server=self.name, retryable=False)
        return ending

    async def _run_program(
        self, sandbox: Sandbox, calls: ProgramGate, rollout: RolloutClient, start: Launch, workdir: str
    ) -> Ending:
        began = time.monotonic()
        try:
            await self._put_files(sandbox, start.files)
            seconds = min(max(rollout.seconds_left, 1.0), LONGEST_SECONDS)
            job = await sandbox.start_job(
                start.argv, cwd=workdir or None, env=start.env, timeout=seconds, max_output=MAX_OUTPUT,
                user=self.config.program.user,
            )  # fmt: skip
            await close_stdin(job, start.stdin)
            limit = await self._wait(job, calls, rollout)
            result = await job.wait(KILL_SECONDS)
        except RolloutError as error:
            if error.kind != "sandbox":
                raise
            gone = await why_gone(sandbox, error)
            return Ending(f"its sandbox ended: {gone}", "", time.monotonic() - began, sandbox_gone=True)
        fault = f"it was ended: {limit}" if limit else describe_exit(result)
        return Ending(fault, limit, time.monotonic() - began, result)

    async def _put_files(self, sandbox: Sandbox, files: Mapping[str, str]) -> None:
        """In folders that the program may write to, where there are none yet."""
        if folders := sorted({str(PurePosixPath(path).parent) for path in files} - {"/", "/tmp"}):
            made = await sandbox.exec(("mkdir", "-p", "--", *folders), user=self.config.program.user)
            if made.exit_code != 0:
                raise RolloutError("agent", f"program.files: {made.stderr.text.strip()[-300:]}", retryable=False)
        for path, text in files.items():
            await sandbox.put(path, text)

    async def _wait(self, job: SandboxJob, calls: ProgramGate, rollout: RolloutClient) -> str:
        """Until the program ends, or has spent a limit, whose name is returned: then it is killed."""
        began, left = time.monotonic(), rollout.seconds_left
        ends = began + left - min(left * VERIFY_SHARE, VERIFY_SECONDS)
        ended = asyncio.ensure_future(job.wait(max(left, 1.0)))
        spent = asyncio.ensure_future(calls.limits.ended.wait())
        try:
            while not ended.done():
                now = time.monotonic()
                own = calls.max_seconds - calls.seconds_used()
                if not calls.answered:
                    own = max(calls.max_seconds, START_SECONDS) - (now - began)
                limit = "program_seconds" if own <= 0 else ""
                if spent.done():
                    limit = calls.limits.spent or "rollout"
                if limit or now >= ends:
                    await job.kill()
                    break
                pause = min(own, ends - now, POLL_SECONDS)  # the first answer begins another count
                await asyncio.wait((ended, spent), timeout=pause, return_when=asyncio.FIRST_COMPLETED)
            else:
                ended.result()
                return ""
        finally:
            for task in (ended, spent):
                task.cancel()
            await asyncio.gather(ended, spent, return_exceptions=True)
        if not limit:
            raise RolloutError("timeout", "the rollout's time was over before its program ended", server=self.name)
        return limit

    async def _verify(
        self, row: RunRow, rollout: RolloutClient, ending: Ending, found: list[CallSequence], trace: dict[str, Any]
    ) -> bytes:
        response = make_response(found, ending)
        info = describe(ending, trace)
        params = {**row.params, "input": found[-1].input if found else row.params.get("input", [])}
        if found and found[-1].tools:
            params["tools"] = found[-1].tools
        fields = {"responses_create_params": params, "cli_agent": info}
        if self.config.resources_server is None or self.config.skip_verification:
            skipped = {"reward": self.config.skip_verification_reward, "verification_skipped": True}
            return splice(row.body, {**fields, "response": response, **skipped}, keys=row.fields)
        row = RunRow(splice(row.body, fields, keys=row.fields), {**row.fields, **fields})
        try:
            body = await rollout.verify(row.body, row.fields, response)
        except RolloutError as error:
            if not ending.sandbox_gone or error.kind != "sandbox":
                raise
            # Its folder went with the sandbox, by what ran there: there is nothing left that could be worth more.
            lost = {"response": response, "reward": 0.0, "reason": ending.fault}
            return splice(row.body, lost, keys=row.fields)
        return add_reason(body, ending.fault)


async def find_workdir(sandbox: Sandbox) -> str:
    return (await sandbox.exec(["pwd"])).stdout.text.strip()


async def why_gone(sandbox: Sandbox, error: RolloutError) -> str:
    """Of a sandbox that what ran in it has ended, by its limits. Raises the failure where that is not so."""
    if isinstance(error, SandboxEnded):
        return error.message
    try:
        await sandbox.exec(["true"])
    except SandboxEnded as ended:
        return ended.message
    except RolloutError:
        pass
    raise error


async def close_stdin(job: SandboxJob, data: bytes) -> None:
    """Most programs that find it open and no terminal wait for more."""
    try:
        await job.write(data, close=True)
    except RolloutError as error:
        if isinstance(error, SandboxEnded) or error.retryable:
            raise  # else the program had ended by then


def task_text(row: RunRow, field: str, shown: str = "") -> str:
    """The task, and behind it what the environment shows first."""
    given = row.fields.get(field)
    if isinstance(given, str) and given.strip():
        return "\n\n".join(filter(None, (given, shown)))
    texts = [items.item_text(one) for one in items.input_items(row.params.get("input"))]
    text = "\n\n".join(filter(None, (row.params.get("instructions"), *texts, shown)))
    if not text.strip():
        raise RolloutError("row", f"{field}: a text is needed, or one in the input", retryable=False)
    return text


def describe_exit(result: ExecResult) -> str:
    if result.oom:
        return "no memory was left to it"
    if result.signal is not None:
        return f"it was ended by signal {result.signal}"
    return "" if result.exit_code == 0 else f"it ended with exit code {result.exit_code}"


def show(result: ExecResult | None) -> str:
    """The end of what it wrote."""
    if result is None:
        return ""
    return f"{result.stdout.text}\n{result.stderr.text}".strip()[-SHOWN:]


def describe(ending: Ending, trace: dict[str, Any]) -> dict[str, Any]:
    result = ending.result
    return {
        "fault": ending.fault,
        "exit_code": result.exit_code if result else None,
        "seconds": round(ending.seconds, 3),
        "model_calls": len(trace["calls"]),
        "trace_complete": bool(trace.get("complete")),
        "stdout": result.stdout.text[-SHOWN:] if result else "",
        "stderr": result.stderr.text[-SHOWN:] if result else "",
    }


def make_response(found: list[CallSequence], ending: Ending) -> dict[str, Any]:
    """The sequence of the last call is the response; the others, of sub-agents or before a compaction, stand beside."""
    last = found[-1] if found else None
    usage: dict[str, Any] | None = None
    for one in found:
        usage = items.add_usage(usage, one.usage)
    model = last.model if last else ""
    response = items.response(
        last.output if last else [], model=model, params={"tools": last.tools} if last else {}, usage=usage
    )
    response["other_sequences"] = [one.to_fields() for one in found[:-1]]
    return {**response, "truncated_by": ending.limit} if ending.limit else response


def add_reason(body: bytes, fault: str) -> bytes:
    """A reward of 0 says why, where the environment does not and the program is to blame."""
    if not fault:
        return body
    fields = orjson.loads(body)
    if fields.get("reward") or fields.get("reason"):
        return body
    return splice(body, {"reason": fault}, keys=fields)


app = CliAgent.app()
