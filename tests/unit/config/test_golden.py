"""Golden pairs: what was written, and the whole stack or the whole error it becomes.

`GYM_GOLDEN=write pytest tests/unit/config/test_golden.py` writes the expected files again; read the diff.
"""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from gym.config import LoadRequest, StackConfig, load_stack, redact, search_roots
from gym.errors import ConfigError

CASES = Path(__file__).resolve().parents[2] / "golden" / "config"


def load(case: Path) -> StackConfig:
    words = case / "overrides.txt"
    return load_stack(
        LoadRequest(
            files=("main.yaml",),
            overrides=tuple(words.read_text(encoding="utf-8").splitlines()) if words.exists() else (),
            cwd=case,
            roots=search_roots(case, {}),
            environ={"POLICY_KEY": "sk-0123456789"},
            extras=frozenset(),
        )
    )


def shown(stack: StackConfig) -> str:
    return json.dumps(redact(stack.model_dump(mode="json", exclude_defaults=True)), indent=2, ensure_ascii=False) + "\n"


def compare(expected: Path, found: str) -> None:
    if os.environ.get("GYM_GOLDEN") == "write":
        expected.write_text(found, encoding="utf-8")
    assert found == expected.read_text(encoding="utf-8")


def test_an_old_configuration_becomes_a_stack_without_a_secret_in_it() -> None:
    case = CASES / "two_agents"
    found = shown(load(case))
    assert "hunter22" not in found
    assert "sk-0123456789" not in found
    compare(case / "expected.json", found)


def test_everything_that_is_wrong_is_reported_in_one_error() -> None:
    case = CASES / "everything_wrong"
    with pytest.raises(ConfigError) as caught:
        load(case)
    compare(case / "expected.txt", f"{caught.value}\n")
