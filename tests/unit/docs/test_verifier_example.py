"""The example of docs/verifiers.md runs as it is copied from there."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from gym.server.base import ServerApp
from gym.server.serve import load_app
from gym.server.testing import Caller, running
from tests.support.doc_blocks import ROOT

PAGE = ROOT / "docs" / "verifiers.md"


def blocks() -> Iterator[tuple[str, str]]:
    part = PAGE.read_text("utf-8").split("## Written short\n")[1].split("\n| | |\n")[0]
    for found in re.finditer(r"^```(\w+)\n(.*?)^```$", part, re.M | re.S):
        yield found[1], found[2]


@pytest.fixture
def quiz(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ServerApp:
    (_, app), (_, reading), (_, prompt), (_, settings) = blocks()
    for name, text in (("app.py", app), ("reading.py", reading), ("prompt.txt", prompt)):
        (tmp_path / name).write_text(text)
    fields: dict[str, Any] = yaml.safe_load(settings)["quiz"]["resources_servers"]["quiz"]
    monkeypatch.syspath_prepend(str(tmp_path))
    loaded: ServerApp = load_app(tmp_path / "app.py")
    return loaded.configured(fields, name="quiz")


@pytest.mark.parametrize(
    ("text", "reward"), [("So: Answer: Rome", 1.0), ("Rome", 0.0), ("Answer: Rome\nAnswer: Oslo", None)]
)
async def test_the_example_verifies(quiz: ServerApp, text: str, reward: float | None) -> None:
    said = {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": text}]}
    body = {"responses_create_params": {"input": "x"}, "expected_answer": "Rome", "response": {"output": [said]}}
    async with running(quiz) as url, Caller(url) as caller:
        reply = await caller.post("/verify", body)
    if reward is None:  # its judge is asked, which is not there
        assert "judge_model" in reply.body["error"]["message"]
    else:
        assert reply.body["reward"] == reward
