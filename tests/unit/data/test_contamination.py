"""Contamination: the same rows, nearly the same rows, and none where only phrases of the data set are shared."""

from __future__ import annotations

import io
import json
from pathlib import Path
from random import Random
from typing import Any

import pytest

from gym.data.contamination import Match, NearRules, Overlap, find_overlap
from gym.data.ngrams import choose_grams, make_grams
from gym.errors import ConfigError, UserError

WORDS = [f"word{number}" for number in range(5000)]


def text(seed: int, words: int = 60) -> str:
    random = Random(seed)
    return " ".join(random.choice(WORDS) for _ in range(words))


def write(path: Path, texts: list[str]) -> str:
    rows: list[Any] = [{"responses_create_params": {"input": [{"role": "user", "content": one}]}} for one in texts]
    path.write_text("".join(json.dumps(one) + "\n" for one in rows))
    return str(path)


def look(folder: Path, a: list[str], b: list[str], **rules: Any) -> tuple[Overlap, list[str]]:
    """What is found, and the lines of A that are left; the same whichever side is held in memory."""
    one, two = write(folder / "a.jsonl", a), write(folder / "b.jsonl", b)
    clean = io.BytesIO()
    found = find_overlap([one], [two], NearRules(**rules), clean=clean)
    return found, [
        json.loads(line)["responses_create_params"]["input"][0]["content"] for line in clean.getvalue().splitlines()
    ]


def places(found: Overlap) -> list[tuple[str, str, bool]]:
    return [(Path(one.row).name, Path(one.other).name, one.exact) for one in found.matches]


@pytest.mark.parametrize("larger", ["a", "b"])
def test_the_same_and_nearly_the_same_rows_are_found_with_both_places(tmp_path: Path, larger: str) -> None:
    filling = [text(seed) for seed in range(100, 200)]
    near = text(1).replace(text(1).split()[30], "changed")
    a = [text(0).upper() + "!", near, text(2), *(filling if larger == "a" else [])]
    b = [text(9), text(0), text(1), *([text(seed) for seed in range(300, 400)] if larger == "b" else [])]
    found, left = look(tmp_path, a, b)
    assert places(found) == [("a.jsonl:1", "b.jsonl:2", True), ("a.jsonl:2", "b.jsonl:3", False)]
    assert 0.5 < found.matches[1].share < 0.9
    assert (found.exact, found.near, found.rows, found.others) == (1, 1, len(a), len(b))
    assert left == a[2:]


def test_a_question_inside_a_long_text_is_found_and_the_other_way_round_is_not(tmp_path: Path) -> None:
    question, around = text(1, 40), text(2, 2000)
    found, _ = look(tmp_path, [f"{around} {question} {text(3, 500)}"], [question])
    assert [one.share for one in found.matches] == [1.0]
    found, _ = look(tmp_path, [question], [f"{around} {question}"])
    assert not found.found


def test_a_phrase_that_most_rows_have_says_nothing(tmp_path: Path) -> None:
    phrase = text(0, 80)
    found, left = look(
        tmp_path,
        [f"{phrase} {text(seed, 20)}" for seed in range(50)],
        [f"{phrase} {text(seed, 20)}" for seed in range(100, 150)],
    )
    assert not found.found
    assert len(left) == 50


def test_the_threshold_and_the_length_of_n_grams_decide(tmp_path: Path) -> None:
    half = " ".join(text(1).split()[:30]) + " " + text(2, 30)
    assert look(tmp_path, [half], [text(1)], share=0.6)[0].found == 0
    assert look(tmp_path, [half], [text(1)], share=0.3)[0].near == 1
    assert look(tmp_path, ["one two three four"], ["zero one two three"], size=13)[0].found == 0
    assert look(tmp_path, ["one two three four"], ["zero one two three"], size=2)[0].near == 1


def test_the_row_it_is_most_like_is_named(tmp_path: Path) -> None:
    near, nearer = text(1).split(), text(1).split()
    near[20], nearer[2] = "x", "y"
    found, _ = look(tmp_path, [text(1)], [text(5), " ".join(near), " ".join(nearer)])
    assert Path(found.matches[0].other).name == "b.jsonl:3"
    found, _ = look(tmp_path, [text(1), text(6), text(7), text(8)], [" ".join(near), " ".join(nearer)])
    assert Path(found.matches[0].other).name == "b.jsonl:2"


def test_rows_without_words_are_counted_and_lines_that_are_not_rows_reported(tmp_path: Path) -> None:
    found, left = look(tmp_path, ["?!", text(1)], ["...", text(2)])
    assert (found.without_text, found.found, len(left)) == (2, 0, 2)
    (tmp_path / "bad.jsonl").write_text("[]\n")
    with pytest.raises(ConfigError, match=r"bad\.jsonl:1: a row is an object"):
        find_overlap([str(tmp_path / "a.jsonl")], [str(tmp_path / "bad.jsonl")], NearRules())


def test_the_list_ends_at_a_thousand_and_the_counts_do_not(tmp_path: Path) -> None:
    found, left = look(tmp_path, [text(1)] * 1200, [text(1)])
    assert (found.exact, len(found.matches), left) == (1200, 1000, [])
    assert isinstance(found.matches[0], Match)


def test_a_long_text_is_stood_for_by_few_n_grams_that_any_text_chooses_alike() -> None:
    grams = make_grams(text(1, 5000), 13)
    assert grams
    chosen = choose_grams(grams.all)
    assert 32 <= len(chosen) <= 140
    again = make_grams(text(1, 5000) + " " + text(2, 40), 13)
    assert again
    assert len(chosen & again.all) == len(chosen)
    assert make_grams("Ｆｕｌｌ, width", 1) == make_grams("full WIDTH", 1)
    plain, wide = make_grams("a_b c-d 1", 1), make_grams("a_b c-d 1 é", 1)  # read in two ways
    assert plain
    assert wide
    assert plain.all < wide.all


@pytest.mark.parametrize("larger", ["a", "b"])
def test_nothing_is_not_said_to_be_clean(tmp_path: Path, larger: str) -> None:
    for name in "ab":
        line = b'{"responses_create_params": {"input": "x"}}\n' if name == larger else b"\n"
        (tmp_path / f"{name}.jsonl").write_bytes(line)
    empty = "b" if larger == "a" else "a"
    with pytest.raises(UserError, match=rf"{empty}\.jsonl: no rows"):
        find_overlap([str(tmp_path / "a.jsonl")], [str(tmp_path / "b.jsonl")], NearRules(13, 0.5))
