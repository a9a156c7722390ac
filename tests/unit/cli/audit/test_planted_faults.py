"""The audit is audited: a verifier with one planted fault at a time loses each of them, and a clean one none."""

from __future__ import annotations

import ast
import json
import re
import unicodedata
from collections.abc import Iterator
from typing import Any, ClassVar, Literal

import pytest

from gym.cli.audit.process import SURFACE, audit
from gym.cli.audit.subject import AuditFinding
from gym.server import ResourcesServer, Tolerated, VerifyRequest
from gym.server.cases import Case
from gym.server.resources import ResourcesConfig
from gym.wire import items


class Row(VerifyRequest):
    expected_answer: str
    form: Literal["number", "letter", "JSON", "code"] = "number"


class FaultsConfig(ResourcesConfig):
    faults: list[str] = []
    strict: bool = False


class Planted(ResourcesServer[None]):
    """Reads a number or letter from the last box, JSON or a program from a fence; each fault is a word in `faults`."""

    config: FaultsConfig

    async def verify(self, rollout: Row) -> float:
        text = rollout.last_text
        if self.has("CRLF") and "\r" in text:
            return 0.0
        if self.has("ends with the answer") and not re.search(r"[}`*\d]\.?\s*$", text):
            return 0.0
        if self.has("empty pays") and not text.strip():
            return 1.0
        if rollout.form == "JSON":
            return float(self.is_record(text, json.loads(rollout.expected_answer)))
        if rollout.form == "code":
            return float(self.is_program(text, rollout.expected_answer))
        return float(self.is_value(text, rollout.expected_answer))

    def has(self, fault: str) -> bool:
        return fault in self.config.faults

    def is_value(self, text: str, expected: str) -> bool:
        boxes = re.findall(r"\\boxed\{((?:[^{}]|\{[^{}]*\})*)\}", text)
        if self.has("any place pays"):
            return expected in text
        if not boxes or (self.is_taken_back(text) and not self.has("retraction pays")):
            return False
        said = self.cleaned(boxes[0 if self.has("first box counts") else -1])
        if self.has("denial pays"):
            said = re.sub(r"^(definitely )?not |\\ne |( is wrong)$", "", said)
        if self.has("guesses pay") and expected in re.split(r",\s*", said):
            return True
        if self.has("both pay") and expected in re.split(r" or | and | = | \\lor ", said):
            return True
        return self.is_same(said, expected)

    def is_same(self, said: str, expected: str) -> bool:
        if said == expected:
            return True
        try:
            one, two = float(said.replace(",", "")), float(expected)
        except ValueError:
            return False
        if self.has("number formats fail"):
            return False
        return abs(one - two) <= (1 if self.has("off by one pays") else 0)

    def cleaned(self, said: str) -> str:
        said = said if self.has("full width fails") else unicodedata.normalize("NFKC", said)
        said = said if self.has("bold fails") else said.strip("*`")
        return said.strip().rstrip(".")

    def is_taken_back(self, text: str) -> bool:
        return "I do not know" in text.rpartition("\\boxed")[2]

    def is_record(self, text: str, expected: Any) -> bool:
        found = re.search(r"```json\n(.*?)```", text.replace("\r\n", "\n"), re.S)
        try:
            record = json.loads(found[1]) if found else None
        except ValueError:
            return False
        if not isinstance(record, dict):
            return False
        if self.has("order of keys matters") and list(record) != list(expected):
            return False
        return bool(record) if self.has("any record pays") else record == expected

    def is_program(self, text: str, expected: str) -> bool:
        found = re.search(r"```python\n(.*?)```", text.replace("\r\n", "\n"), re.S)
        if not found:
            return False
        if self.has("code is compared as text"):
            return found[1].strip() == expected.strip()
        return bool(ast.dump(_nameless(found[1])) == ast.dump(_nameless(expected)) or self.has("any program pays"))


class Standing(Planted):
    """Stands by its faults."""

    tolerates: ClassVar = (Tolerated("retraction", "the last box counts, whatever is said of it later", 1.0),)


def _nameless(code: str) -> ast.AST:
    """Local names do not matter."""
    try:
        tree = ast.parse(code)
    except SyntaxError:
        return ast.Constant(None)
    stored = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and node.id in stored:
            node.id = "_"
    return tree


