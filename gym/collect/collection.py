"""A collection from files to files: prepared, run and summed up."""

from __future__ import annotations

import asyncio
import os
import signal
from contextlib import AsyncExitStack
from pathlib import Path

import uvloop

from gym.collect.attempts import Attempts
from gym.collect.collect_options import CollectOptions
from gym.collect.collector import Collector
from gym.collect.concurrency import find_tight_agents, make_client
from gym.collect.events import EXIT_STOPPED, Notice, OnEvent, Summary
from gym.collect.output_files import OutputFiles, open_output
from gym.collect.row_tools import tools_of_stack
from gym.collect.sidecar import OutputPaths, StackOfRun
from gym.collect.stack_settings import StackSettings, read_settings
from gym.collect.stop import Stopped, StopSwitch
from gym.collect.tally import Tally
from gym.collect.targets import Targets
from gym.data.line_source import STDIN, digest_inputs, expand_inputs
from gym.errors import UserError
from gym.http.tracing import start_tracing, stop_tracing
from gym.rare_collections import rare_collections
from gym.wire.telemetry import COLLECTOR, read_telemetry


def run_collection(options: CollectOptions, on_event: OnEvent) -> Summary:
    """`collect_rollouts` with an event loop of its own; Ctrl-C and SIGTERM drain, a second one cancels."""

    async def main() -> Summary:
        stop = StopSwitch()
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, stop.pull)
        return await collect_rollouts(options, on_event, stop)

    with rare_collections(), asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(main())


async def collect_rollouts(options: CollectOptions, on_event: OnEvent, stop: StopSwitch | None = None) -> Summary:
    """Runs to its end and returns the summary. Raises when it cannot start, or when the output cannot be written."""
    stop = stop or StopSwitch()
    files = expand_inputs(options.inputs)
    _refuse_output_as_input(options.output, files)
    tally = Tally()
    async with AsyncExitStack() as stack:
        http = make_client(options.concurrency)
        stack.push_async_callback(http.aclose)
        targets = Targets(http, options.stack_url, options.token, routed=options.through_router)
        await targets.connect()
        targets.check_agent(options.agent)
        agents = [options.agent] if options.agent else targets.agents
        for warning in await find_tight_agents(agents, options.concurrency, targets.max_at_once):
            on_event(Notice(warning))
        settings = await read_settings(targets)
        tracer = start_tracing(read_telemetry(settings.telemetry, os.environ), COLLECTOR)
        stack.push_async_callback(asyncio.to_thread, stop_tracing, tracer)
        tools = await tools_of_stack(targets, settings, fill=options.fill_tools)
        try:
            output = await _open_output(options, files, targets, settings, tally, stop)
        except Stopped:
            return Summary(EXIT_STOPPED, tally.progress(), options.output, reason="stopped before it began")
        stack.callback(output.close)
        for notice in output.notices:
            on_event(Notice(notice))
        attempts = Attempts(http, targets, options, unread=True)
        return await Collector(options, files, targets, attempts, output, tally, on_event, tools).run(stop)


async def _open_output(
    options: CollectOptions,
    files: tuple[str, ...],
    targets: Targets,
    settings: StackSettings,
    tally: Tally,
    stop: StopSwitch,
) -> OutputFiles:
    """Reads back what an earlier run wrote. That may take minutes: it runs in a thread, and Ctrl-C stops it."""

    def on_done(agent: str, reward: float | None, kind: str) -> None:
        stop.check()
        tally.add_earlier(agent, reward, kind)

    def read_and_open() -> OutputFiles:
        identity = options.identity(digest_inputs(files))
        accept = options.accept_changes
        stack = StackOfRun(targets.digests, accept, targets.strict, targets.images, settings.instances)
        return open_output(options.output, identity, fresh=options.fresh, on_done=on_done, stack=stack)

    return await asyncio.to_thread(read_and_open)


def _refuse_output_as_input(output: Path, files: tuple[str, ...]) -> None:
    for path in OutputPaths.beside(output).all():
        if path.exists() and any(file != STDIN and Path(file).samefile(path) for file in files):
            raise UserError(f"{path} is an input, and this run would write it", "choose another -o")
