"""bird_sql on a real socket and on real databases: what is equal, and what a query cannot do."""

from __future__ import annotations

import json
import sqlite3
import time
from contextlib import closing
from pathlib import Path
from typing import Any

import make_databases
import pytest
from hypothesis import strategies as st
from sql_block import clean, last_block
from sql_results import compare

from gym.server import Problem, ServerApp
from gym.server.check_rows import RowChecker
from gym.server.fuzz import fuzz_verify
from gym.server.serve import load_app
from gym.server.testing import Caller, Rows, read_lines, running
from gym.wire.items import message, response

HERE = Path(__file__).parents[1]
ROWS = read_lines(HERE / "data" / "example.jsonl")


@pytest.mark.parametrize("fields", [{}, {"strict": True}])
def test_no_well_formed_request_breaks_it(app: ServerApp, rows: Rows, fields: dict[str, Any]) -> None:
    fuzz_verify(
        app.configured({**fields, "max_steps": 1_000_000}),
        rows,
        texts=["```sql\nSELECT 1\n```", "```sql\nSELECT", "```sql\n--\nx```", "```sql /* a ```", "```sql\n\x00a\n```"],
        values={
            "db_id": st.sampled_from(["library", "workshop", "..", "no"]),
            "gt_sql": st.sampled_from(["SELECT 1", "x"]),
        },
        examples=80,
    )


LIBRARY = str(HERE / "data" / "databases" / "library.sql")


def compared(gold: str, predicted: str, *, steps: int = 2_000_000, strict: bool = False, path: str = LIBRARY) -> Any:
    return compare(path, gold, predicted, steps, strict)


@pytest.mark.parametrize(
    ("gold", "predicted", "loose", "strict"),
    [
        ("SELECT town FROM branches", "SELECT town FROM branches ORDER BY 1 DESC", True, True),
        ("SELECT town FROM branches ORDER BY 1", "SELECT town FROM branches ORDER BY 1 DESC", True, False),
        ("SELECT town FROM branches ORDER BY 1", "SELECT town FROM branches ORDER BY 1", True, True),
        ("SELECT genre FROM books", "SELECT DISTINCT genre FROM books", True, False),
        ("SELECT DISTINCT genre FROM books", "SELECT genre FROM books", True, False),
        ("SELECT COUNT(*) FROM branches", "SELECT 4", True, False),
        ("SELECT 1", "SELECT 1.0", True, True),
        ("SELECT 1", "SELECT '1'", False, False),
        ("SELECT 1, 2", "SELECT 2, 1", False, False),
        ("SELECT 1", "SELECT 1 UNION SELECT 2", False, False),
        ("SELECT 1 UNION SELECT 2", "SELECT 1", False, False),
        ("SELECT 1", "SELECT 1 WHERE 0", False, False),
        ("SELECT NULL, 1", "SELECT NULL, 1", True, True),
        ("SELECT x'00ff'", "SELECT x'00ff'", True, True),
        ("SELECT 1 LIMIT 1", "SELECT abs(random()) * 0 + 1", True, None),
    ],
)
def test_what_is_equal(gold: str, predicted: str, loose: bool, strict: bool | None) -> None:
    assert compared(gold, predicted) == {"match": loose}
    assert compared(gold, predicted, strict=True).get("match") is strict


@pytest.mark.parametrize(
    "query",
    [
        "DELETE FROM books",
        "INSERT INTO branches VALUES (9, 'x', 1)",
        "CREATE TEMP TABLE x (y)",
        "DROP TABLE books",
        "ATTACH DATABASE ':memory:' AS other",
        "DETACH DATABASE main",
        "PRAGMA table_info(books)",
        "PRAGMA query_only = 0",
        "SELECT * FROM pragma_table_info('books')",
        "SELECT load_extension('x')",
        "VACUUM INTO '/tmp/never'",
        "BEGIN",
        "SELECT 1; SELECT 2",
        "SELECT hex(zeroblob(10000000))",
        "SELECT \x00",
        "SELECT 'é' FROM nowhere",
    ],
)
def test_what_a_query_cannot_do(query: str) -> None:
    assert set(compared("SELECT 1", query)) == {"predicted"}


@pytest.mark.parametrize("gold", ["SELECT 1 WHERE 0", "SELECT NULL", "SELECT SUM(pages), NULL FROM books WHERE 0"])
@pytest.mark.parametrize("strict", [False, True])
def test_an_expected_query_that_finds_nothing_has_no_right_answer(gold: str, strict: bool) -> None:
    assert set(compared(gold, gold, strict=strict)) == {"gold"}


ENDLESS = "WITH RECURSIVE t(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM t) SELECT"


@pytest.mark.parametrize(
    "query", [f"{ENDLESS} count(*) FROM t", "SELECT count(*) FROM loans a, loans b, loans c, loans d"]
)
def test_a_query_that_never_ends_is_stopped_at_its_step_wherever_it_runs(query: str) -> None:
    assert compared("SELECT 1", query) == {"predicted": "it took more than 2000000 steps"}
    assert compared(query, "SELECT 1") == {"gold": "it took more than 2000000 steps"}


