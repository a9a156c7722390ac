"""The viewer's page in a real browser, where there is one: served, and as a file of its own."""

from __future__ import annotations

import html
import re
from pathlib import Path

import orjson
import pytest

from gym.console.pages.shell import PageAccess, make_app
from gym.console.viewer.app import make_section
from gym.console.viewer.embed import embed_rollouts
from gym.console.viewer.query import read_query
from gym.console.viewer.rollout_files import RolloutFiles
from gym.server.testing import running
from tests.support.rollout_files import (
    CHROMIUM,
    EVIL,
    browse,
    failure,
    poisoned,
    rollout,
    visible_text,
    write_lines,
)

pytestmark = [pytest.mark.browser, pytest.mark.skipif(not CHROMIUM, reason="no Chromium on the PATH")]
SCRIPTS = ("source.js", "rollout.js", "page.js")
QUERIES: tuple[dict[str, str], ...] = (
    {},
    {"agent": "other"},
    {"agent": ""},
    {"kind": "failed"},
    {"kind": "timeout", "text": "WITHIN"},
    {"kind": "malformed"},
    {"low": "0.25", "high": "0.5", "sort": "-reward"},
    {"run": "x", "kind": "failed"},
    {"tool": "add", "task": "1"},
    {"component": "right", "least": "2"},
    {"truncated": "1"},
    {"sort": "task"},
    {"sort": "reward"},
    {"sort": "-seconds", "kind": "verified"},
    {"text": "question 1"},
)


def opened(path: Path) -> RolloutFiles:
    files = RolloutFiles([path])
    files.refresh()
    return files


@pytest.fixture
def file(tmp_path: Path) -> Path:
    write_lines(tmp_path / "x_failures.jsonl", [failure(2, 0), failure(1, 1, "sandbox", agent="other")])
    rows = [rollout(task, repeat, task / 4, grade=f"grade {task}") for task in (1, 0, 2) for repeat in (1, 0)]
    return write_lines(tmp_path / "x.jsonl", [*rows, rollout(9, 0, None, agent="other"), b'{"torn": \n'])


@pytest.fixture
def written(file: Path) -> Path:
    page = file.with_name("page.html")
    page.write_bytes(embed_rollouts(opened(file)))
    return page


async def test_a_served_page_shows_the_list_and_the_conversation(file: Path, tmp_path: Path) -> None:
    async with running(make_app([make_section(opened(file))], PageAccess())) as url:
        dom, complaints = await browse(f"{url}/view/rollouts?at=x:3", tmp_path)
    text = visible_text(dom)
    assert "7 rollouts · 2 failures (timeout 1, sandbox 1) · 1 malformed line" in text
    assert "solver mean 0.250 6 rollouts 1 failed" in text
    for said in ("Question 0?", "I ponder 0", "calls add", "numbers [1,2] why a b", "result sum 3", "grade grade 0"):
        assert said in text
    assert re.search(r"took 500 ms", text)
    assert complaints == ""


async def test_a_page_written_as_a_file_shows_the_same_without_a_server(written: Path, tmp_path: Path) -> None:
    dom, complaints = await browse(f"{written.as_uri()}#at=x:f1", tmp_path)
    text = visible_text(dom)
    assert "timeout at tools no answer within 3 s A new attempt may help. Row: rows.jsonl:3" in text
    assert "10 lines" in text
    assert complaints == ""


@pytest.mark.parametrize("place", ["x:1", "x:2", "x:f1"])
async def test_no_text_of_a_rollout_is_ever_markup(place: str, tmp_path: Path) -> None:
    bad = orjson.dumps(EVIL)[:-1] + b"\n"
    path = write_lines(tmp_path / "x.jsonl", [poisoned(rollout(agent=EVIL) | {EVIL: EVIL}), bad])
    write_lines(tmp_path / "x_failures.jsonl", [poisoned(failure(kind=EVIL, agent=EVIL))])
    page = tmp_path / "page.html"
    page.write_bytes(embed_rollouts(opened(path)))
    async with running(make_app([make_section(opened(path))], PageAccess())) as url:
        seen = [
            await browse(f"{url}/view/rollouts?at={place}", tmp_path),
            await browse(f"{page.as_uri()}#at={place}", tmp_path),
        ]
    for dom, complaints in seen:
        assert "<title>x.jsonl: rollouts</title>" in dom
        assert "<img" not in dom
        assert html.unescape(dom).count('onerror="document.title=') >= 3
        assert complaints == ""


async def test_a_page_without_a_server_filters_and_sorts_like_the_server(file: Path, tmp_path: Path) -> None:
    parts = Path(__file__).parents[3] / "gym" / "console" / "viewer"
    files = opened(file)
    data = re.search(rb'<script id="data"[^>]*>(.*?)</script>', embed_rollouts(files), re.S)
    assert data is not None
    ask = """(async () => {
        const pages = [];
        const on = (query) => ({...NOTHING, sort: "", ...query, run: query.run ? [query.run] : []});
        for (const query of QUERIES) pages.push([await source.list(on(query), 0), await source.groups(on(query), 0)]);
        const idsOf = (rows) => rows.map((row) => row.id);
        const groupOf = (one) => [one.task, one.count, one.mean, one.spread, one.title, idsOf(one.rows)];
        const seen = pages.map(([list, tasks]) => [list.total, idsOf(list.rows), list.bars, tasks.groups.map(groupOf)]);
        document.body.textContent = "ANSWERS" + JSON.stringify(seen);
      })();"""
    script = f"const QUERIES = {orjson.dumps(QUERIES).decode()};"
    sources = "\n".join((parts / name).read_text("utf-8") for name in ("address.js", "source.js"))
    harness = tmp_path / "harness.html"
    harness.write_text(
        f"<body><script>{sources}\n{script}\nconst source = embeddedSource({data[1].decode()});\n{ask}</script></body>",
        "utf-8",
    )
    dom, complaints = await browse(harness.as_uri(), tmp_path)
    answers = re.search(r"ANSWERS(.*?)</body>", dom, re.S)
    assert answers is not None, dom + complaints
    listed = orjson.loads(html.unescape(answers[1]))
    for query, (total, ids, bars, tasks) in zip(QUERIES, listed, strict=True):
        found = files.find(read_query(query))
        assert ids == [files.view(place)["id"] for place in found.places], query
        unsorted = files.find(read_query({**query, "sort": "file"}))
        groups = [files.group_view(one, 64) for one in files.groups(unsorted, query.get("sort", "disagree"))]
        names = ("task", "count", "mean", "spread", "title")
        assert tasks == [[*(one[name] for name in names), [row["id"] for row in one["rows"]]] for one in groups], query
        assert total == len(found.places)
        assert bars == [list(bar) for bar in found.bars], query


async def test_keys_walk_through_the_list_and_open_the_reasoning(written: Path, tmp_path: Path) -> None:
    steps = """<script>setTimeout(async () => {
        for (const key of ["j", "j", "k", "r"]) {
          dispatchEvent(new KeyboardEvent("keydown", { key, bubbles: true }));
          await new Promise((done) => setTimeout(done, 50));
        }
        document.documentElement.dataset.walked = `${location.hash} ${document.querySelector("details.thought").open}`;
      }, 500);</script></body>"""
    # The page's own policy would not let a script of a test run.
    page = re.sub(r'<meta http-equiv="content-security-policy"[^>]*>', "", written.read_text("utf-8"))
    walked = tmp_path / "walked.html"
    walked.write_text(page.replace("</body>", steps), "utf-8")
    dom, _ = await browse(walked.as_uri(), tmp_path)
    assert 'at=x%3A3 true"' in dom
