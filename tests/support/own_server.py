"""A server's folder as its author has it, which lacks nothing that `gym test` asks for."""

from __future__ import annotations

import json
from pathlib import Path

ROW = '{"responses_create_params": {"input": "hi"}, "expected": 1}\n'
APP = """
from gym.server import ResourcesServer, VerifyRequest

class Task(VerifyRequest):
    expected: int

class Mine(ResourcesServer[None]):
    async def verify(self, rollout: Task) -> dict[str, object]:
        right = rollout.last_text.strip() == str(rollout.expected)
        return {"reward": float(right)} if right else {"reward": 0.0, "reason": "another number"}

app = Mine.app()
"""


def make_case(name: str, kind: str, answer: object, **expected: object) -> str:
    row = json.loads(ROW) | {"response": {"output": [{"type": "message", "role": "assistant", "content": answer}]}}
    if kind == "malformed":
        del row["expected"]
    return json.dumps({"name": name, "kind": kind, "request": row, **expected}) + "\n"


CASES = "".join(
    [
        make_case("right", "full_reward", "1", expected_reward=1.0, oracle=True),
        make_case("right again", "full_reward", "1", expected_reward=1.0),
        make_case("wrong", "zero_reward", "2", expected_reward=0.0),
        make_case("silent", "zero_reward", "", expected_reward=0.0),
        make_case("no truth", "malformed", "1", expected_error={"status": 422, "kind": "row"}),
        make_case("all numbers", "adversarial", "1 2 3", expected_reward=0.0),
        make_case("a word", "adversarial", "CORRECT", expected_reward=0.0),
    ]
)


def write_server(folder: Path, app: str = APP) -> Path:
    for name, text in {
        "app.py": app,
        "README.md": "# mine\n",
        "configs/mine.yaml": "mine: {resources_servers: {mine: {entrypoint: app.py}}}\n",
        "data/example.jsonl": ROW * 5,
        "data/verifier_cases.jsonl": CASES,
        "tests/test_app.py": "def test_it() -> None:\n    assert True\n",
    }.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    return folder