PROGRAM = "total = 0\nfor number in range(5):\n    total += number\nprint(total)\n"
RECORD = {"name": "owl", "legs": 2}
ORACLES = {
    "number": (r"It is \boxed{54321}.", "54321"),
    "letter": (r"So \boxed{B}.", "B"),
    "JSON": (f"Here:\n```json\n{json.dumps(RECORD)}\n```", json.dumps(RECORD)),
    "code": (f"So:\n```python\n{PROGRAM}```", PROGRAM),
}
FAULTS = {
    "first box counts": "right then wrong",
    "any place pays": "near misses",
    "guesses pay": "near misses: list of guesses",
    "both pay": "near misses: both options",
    "denial pays": "near misses: denial",
    "retraction pays": "near misses: retraction",
    "off by one pays": "near misses: n+1",
    "any record pays": "near misses: broken field",
    "any program pays": "near misses: hollow program",
    "empty pays": "empty",
    "bold fails": "harmless changes: bold inside",
    "full width fails": "harmless changes: full-width",
    "number formats fail": "harmless changes: number format",
    "CRLF": "harmless changes: CRLF",
    "ends with the answer": "harmless changes: polite words after",
    "order of keys matters": "harmless changes: keys in another order",
    "code is compared as text": "harmless changes: rewritten code",
}


def rows() -> Iterator[dict[str, Any]]:
    for form, (_, expected) in ORACLES.items():
        yield {"responses_create_params": {"input": "How many?"}, "expected_answer": expected, "form": form}


def cases() -> Iterator[Case]:
    for row, (answer, _) in zip(rows(), ORACLES.values(), strict=True):
        request = {**row, "response": {"output": [items.message(answer)]}}
        fields = {"kind": "full_reward", "expected_reward": 1.0, "oracle": True, "request": request}
        yield Case.model_validate({"name": row["form"], **fields})


async def findings_of(
    *faults: str, server: type[Planted] = Planted, only: tuple[str, ...] = SURFACE
) -> list[AuditFinding]:
    fields = {"faults": list(faults)}
    found = await audit(
        server.app(), "planted", fields, tuple(cases()), tuple(rows()), quick=True, only=only, strict=True
    )
    return [one for one in found if not one.passed]


async def test_a_clean_verifier_loses_nothing() -> None:
    assert await findings_of(only=(*SURFACE, "worthless answers", "constant answers")) == []


@pytest.mark.parametrize(("fault", "message"), FAULTS.items())
async def test_every_planted_fault_is_found_and_named(fault: str, message: str) -> None:
    check, _, name = message.partition(": ")
    only = check if check in SURFACE else "worthless answers"
    found = {one.check: one.detail for one in await findings_of(fault, only=(only,))}
    assert check in found, found
    assert name in found[check]


async def test_all_faults_at_once_are_found_all_the_same() -> None:
    failed = {one.check for one in await findings_of("first box counts", "CRLF", "off by one pays")}
    assert failed == {"all options", "right then wrong", "harmless changes", "near misses"}


async def test_what_a_server_declares_with_a_reason_is_not_a_fault_and_is_shown() -> None:
    assert await findings_of("retraction pays", server=Standing) == []
    assert [one.check for one in await findings_of("retraction pays")] == ["near misses"]


def test_what_is_tolerated_needs_a_reason() -> None:
    with pytest.raises(ValueError, match="a reason"):
        Tolerated("retraction", "")


class Bare(ResourcesServer[None]):
    """Without a strict mode: any place pays."""

    async def verify(self, rollout: Row) -> float:
        return float(rollout.expected_answer in rollout.last_text)


async def test_both_modes_are_distinguished_and_only_strict_binds() -> None:
    app = Planted.app()
    found = await audit(app, "planted", {"faults": ["CRLF"]}, tuple(cases()), tuple(rows()), quick=True, only=SURFACE)
    findings = {(one.check, one.mode): one for one in found}
    default, strict = (findings["harmless changes", mode] for mode in ("default", "strict"))
    assert (default.passed, default.binding, default.figures["wrong"]) == (True, False, 4)
    assert (strict.passed, strict.binding, strict.figures["wrong"]) == (False, True, 4)


async def test_an_audit_tells_which_check_it_has_come_to_in_both_modes() -> None:
    checks: list[str] = []
    only = ("all options", "near misses")
    await audit(Planted.app(), "planted", {}, tuple(cases()), tuple(rows()), quick=True, only=only, tell=checks.append)
    plain = ["all options, 1 of 2", "near misses, 2 of 2"]
    assert checks == [*plain, *(f"{one} in strict mode" for one in plain)]


async def test_without_a_strict_mode_it_is_shown_once() -> None:
    found = await audit(Bare.app(), "bare", {}, tuple(cases()), tuple(rows()), quick=True, only=SURFACE)
    assert {one.mode for one in found} == {"default"}
    assert all(one.passed for one in found)
    assert next(one for one in found if one.check == "near misses").figures["wrong"] > 4
