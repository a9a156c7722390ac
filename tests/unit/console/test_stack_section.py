"""What the Stack page asks for, over real files and real servers; and the page itself in a browser."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import orjson
import pytest

from gym.console.app import Deps, make_app
from gym.console.discovery_sources import LiveSources
from gym.console.probes import Prober
from gym.console.run_sections import make_run_sections
from gym.console.stack.stack_view import StackParts
from gym.console.viewer.run_files import RunFiles
from gym.http.pool import HttpClient
from gym.server.testing import running
from gym.wire.stack_names import SANDBOX_NOTES
from gym.wire.stack_notes import REPLICAS, ReplicaNote, ReplicaNotes, SandboxNotes, write_note
from tests.support.driven_browser import CHROMIUM, driven
from tests.support.rollout_files import rollout, write_lines
from tests.support.router import Backend
from tests.unit.console.conftest import Bench, Visitor


@asynccontextmanager
async def stack_over(bench: Bench, parts: StackParts, results: Path | None = None) -> AsyncIterator[Visitor]:
    client = HttpClient()
    sources = LiveSources(str(bench.folder / "discovery.json"), bench.folder / "console.json", client)
    runs = RunFiles([results], later=True) if results else None
    sections = make_run_sections(runs) if runs else ()
    deps = Deps(sources, Prober(client), parts=parts, client=client, sections=lambda: sections)
    try:
        async with running(make_app(deps)) as url:
            yield Visitor(url, client)
    finally:
        if runs:
            runs.close()
        await client.aclose()


async def get_json(visitor: Visitor, path: str) -> Any:
    return orjson.loads((await visitor.get(path)).body)


async def test_without_any_part_the_page_still_says_how_the_servers_are(bench: Bench, backends: list[Backend]) -> None:
    bench.show({"mcqa": [backends[0].url]})
    async with stack_over(bench, StackParts(router="http://127.0.0.1:9")) as visitor:
        view = await get_json(visitor, "/view/api/stack/overview")
        logs = await get_json(visitor, "/view/api/stack/logs")
    assert (view["healthy"], view["total"], view["sandboxes"], view["own"]) == (1, 5, None, [])
    assert "could not be read" in view["router_problem"]
    assert {"from": "mcqa_simple_agent", "to": "mcqa", "calls": 0, "rate": None} in view["calls"]
    assert (logs["names"], logs["problem"]) == ([], "No process of this stack keeps a log that the console can read.")


async def test_where_servers_are_containers_it_is_said_what_is_not_sent_here(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    (bench.folder / "mcqa-1.log").write_text("one\n")
    bench.show({})
    monkeypatch.setattr("gym.console.app.ROUTER", "localhost")  # in whose name this test asks
    async with stack_over(bench, StackParts(contained=True, logs=bench.folder)) as visitor:
        logs = await get_json(visitor, "/view/api/stack/logs")
    assert (logs["names"], logs["problem"]) == (["mcqa-1"], "")
    assert "gym logs NAME" in logs["note"]


async def test_what_the_runtime_and_the_broker_tell_is_shown(bench: Bench, backends: list[Backend]) -> None:
    bench.show({"mcqa": [backends[0].url]})
    note = ReplicaNote(restarts=2, why="exit code 137: out of memory", at=5.0)
    write_note(bench.folder / REPLICAS, ReplicaNotes({"mcqa-1": note}))
    write_note(bench.folder / SANDBOX_NOTES, SandboxNotes(provider="docker", alive=7, waiting=3, at=1.0))
    async with stack_over(bench, StackParts(notes=bench.folder)) as visitor:
        view = await get_json(visitor, "/view/api/stack/overview")
    replica = next(one for one in view["servers"] if one["name"] == "mcqa")["replicas"][0]
    assert (replica["restarts"], replica["why"]) == (2, "exit code 137: out of memory")
    assert (view["sandboxes"]["alive"], view["sandboxes"]["waiting"], view["sandboxes"]["stale"]) == (7, 3, True)


async def test_the_configuration_is_shown_without_its_secrets(bench: Bench) -> None:
    async with stack_over(bench, StackParts()) as visitor:
        text = (await get_json(visitor, "/view/api/stack/config"))["text"]
    assert "policy_model_name: tiny" in text
    assert "sk-canary" not in text


@pytest.mark.parametrize("name", ["..%2Fconsole", "..", "%2e%2e%2f%2e%2e%2fetc%2fpasswd", "b-1", "a-1.log"])
async def test_no_address_reaches_a_log_that_is_not_listed(name: str, bench: Bench, tmp_path: Path) -> None:
    logs = tmp_path / "logs"
    logs.mkdir()
    (logs / "a-1.log").write_text("hello\n")
    async with stack_over(bench, StackParts(logs=logs)) as visitor:
        assert (await get_json(visitor, "/view/api/stack/logs/a-1?text=HELL"))["lines"] == ["hello"]
        assert (await visitor.get("/view/api/stack/logs/a-1?lines=-1")).status == 400
        assert (await visitor.get(f"/view/api/stack/logs/{name}")).status == 404


async def test_a_results_folder_that_comes_later_is_found(bench: Bench, tmp_path: Path) -> None:
    bench.show({})
    results = tmp_path / "results"
    async with stack_over(bench, StackParts(), results) as visitor:
        assert (await get_json(visitor, "/view/api/rollouts/summary"))["runs"] == []
        results.mkdir()
        write_lines(results / "a.jsonl", [rollout(1)])
        names: list[str] = []
        while not names:
            names = [one["name"] for one in (await get_json(visitor, "/view/api/rollouts/summary"))["runs"]]
    assert names == ["a"]


@pytest.mark.browser
@pytest.mark.skipif(not CHROMIUM, reason="no Chromium on the PATH")
async def test_a_person_finds_restarts_logs_and_configuration(
    bench: Bench, backends: list[Backend], tmp_path: Path
) -> None:
    bench.show({"mcqa": [backends[0].url, "http://127.0.0.1:9"]})
    write_note(bench.folder / REPLICAS, ReplicaNotes({"mcqa-1": ReplicaNote(restarts=1, why="ended by SIGKILL")}))
    logs = tmp_path / "logs"
    logs.mkdir()
    (logs / "mcqa-1.log").write_text("INFO begins\nERROR no such row\n")
    (logs / "router.log").write_text("level=info\n")
    parts = StackParts(notes=bench.folder, logs=logs)
    async with stack_over(bench, parts) as visitor, driven(tmp_path / "profile") as page:
        await page.open(f"{visitor.url}/view/stack?log=router")
        await page.until("$('log-lines').innerText.includes('level=info')")
        await page.until("document.querySelectorAll('.server').length === 5")
        text = await page.text()
        assert "restarted once: ended by SIGKILL" in text
        assert "mcqa-2 down" in text
        assert await page.run("document.querySelectorAll('#drawing a').length") == 5
        await page.run("$('log-name').value = 'mcqa-1'; $('log-text').value = 'error'")
        await page.run("$('log-form').dispatchEvent(new Event('input'))")
        await page.until("document.querySelector('#log-lines mark')?.textContent === 'ERROR'")
        assert await page.run("location.search") == "?find=error"
        await page.run("dispatchEvent(new KeyboardEvent('keydown', { key: 'c', bubbles: true }))")
        await page.until("$('config-text').textContent.includes('policy_model_name')")
        await page.run("dispatchEvent(new KeyboardEvent('keydown', { key: '?', bubbles: true }))")
        assert "search the log" in await page.run("document.querySelector('dialog').innerText")
        await page.look(width=400)
        assert await page.run("document.documentElement.scrollWidth") <= 400
        assert page.complaints == []


AGENTS = ["weather_agent", "quiz_agent", "researcher", "critic", "team", "math_agent"]
CALLS = [
    *(("", name) for name in ("weather_agent", "quiz_agent", "team", "math_agent")),
    *((name, "policy") for name in AGENTS),
    *(("weather_agent", "weather"), ("quiz_agent", "quiz"), ("team", "quiz"), ("math_agent", "math")),
    *(("team", "researcher"), ("team", "critic"), ("math", "judge")),
]
GEOMETRY = """(() => {
  const picture = document.querySelector('#drawing svg'), { width } = picture.viewBox.baseVal;
  const boxes = (shape) => [...picture.querySelectorAll(shape)].map((one) => one.getBBox());
  const labels = boxes('.rate');
  const meet = (one, other, side, size) => one[side] < other[side] + other[size] && other[side] < one[side] + one[size];
  const cover = (one, other) => meet(one, other, 'x', 'width') && Math.abs(one.y - other.y) < one.height - 4;
  return {
    beyond: boxes('path, text').filter((one) => one.x < 0 || one.x + one.width > width).length,
    labels: labels.length,
    covered: labels.filter((one, each) => labels.slice(each + 1).some((other) => cover(one, other))).length,
  };
})()"""


@pytest.mark.browser
@pytest.mark.skipif(not CHROMIUM, reason="no Chromium on the PATH")
async def test_every_line_of_the_drawing_is_seen_and_says_its_traffic(bench: Bench, tmp_path: Path) -> None:
    kinds = {"policy": "responses_api_models", "judge": "responses_api_models"}
    kinds |= dict.fromkeys(AGENTS, "responses_api_agents")
    names = [*AGENTS, "policy", "weather", "quiz", "judge", "math"]
    servers = [
        {"name": name, "type": kinds.get(name, "resources_servers"), "state": "healthy", "replicas": [{}]}
        for name in names
    ]
    calls = [{"from": caller, "to": asked, "calls": 900, "rate": 15.0} for caller, asked in CALLS]
    view = orjson.dumps({"servers": servers, "calls": calls, "window": 60.0, "router_problem": ""}).decode()
    bench.show({})
    async with stack_over(bench, StackParts()) as visitor, driven(tmp_path / "profile") as page:
        await page.look(width=1600)
        await page.open(f"{visitor.url}/view/stack")
        await page.until("document.querySelectorAll('#drawing svg').length === 1")
        geometry = await page.run(f"drawCalls({view}); {GEOMETRY}")
        await page.screenshot(tmp_path / "drawing.png")
    assert geometry == {"beyond": 0, "labels": len(CALLS), "covered": 0}
