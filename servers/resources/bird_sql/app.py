"""Questions answered by SQL: the query's result on a SQLite database has to be the expected query's."""

import re
from pathlib import Path
from typing import Any

from pydantic import Field
from rows import BirdSqlScore, BirdSqlTask
from sql_block import clean, last_block

from gym.server import Problem, ResourcesConfig, ResourcesServer
from gym.server.workers import Workers
from gym.wire.failures import RolloutError
from gym.wire.pass_rates import pass_and_majority, pass_and_majority_by

HERE = Path(__file__).parent
OWN = "data/databases"
NO_QUERY = "SELECT 1"  # where only the expected one is asked about
MEMORY = 2 << 30
_NAME = re.compile(r"\w[\w.-]*", re.ASCII)


class BirdSqlConfig(ResourcesConfig):
    bird_sql_dir: str = OWN  # of databases: NAME/NAME.sqlite, as the benchmark's, or NAME.sql
    max_concurrency: int = Field(4, ge=1)
    sql_execution_timeout_s: float = Field(30.0, gt=0)  # of CPU time, a query: a backstop behind max_steps
    max_steps: int = Field(300_000_000, ge=1_000_000)  # of SQLite's machine, a query
    strict: bool = False


class BirdSql(ResourcesServer[None]):
    reverify_mode = "stateless"
    config: BirdSqlConfig

    async def start(self) -> None:
        config = self.config
        self.folder = find_folder(config.bird_sql_dir)
        count, timeout = config.max_concurrency, 2 * config.sql_execution_timeout_s
        workers = Workers("sql_results", count=count, timeout=timeout, memory=MEMORY, folder=self.here)
        self.workers = self.own(workers)

    async def verify(self, rollout: BirdSqlTask) -> BirdSqlScore:
        """1.0 when the two results are equal."""
        database = self.database(rollout.db_id)
        text = rollout.output_text
        block = last_block(text, strict=self.config.strict)
        query = None if block is None else block.strip() if self.config.strict else clean(block)

        def score(right: bool, code: str, reason: str = "") -> BirdSqlScore:
            found = {"model_output": text, "extracted_sql": query, "had_codeblock": block is not None}
            said = {"execution_match": right, "failure_reason": code, "reason": reason}
            return BirdSqlScore(reward=float(right), **found, **said)

        if not query:
            return score(False, "no_sql_extracted", "no query stands in a fence marked sql")
        outcome = await self.workers.call(
            "compare", str(database), rollout.gt_sql, query, self.config.max_steps, self.config.strict
        )
        if "gold" in outcome:
            raise RolloutError("row", f"gt_sql: the expected query gives no result: {outcome['gold']}")
        if "predicted" in outcome:
            return score(False, "execution_error", f"the query gives no result: {outcome['predicted']}")
        if not outcome["match"]:
            return score(False, "execution_error", "the results differ")
        return score(True, "none")

    async def check_row(self, row: BirdSqlTask) -> list[Problem]:
        """Its database must be here, and the expected query must have a result on it."""
        hint = f"looked in {self.folder.absolute()}; set bird_sql_dir to where NAME/NAME.sqlite or NAME.sql is"
        database = self.find_database(row.db_id)
        if database is None:
            return [Problem("there is no such database", key="db_id", hint=hint, value=row.db_id)]
        outcome = await self.workers.call(
            "compare", str(database), row.gt_sql, NO_QUERY, self.config.max_steps, self.config.strict
        )
        if "gold" not in outcome:
            return []
        what = f"the expected query gives no result on {row.db_id}: {outcome['gold']}"
        return [Problem(what, key="gt_sql", hint=hint, value=row.gt_sql)]

    def find_database(self, name: str) -> Path | None:
        if not _NAME.fullmatch(name):
            return None
        files = (self.folder / name / f"{name}.sqlite", self.folder / f"{name}.sql")
        return next((file for file in files if file.is_file()), None)

    def database(self, name: str) -> Path:
        if file := self.find_database(name):
            return file
        there = ", ".join(sorted({one.stem for one in self.folder.glob("*") if one.is_dir() or one.suffix == ".sql"}))
        raise RolloutError("row", f"db_id: there is no database {name[:100]!r} in bird_sql_dir, only {there or 'none'}")

    def aggregate(self, replies: list[dict[str, Any]]) -> dict[str, Any]:
        """All, and each difficulty apart."""
        rates = pass_and_majority(replies, answer="extracted_sql")
        return rates | pass_and_majority_by("difficulty", replies, answer="extracted_sql")


def find_folder(text: str) -> Path:
    """Relative to the working directory or to this folder; the benchmark's archive has its databases further in."""
    found = next((one for one in (Path(text), HERE / text) if one.is_dir()), HERE / text)
    return next((one for one in sorted(found.glob("**/dev_databases")) if one.is_dir()), found)


app = BirdSql.app()
