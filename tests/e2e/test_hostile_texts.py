"""Known XSS texts in rollouts, names, logs, health and configuration, in a real browser that clicks everything."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from urllib.parse import urlencode, urlsplit

import orjson
import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from gym.console.app import Deps, make_app
from gym.console.discovery_sources import LiveSources
from gym.console.environments.env_catalog import EnvCatalog
from gym.console.environments.environments_section import StackToTry, make_section
from gym.console.environments.person_session import PersonSessions
from gym.console.probes import Prober
from gym.console.run_sections import make_run_sections
from gym.console.stack.stack_view import StackParts
from gym.console.viewer.run_files import RunFiles
from gym.files import write_atomically
from gym.http.pool import HttpClient
from gym.server.replicas import Peers
from gym.server.testing import running
from gym.wire.discovery import Discovery, InstanceView, ReplicaView
from gym.wire.stack_names import SANDBOX_NOTES
from gym.wire.stack_notes import REPLICAS, ReplicaNote, ReplicaNotes, SandboxNotes, write_note
from tests.support.driven_browser import CHROMIUM, DrivenPage, driven
from tests.support.rollout_files import failure, poisoned, rollout, write_lines
from tests.support.tried_stack import write_environment
from tests.support.xss import ALL, CLICK_EVERYTHING, STRANGE, TEXTS

pytestmark = [pytest.mark.browser, pytest.mark.skipif(not CHROMIUM, reason="no Chromium on the PATH")]
LISTED = "/view/api/runs/list"
KINDS = ("responses_api_agents", "resources_servers", "responses_api_models")


def says_what_it_likes(_: Request) -> Response:
    """Of itself, on /healthz."""
    work = {"in_flight": ALL, "edges": [1, ALL], "buckets": [3, ALL], "asked": {ALL: 5, TEXTS[0]: 3}, "memory": ALL}
    body = orjson.dumps({"status": "ok", "version": TEXTS[0], "started": 1.0, ALL: ALL, "work": work})
    return Response(body, media_type="application/json")


def write_stack(folder: Path, url: str) -> None:
    names = [TEXTS[number] for number in range(6)]
    instances, servers = {}, {}
    for number, name in enumerate(names):
        kind = KINDS[number % 3]
        replicas = (ReplicaView(id=TEXTS[6 + number], url=url if number else "http://127.0.0.1:9"),)
        instances[name] = InstanceView.model_validate(
            {"type": kind, "implementation": ALL, "digest": ALL, "replicas": replicas, "sdk": True}
        )
        facts = {"type": kind, "implementation": ALL, "prefix": f"/s/{ALL}", "needs": names, "slug": f"s{number}"}
        servers[name] = facts
    found = Discovery(stack=ALL, generation=1, router=url, instances=instances)
    write_atomically(folder / "discovery.json", found.model_dump_json())
    console = {"stack": ALL, "config": {ALL: {"field": ALL, "api_key": "sk-canary-1"}}, "servers": servers}
    write_atomically(folder / "console.json", orjson.dumps(console).decode())
    (folder / "notes").mkdir()
    note = ReplicaNote(pid=os.getpid(), restarts=3, why=ALL, at=1.0)
    write_note(folder / "notes" / REPLICAS, ReplicaNotes({TEXTS[7]: note, "router": note}))
    write_note(folder / "notes" / SANDBOX_NOTES, SandboxNotes(provider=ALL, alive=3, waiting=2, breaker=ALL))
    (folder / "logs").mkdir()
    for name in ("<img src=x onerror=window.wasOwned=1>", "a-1"):
        (folder / "logs" / f"{name}.log").write_text("".join(f"ERROR {text}\n" for text in TEXTS))


def write_results(folder: Path) -> None:
    folder.mkdir()
    texts = [poisoned(rollout(number, 0, number / 30), text) for number, text in enumerate(TEXTS)]
    every = poisoned(rollout(99, agent=ALL), ALL) | {ALL: ALL, "note": ALL}
    torn = b"{torn " + ALL.encode().replace(b"\n", b" ") + b"\n"
    write_lines(folder / "<img src=x onerror=window.wasOwned=1>.jsonl", [*texts, every, torn])
    write_lines(folder / "x.jsonl", [poisoned(rollout(1), ALL)])
    write_lines(folder / "x_failures.jsonl", [poisoned(failure(kind=ALL, agent=ALL), ALL)])


@asynccontextmanager
async def hostile_console(folder: Path) -> AsyncIterator[str]:
    client = HttpClient()
    async with running(Starlette(routes=[Route("/{rest:path}", says_what_it_likes)])) as url:
        write_stack(folder, url)
        write_results(folder / "results")
        write_environment(folder / "root", "x", readme=f"# {ALL}\n\n{ALL}\n\nLicense: {ALL}\n")
        runs = RunFiles([folder / "results"])
        sources = LiveSources(str(folder / "discovery.json"), folder / "console.json", client)
        parts = StackParts(notes=folder / "notes", logs=folder / "logs")
        sessions = PersonSessions(Peers(str(folder / "discovery.json"), {}, client), client)
        environments = make_section(EnvCatalog([folder / "root"]), StackToTry(sources, sessions))
        sections = make_run_sections(runs, environments=environments)
        deps = Deps(sources, Prober(client), parts=parts, client=client, sections=lambda: sections)
        async with running(make_app(deps)) as console:
            collecting = {"done": 1, "failed": 2, "total": 4, "in_flight": 1, "rate": 1.0, "mean_reward": 0.5}
            progress = {**collecting, "eta_seconds": 3.0, "failures": {ALL[:60]: 2}, "paused_reason": ALL}
            heartbeat = {"id": "run", "output": ALL, "host": ALL[:60], "pid": 7, "progress": progress}
            headers = [(b"content-type", b"application/json")]
            await client.request("POST", f"{console}/collections", body=orjson.dumps(heartbeat), headers=headers)
            yield console
        runs.close()
    await client.aclose()


async def test_no_text_of_others_ever_runs_or_fetches_whatever_is_clicked(tmp_path: Path) -> None:
    async with hostile_console(tmp_path) as url, driven(tmp_path / "profile") as page:
        await page.open(f"{url}/")
        paths = await page.run("[...document.querySelectorAll('#menu a')].map((one) => one.pathname)")
        assert {"/view/stack", "/view/rollouts", "/view/docs"} <= set(paths)
        names = [("run", one["name"]) for one in (await page.run(f"fetchJson('{LISTED}')"))["runs"]]
        chosen = [f"/view/runs?{urlencode([one])}" for one in names] + [f"/view/compare?{urlencode(names)}"]
        chosen += [f"/view/environments?{urlencode({'name': name})}" for name in ("x", ALL)]
        for path in ["/", *paths, *chosen]:
            await page.open(url + path)
            await settle(page)
            clicks = await page.run(CLICK_EVERYTHING.replace("TYPED", repr(TEXTS[1])))
            await settle(page)
            few = path.endswith(("docs", "environments")) or "compare" in path
            assert clicks > (0 if few else 2), path
            assert await page.run("window.wasOwned") is None, path
            assert await page.run(STRANGE) == [], path
            assert page.dialogs == [], path
            refused = [one for one in page.complaints if "Content Security Policy" in one or "exception" in one.lower()]
            assert refused == [], path
        elsewhere = {one for one in page.requests if urlsplit(one).netloc != urlsplit(url).netloc and "://" in one}
        assert elsewhere == set()


async def settle(page: DrivenPage) -> None:
    """Something of the others is shown, or there is nothing to show."""
    await page.until("document.readyState === 'complete' && $('main').innerText.trim().length > 20")
    await page.run("new Promise((done) => requestAnimationFrame(() => setTimeout(done, 0)))")


async def test_the_search_of_a_log_and_the_address_of_a_page_carry_no_code(tmp_path: Path) -> None:
    async with hostile_console(tmp_path) as url, driven(tmp_path / "profile") as page:
        await page.open(f"{url}/view/stack?log=a-1&find=%3Cimg%20src%3Dx%20onerror%3Dwindow.wasOwned%3D1%3E")
        await page.until("document.querySelectorAll('#log-lines mark').length > 0")
        assert "onerror" in await page.run("document.querySelector('#log-lines mark').textContent")
        evil = "%3Cscript%3Ewindow.wasOwned%3D1%3C/script%3E"
        await page.open(f"{url}/view/rollouts?run={evil}&text={evil}&at=%22%3E{evil}")
        await settle(page)
        assert await page.run("window.wasOwned") is None
