"""The length of prompts: which text a model reads, the estimate, and tokenizers that are not here."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

from gym.data.token_counts import estimate_tokens, open_tokenizer, prompt_text
from gym.errors import UserError


def test_the_text_of_a_prompt_is_all_that_a_model_reads() -> None:
    params = {
        "instructions": "Be kind.",
        "input": [
            {"role": "user", "content": [{"type": "input_text", "text": "one"}, {"type": "input_image"}]},
            {"type": "function_call", "name": "look", "arguments": '{"x":1}', "call_id": "c1"},
            {"type": "function_call_output", "output": "found", "call_id": "c1"},
            {"role": "assistant", "content": "two"},
        ],
        "tools": [{"name": "look"}],
        "temperature": 1.0,
    }
    assert prompt_text(params) == 'Be kind.\none\nlook\n{"x":1}\nfound\ntwo\n[{"name":"look"}]'
    assert prompt_text({"input": "plain"}) == "plain"


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        ("", 0),
        ("hello", 1),  # one word
        ("one two three", 1 + 2),  # 2 blanks of 6 fifths
        ("2+2=4", 1 + 3),  # 5 marks of 3 fifths
        ("\u4f60\u597d", 1 + 2),  # 6 bytes of 2 fifths
        ("\ud800", 2),  # half a pair, which is not UTF-8: 3 bytes
    ],
)
def test_the_estimate_is_made_of_blanks_marks_and_other_bytes(text: str, tokens: int) -> None:
    assert estimate_tokens(text) == tokens


def test_a_tokenizer_file_that_is_not_there_is_reported(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="no tokenizer file"):
        open_tokenizer(str(tmp_path / "tokenizer.json"))


@pytest.mark.parametrize(("package", "name"), [("tokenizers", "tokenizer.json"), ("tiktoken", "cl100k_base")])
def test_a_package_that_is_not_installed_is_named(
    package: str, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("tokenizer.json").write_text("{}")
    assert importlib.util.find_spec(package) is None, "this test is about an environment without it"
    with pytest.raises(UserError, match=f"needs the package {package}"):
        open_tokenizer(name)