def test_a_result_without_end_is_given_up_at_the_first_row_that_differs() -> None:
    assert compared("SELECT 1", f"{ENDLESS} x FROM t") == {"match": False}


def test_a_database_file_is_read_and_left_as_it_was(tmp_path: Path) -> None:
    file = tmp_path / "shop.sqlite"
    with closing(sqlite3.connect(file)) as database:
        database.executescript("CREATE TABLE things (name TEXT); INSERT INTO things VALUES ('ax'), ('saw');")
    before = file.read_bytes()
    assert compared("SELECT name FROM things", "SELECT 'ax' UNION SELECT 'saw'", path=str(file)) == {"match": True}
    assert "predicted" in compared("SELECT 1", "DELETE FROM things", path=str(file))
    assert file.read_bytes() == before
    assert [one.name for one in tmp_path.iterdir()] == ["shop.sqlite"]


async def test_the_benchmarks_own_folders_are_found(app: ServerApp, rows: Rows, tmp_path: Path) -> None:
    folder = tmp_path / "dev_20240627" / "dev_databases" / "shop"
    folder.mkdir(parents=True)
    with closing(sqlite3.connect(folder / "shop.sqlite")) as database:
        database.executescript("CREATE TABLE things (name TEXT); INSERT INTO things VALUES ('ax');")
    row = rows[0] | {"db_id": "shop", "gt_sql": "SELECT name FROM things"}
    app = app.configured({"bird_sql_dir": str(tmp_path)})
    async with running(app) as url, Caller(url) as caller:
        text = "```sql\nSELECT max(name) FROM things\n```"
        answered = await caller.post("/verify", row | {"response": response([message(text)], model="m")})
        assert answered.body["reward"] == 1.0
        answered = await caller.post("/verify", row | {"db_id": "no", "response": response([], model="m")})
    assert "only shop" in answered.body["error"]["message"]


@pytest.mark.parametrize(
    ("text", "block"),
    [
        ("```sql\nSELECT 1\n```", "SELECT 1"),
        ("```sql\nSELECT 1\n``` or ```sql\nSELECT 2\n```", "SELECT 2"),
        ("```sql\nSELECT 1\n``` or ```sql\n1\n```", "SELECT 1"),
        ("```sql\nSELECT 1 -- one\nFROM x\n```", "SELECT 1"),
        ("```sql\nSELECT /* one */ 1\n```", "SELECT 1"),
        ("```sql\nSELECT /* one\n```", "SELECT /* one"),
        ("```sql\nSELECT /* one -- two\n```", "SELECT /* one"),
        ("```sql\n**Query**\n SELECT\n 1\n```", "SELECT 1"),
        ("```sql\n-- only\n```", ""),
        ("```SQL\nSELECT 1\n```", None),
        ("```\nSELECT 1\n```", None),
        ("```sql\nSELECT 1", None),
        ("", None),
    ],
)
def test_where_the_query_stands(text: str, block: str | None) -> None:
    found = last_block(text)
    assert (None if found is None else clean(found)) == block


@pytest.mark.parametrize("piece", ["```sql", "```sql a", "/*", "--", "**", " ", "```sql\n"])
def test_a_long_answer_made_to_be_slow_is_not(piece: str) -> None:
    text = "```sql a" + piece * (300_000 // len(piece)) + "```"
    begun = time.process_time()
    clean(last_block(text) or "")
    clean(text)
    assert time.process_time() - begun < 5.0  # linear: milliseconds; quadratic: minutes


def test_the_databases_are_what_their_script_writes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(make_databases, "FOLDER", tmp_path)
    make_databases.main()
    for file in sorted(tmp_path.iterdir()):
        assert file.read_text("utf-8") == (HERE / "data" / "databases" / file.name).read_text("utf-8")
    assert len(list(tmp_path.iterdir())) == 5


async def check(changes: dict[str, Any], folder: Path | None = None) -> list[Problem]:
    fields = {"bird_sql_dir": str(folder)} if folder else {}
    checker = RowChecker.of(load_app(HERE / "app.py"), "bird_sql", fields)
    await checker.start()
    try:
        return await checker.check(json.dumps({**ROWS[0], **changes}).encode())
    finally:
        await checker.stop()


async def test_a_row_whose_database_and_query_are_here_fits() -> None:
    assert await check({}) == []


@pytest.mark.parametrize("name", ["california_schools", "../library", ""])
async def test_a_database_that_is_not_here_is_reported_with_the_setting(tmp_path: Path, name: str) -> None:
    (problem,) = await check({"db_id": name}, tmp_path)
    assert (problem.key, problem.what, problem.value) == ("db_id", "there is no such database", name)
    assert str(tmp_path) in problem.hint
    assert "bird_sql_dir" in problem.hint


@pytest.mark.parametrize(
    ("query", "why"),
    [
        ("SELECT x FROM nowhere", "no such table: nowhere"),
        ("SELECT 1 WHERE 0", "it returns no row"),
        ("SEL", "syntax error"),
    ],
)
async def test_an_expected_query_without_a_result_is_reported(query: str, why: str) -> None:
    (problem,) = await check({"gt_sql": query})
    assert (problem.key, problem.value) == ("gt_sql", query)
    assert why in problem.what
