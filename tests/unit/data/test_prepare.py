"""Data sets of servers put together: what is found, refused, written, and that nothing is half-written."""

from __future__ import annotations

import gzip
import json
from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest

from gym.config import Instance, StackConfig
from gym.data.blending import parse_shares
from gym.data.collate import with_agent
from gym.data.data_sets import Listed
from gym.data.preparation import PreparedData, PrepareOptions, prepare
from gym.errors import UserError

Rows = Iterable[dict[str, Any]]


def row(text: str, **fields: Any) -> dict[str, Any]:
    return {"responses_create_params": {"input": [{"role": "user", "content": text}]}, **fields}


class Workshop:
    """A folder with data sets, and the agents that list them."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.out = folder / "out"
        self.said: list[str] = []
        self.on_say: Callable[[str], None] = lambda _: None
        self.blocks: dict[str, list[dict[str, Any]]] = {}

    def add(self, agent: str, split: str, rows: Rows | str | None, *, name: str = "", **block: Any) -> Path:
        name = name or f"{agent}_{split}"
        path = self.folder / f"{name}.jsonl"
        if isinstance(rows, str):
            path.write_text(rows)
        elif rows is not None:
            path.write_text("".join(json.dumps(one) + "\n" for one in rows))
        base = {"name": name, "type": split, "jsonl_fpath": path.name, "license": "MIT"}
        self.blocks.setdefault(agent, []).append(base | block)
        return path

    def prepare(
        self, *, fetch: Callable[[Listed], Path] | None = None, mode: Any = "train_preparation", **options: Any
    ) -> PreparedData:
        agents = tuple(
            Instance(name=name, type="responses_api_agents", implementation="simple_agent", fields={"datasets": blocks})
            for name, blocks in self.blocks.items()
        )
        chosen = PrepareOptions(self.out, mode, **options)
        return prepare(StackConfig(instances=agents), chosen, (self.folder,), fetch=fetch, say=self.say)

    def say(self, line: str) -> None:
        self.said.append(line)
        self.on_say(line)

    def rows(self, split: str = "train") -> list[dict[str, Any]]:
        return [json.loads(line) for line in (self.out / f"{split}.jsonl").read_text().splitlines()]

    def texts(self, split: str = "train") -> list[str]:
        return [one["responses_create_params"]["input"][0]["content"] for one in self.rows(split)]

    def files(self) -> list[str]:
        return sorted(path.name for path in self.out.iterdir()) if self.out.is_dir() else []


@pytest.fixture
def shop(tmp_path: Path) -> Workshop:
    return Workshop(tmp_path)


def test_rows_of_all_agents_are_put_together_each_with_its_agent(shop: Workshop) -> None:
    shop.add("a", "train", [row("one"), row("two", agent_ref={"type": "responses_api_agents", "name": "b"})])
    shop.add("b", "train", [row("three", agent_ref=None)], num_repeats=2)
    shop.add("b", "validation", [row("four")])
    done = shop.prepare()
    assert shop.texts() == ["one", "two", "three", "three"]
    assert [one["agent_ref"] for one in shop.rows()] == [
        {"type": "responses_api_agents", "name": name} for name in ("a", "b", "b", "b")
    ]
    assert [(one.split, one.rows) for one in done.splits] == [("train", 4), ("validation", 1)]
    assert shop.files() == ["train.jsonl", "train_metrics.json", "validation.jsonl", "validation_metrics.json"]


def test_a_row_keeps_its_own_bytes(shop: Workshop) -> None:
    raw = '{"responses_create_params":{"input":"h\\u00e9"},  "n": 123456789012345678901234567890, "x": 1.50 }'
    shop.add("a", "train", raw + "\n\n")
    shop.prepare()
    text = (shop.out / "train.jsonl").read_text()
    assert text == raw[:-2] + ', "agent_ref": {"type": "responses_api_agents", "name": "a"}}\n'


def test_metrics_are_written_beside_the_rows_and_for_each_type(shop: Workshop) -> None:
    shop.add("a", "train", [row("x", level=1)], num_repeats=3)
    shop.add("b", "train", [row("y", level=5)])
    shop.prepare()
    beside = json.loads((shop.folder / "a_train_metrics.json").read_text())
    assert (beside["Number of examples"], beside["level"]["Average"]) == (3, 1.0)
    whole = json.loads((shop.out / "train_metrics.json").read_text())
    assert (whole["name"], whole["Number of examples"], whole["level"]["Average"]) == ("a_train", 4, 2.0)


def test_a_slice_takes_rows_by_their_place_and_blank_lines_do_not_count(shop: Workshop) -> None:
    lines = [json.dumps(row(str(number))) for number in range(6)]
    shop.add("a", "train", "\n\n".join(lines), start_idx=1, end_idx=4, num_repeats=2)
    done = shop.prepare()
    assert shop.texts() == ["1", "1", "2", "2", "3", "3"]
    assert done.splits[0].metrics["Number of examples"] == 6


def test_missing_examples_are_named(shop: Workshop) -> None:
    shop.add("a", "example", None)
    with pytest.raises(UserError, match=r"(?s)examples are missing.*a: a_example \(example\): a_example\.jsonl"):
        shop.prepare(mode="example_validation")


def test_what_is_missing_names_the_option_that_fetches_it(shop: Workshop) -> None:
    shop.add("a", "train", None)
    with pytest.raises(UserError, match=r"(?s)a_train\.jsonl.*--download"):
        shop.prepare()
    assert shop.files() == []


def test_what_is_missing_is_fetched_and_the_rest_is_not(shop: Workshop) -> None:
    path = shop.add("a", "train", None)
    shop.add("a", "validation", [row("two")])
    asked = []

    def fetch(listed: Listed) -> Path:
        asked.append(listed.data.name)
        path.write_text(json.dumps(row("one")))
        return path

    shop.prepare(fetch=fetch)
    assert asked == ["a_train"]
    assert shop.texts() == ["one"]
    assert [line.partition(":")[0] for line in shop.said[:2]] == ["missing", "found"]


def test_the_mode_decides_which_types_are_in_scope(shop: Workshop) -> None:
    shop.add("a", "example", [row("e")])
    with pytest.raises(UserError, match="what they list: example"):
        shop.prepare()
    shop.add("a", "benchmark", [row("b")])
    shop.prepare(mode="example_validation")
    shop.prepare()
    assert [name for name in shop.files() if name.endswith("l")] == ["benchmark.jsonl", "example.jsonl"]


def test_a_bad_row_stops_everything_with_its_place(shop: Workshop) -> None:
    shop.add("a", "train", [row("fine")] * 3)
    shop.add("b", "validation", [row("fine"), {"input": []}, {"input": []}])
    with pytest.raises(
        UserError, match=r"(?s)b_validation\.jsonl:2-3: responses_create_params: is missing.*nothing was"
    ):
        shop.prepare()
    assert shop.files() == []
    assert not list(shop.folder.glob("*_metrics.json"))


def test_an_output_that_is_a_file_is_reported(shop: Workshop) -> None:
    shop.add("a", "train", [row("x")])
    shop.out.write_text("mine")
    with pytest.raises(UserError, match="out is a file"):
        shop.prepare()
    assert shop.out.read_text() == "mine"


@pytest.mark.parametrize("text", ["", "\n\n", "{", '{"responses_create_params": {"input": NaN}}'])
def test_a_file_without_rows_or_json_stops_everything(shop: Workshop, text: str) -> None:
    shop.add("a", "train", text)
    with pytest.raises(UserError, match=r"a_train\.jsonl"):
        shop.prepare()
    assert shop.files() == []


def test_a_slice_beyond_the_end_is_reported(shop: Workshop) -> None:
    shop.add("a", "train", [row("x")], start_idx=5)
    with pytest.raises(UserError, match="holds no row for a: a_train"):
        shop.prepare()


def test_an_agent_that_is_none_is_reported(shop: Workshop) -> None:
    shop.add("a", "train", [row("x", agent_ref={"type": "responses_api_agents", "name": "other"})])
    with pytest.raises(UserError, match=r"a_train\.jsonl:1: agent_ref\.name"):
        shop.prepare()


def test_a_seed_shuffles_and_gives_the_same_order_each_time(shop: Workshop) -> None:
    shop.add("a", "train", [row(str(number)) for number in range(50)], num_repeats=2)
    shop.prepare(seed=3)
    first = shop.texts()
    assert first != sorted(first, key=int)
    assert Counter(first) == {str(number): 2 for number in range(50)}
    shop.prepare(seed=3)
    assert shop.texts() == first
    shop.prepare(seed=4)
    assert shop.texts() != first


def blended(shop: Workshop) -> None:
    shop.add("a", "train", [row(f"a{number}") for number in range(40)])
    shop.add("b", "train", [row(f"b{number}") for number in range(5)], num_repeats=2)
    shop.add("c", "train", [row("c")])
    shop.add("b", "validation", [row("v1"), row("v2")])


def test_a_blend_keeps_its_shares_and_leaves_out_what_it_does_not_name(shop: Workshop) -> None:
    blended(shop)
    done = shop.prepare(shares=parse_shares("a=2,b_train=1,b=1"))
    texts = shop.texts()
    assert texts[:6] == ["a0", "b0", "a1", "a2", "b0", "a3"]
    assert Counter(text[0] for text in texts) == {"a": 20, "b": 10}
    assert done.splits[0].taken == {"a": 20, "b": 10}
    assert shop.texts("validation") == ["v1", "v2"]
    assert done.splits[0].metrics["Number of examples"] == 30
    assert done.splits[0].metrics["Number of unique user messages"] == 25


def test_a_shuffled_blend_chooses_among_all_rows(shop: Workshop) -> None:
    blended(shop)
    shop.prepare(shares=parse_shares("a=1,b=1"), seed=1)
    texts = shop.texts()
    assert Counter(text[0] for text in texts) == {"a": 10, "b": 10}
    assert any(int(text[1:]) >= 10 for text in texts if text[0] == "a")
    shop.prepare(shares=parse_shares("a=1,b=1"), seed=1, overwrite_conflicts=True)
    assert shop.texts() == texts


def test_a_name_that_is_not_in_scope_names_the_nearest(shop: Workshop) -> None:
    blended(shop)
    with pytest.raises(UserError, match=r"(?s)'b_trian'.*did you mean b_train\?"):
        shop.prepare(shares=parse_shares("a=1,b_trian=1"))


@pytest.mark.parametrize(("same", "texts"), [("params", ["x", "y"]), ("row", ["x", "x", "y"]), ("", ["x"] * 3 + ["y"])])
def test_of_rows_that_are_the_same_the_first_stays(shop: Workshop, same: str, texts: list[str]) -> None:
    shop.add("a", "train", [row("x", n=1), row("x", n=2)])
    shop.add("b", "train", [row("x", n=1), row("y")])
    done = shop.prepare(dedup=same)
    assert shop.texts() == texts
    assert done.dropped == 4 - len(texts)
    assert done.splits[0].metrics["Number of examples"] == len(texts)


def test_rows_that_differ_in_late_digits_are_not_the_same(shop: Workshop) -> None:
    shop.add("a", "train", "".join(json.dumps(row("x", n=2**70 + one)) + "\n" for one in (0, 1, 1)))
    assert shop.prepare(dedup="row").dropped == 1
    assert [one["n"] - 2**70 for one in shop.rows()] == [0, 1]


def test_a_blend_that_leaves_nothing_of_one_is_reported(shop: Workshop) -> None:
    blended(shop)
    with pytest.raises(UserError, match="these shares leave no row of c; there are a 40, c 1"):
        shop.prepare(shares=parse_shares("a=100,c=1"))


def test_a_prompt_in_train_and_validation_is_reported_with_both_places(shop: Workshop) -> None:
    shop.add("a", "train", [row("x"), row("same", n=1)])
    shop.add("b", "validation", [row("y"), row("z"), row("same", n=2)])
    with pytest.raises(UserError, match=r"a_train\.jsonl:2 asks the same as .*b_validation\.jsonl:3") as error:
        shop.prepare()
    assert "has 1 prompts" in error.value.what
    assert shop.files() == []
    shop.prepare(allow_leakage=True)
    assert any("asks the same as" in line for line in shop.said)
    assert len(shop.rows("validation")) == 3


def test_a_prompt_that_is_twice_in_train_alone_is_not_a_leak(shop: Workshop) -> None:
    shop.add("a", "train", [row("x"), row("x")])
    shop.add("a", "validation", [row("y"), row("y")])
    shop.prepare()
    assert not any("asks the same as" in line for line in shop.said)
    assert (len(shop.rows("train")), len(shop.rows("validation"))) == (2, 2)


def test_metrics_that_say_otherwise_stop_with_a_diff(shop: Workshop) -> None:
    path = shop.add("a", "train", [row("x")])
    shop.prepare()
    path.write_text(json.dumps(row("x")) + "\n" + json.dumps(row("y z")) + "\n")
    old = (shop.out / "train.jsonl").read_text()
    with pytest.raises(UserError, match=r"(?s)a_train_metrics\.json has other.*Number of examples: was 1, is 2"):
        shop.prepare()
    assert (shop.out / "train.jsonl").read_text() == old
    conflict = json.loads((shop.folder / "a_train_metrics_conflict.json").read_text())
    assert conflict["Number of examples"] == 2
    shop.prepare(overwrite_conflicts=True)
    assert json.loads((shop.folder / "a_train_metrics.json").read_text()) == conflict
    assert shop.texts() == ["x", "y z"]


def test_metrics_that_are_right_are_not_written_again(shop: Workshop) -> None:
    shop.add("a", "train", [row("x")])
    shop.prepare()
    beside = shop.folder / "a_train_metrics.json"
    older = {key: value for key, value in json.loads(beside.read_text()).items() if key != "Tokenizer"}
    beside.write_text(json.dumps(older))
    shop.prepare()
    assert json.loads(beside.read_text()) == older


def test_metrics_of_something_else_are_left_alone(shop: Workshop) -> None:
    shop.add("a", "example", [row("x")])
    (shop.folder / "a_example_metrics.json").write_text("[]")
    shop.prepare(mode="example_validation")
    assert (shop.folder / "a_example_metrics.json").read_text() == "[]"
    assert any("left as it is" in line for line in shop.said)


def test_an_output_never_takes_the_place_of_its_input(shop: Workshop) -> None:
    path = shop.add("a", "train", [row("x")], name="train")
    shop.out = shop.folder
    with pytest.raises(UserError, match="would be written over"):
        shop.prepare()
    assert "agent_ref" not in path.read_text()


def test_two_data_sets_of_one_file_that_differ_are_reported(shop: Workshop) -> None:
    shop.add("a", "train", [row("x")], name="shared")
    shop.add("b", "train", None, name="shared", num_repeats=2)
    with pytest.raises(UserError, match=r"(?s)Two data sets write .*shared_metrics\.json.*num_repeats: was 1, is 2"):
        shop.prepare()
    assert shop.files() == []


def test_a_file_that_is_written_meanwhile_is_reported(shop: Workshop) -> None:
    path = shop.add("a", "train", [row("x")])

    def write(line: str) -> None:
        if line.startswith("writing"):
            path.write_text(json.dumps(row("longer than before")))

    shop.on_say = write
    with pytest.raises(UserError, match="was written while"):
        shop.prepare()
    assert shop.files() == []


def test_an_interrupted_run_leaves_nothing(shop: Workshop) -> None:
    shop.add("a", "train", [row("x")])
    shop.add("a", "validation", [row("y")])

    def interrupt(line: str) -> None:
        if line.endswith("validation.jsonl") and line.startswith("writing"):
            assert (shop.out / ".train.jsonl.part").is_file()
            raise KeyboardInterrupt

    shop.on_say = interrupt
    with pytest.raises(KeyboardInterrupt):
        shop.prepare()
    assert shop.files() == []
    assert not list(shop.folder.glob("*_metrics.json"))


def test_a_template_is_not_left_out_in_silence(shop: Workshop) -> None:
    shop.add("a", "benchmark", [row("x")], prompt_config="prompts/x.yaml")
    with pytest.raises(UserError, match="has a prompt_config"):
        shop.prepare()


def test_gzip_reads_as_the_rows_within(shop: Workshop) -> None:
    path = shop.add("a", "train", [row("x"), row("y")])
    packed = path.with_suffix(".jsonl.gz")
    packed.write_bytes(gzip.compress(path.read_bytes()))
    path.unlink()
    shop.blocks["a"][0]["jsonl_fpath"] = packed.name
    shop.prepare()
    assert shop.texts() == ["x", "y"]
    assert (shop.folder / "a_train_metrics.json").is_file()
    packed.write_bytes(packed.read_bytes()[:-12])
    with pytest.raises(UserError, match="cannot be read"):
        shop.prepare()


def test_another_blend_into_the_same_folder_is_a_conflict_there(shop: Workshop) -> None:
    blended(shop)
    shop.prepare(shares=parse_shares("a=1,b=1"))
    before = (shop.out / "train.jsonl").read_bytes()
    with pytest.raises(UserError, match=r"(?s)out/train_metrics\.json has other.*--overwrite-metrics-conflicts"):
        shop.prepare(shares=parse_shares("a=2,b=1"))
    assert (shop.out / "train.jsonl").read_bytes() == before
    assert (shop.out / "train_metrics_conflict.json").is_file()


@pytest.mark.parametrize(
    ("raw", "line"),
    [
        ('{"a": 1}', '{"a": 1, "agent_ref": {"type": "responses_api_agents", "name": "x"}}'),
        ('{"agent_ref": {"name": "y"}}', '{"agent_ref": {"name": "y"}}'),
        ('{"agent\\u005fref": {"name": "y"}}', '{"agent\\u005fref": {"name": "y"}}'),
        (
            '{"a": "agent_ref \\u00e9"}',
            '{"a": "agent_ref \\u00e9", "agent_ref": {"type": "responses_api_agents", "name": "x"}}',
        ),
        (
            '{"agent_ref": null, "n": 100000000000000000001}',
            '{"agent_ref": {"type": "responses_api_agents", "name": "x"}, "n": 100000000000000000001}',
        ),
    ],
)
def test_an_agent_is_added_where_a_row_names_none(raw: str, line: str) -> None:
    assert with_agent(raw.encode(), "x").decode() == line
    assert with_agent(raw.encode(), "").decode() == raw
