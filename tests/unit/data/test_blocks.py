"""`datasets:` blocks: sources, slices, licences; everything wrong is reported at once with its file, line and path."""

from __future__ import annotations

from typing import Any

import pytest

from gym.config import Instance, Location, StackConfig
from gym.data.data_sets import list_data_sets
from gym.errors import ConfigError

GITLAB = {"dataset_name": "a", "version": "0.0.1", "artifact_fpath": "a.jsonl"}
HUB = {"repo_id": "org/a"}


def stack(*blocks: dict[str, Any], settings: dict[str, Any] | None = None) -> StackConfig:
    base = {"name": "a", "type": "train", "jsonl_fpath": "a.jsonl", "license": "MIT"}
    agent = Instance(
        name="a_agent",
        type="responses_api_agents",
        implementation="simple_agent",
        fields={"datasets": [{key: value for key, value in (base | block).items() if value != ""} for block in blocks]},
        origin=Location(file="a.yaml", line=7),
    )
    return StackConfig(instances=(agent,), settings=settings or {})


def problems(*blocks: dict[str, Any], settings: dict[str, Any] | None = None) -> list[str]:
    with pytest.raises(ConfigError) as error:
        list_data_sets(stack(*blocks, settings=settings))
    return [str(one) for one in error.value.problems]


def test_both_older_identifiers_may_be_there_and_the_hub_comes_first() -> None:
    (one,) = list_data_sets(stack({"gitlab_identifier": GITLAB, "huggingface_identifier": HUB}))
    assert [source.type for source in one.data.sources()] == ["huggingface", "gitlab"]


@pytest.mark.parametrize(
    ("source", "kind"), [({"type": "huggingface", **HUB}, "huggingface"), ({"type": "gitlab", **GITLAB}, "gitlab")]
)
def test_a_source_is_of_the_type_it_says(source: dict[str, Any], kind: str) -> None:
    (one,) = list_data_sets(stack({"source": source}))
    assert [found.type for found in one.data.sources()] == [kind]


@pytest.mark.parametrize("older", [{"gitlab_identifier": GITLAB}, {"huggingface_identifier": HUB}])
def test_a_source_excludes_the_older_identifiers(older: dict[str, Any]) -> None:
    (text,) = problems({"source": {"type": "huggingface", **HUB}, **older})
    assert "keep one" in text
    assert text.startswith("a.yaml:7: a_agent.responses_api_agents.simple_agent.datasets[0]: ")


def test_a_slice_needs_its_start_before_its_end() -> None:
    (one,) = list_data_sets(stack({"start_idx": 2, "end_idx": 5}))
    assert (one.data.start_idx, one.data.end_idx) == (2, 5)
    for start, end in ((5, 5), (6, 5)):
        assert "no row is left" in problems({"start_idx": start, "end_idx": end})[0]
    assert "start_idx" in problems({"start_idx": -1})[0]


@pytest.mark.parametrize(
    ("block", "message"),
    [
        ({"num_repeats": 0}, "datasets[0].num_repeats: Input should be greater than or equal to 1"),
        ({"num_repeats": "many"}, "datasets[0].num_repeats: Input should be a valid integer"),
        ({"jsonl_fpath": 5}, "datasets[0].jsonl_fpath: Input should be a valid string"),
        ({"jsonl_fpath": "", "jsonl_path": "a.jsonl"}, "did you mean jsonl_fpath where you wrote jsonl_path?"),
        ({"source": {"repo_id": "org/a"}}, "source: Unable to extract tag using discriminator 'type'"),
        ({"source": {"type": "s3"}}, "source: Input tag 's3'"),
        ({"huggingface_identifier": {}}, "huggingface_identifier.repo_id: Field required"),
        ({"type": "trian"}, "did you mean train?"),
        ({"type": "test"}, "Input should be 'train', 'validation', 'example' or 'benchmark'"),
    ],
)
def test_a_block_that_is_wrong_says_where_and_what_to_write(block: dict[str, Any], message: str) -> None:
    (found,) = problems(block)
    assert message in found


def test_an_entry_that_is_not_a_block_is_reported() -> None:
    agent = stack({}).instances[0].model_copy(update={"fields": {"datasets": ["a.jsonl"]}})
    with pytest.raises(ConfigError, match=r"datasets\[0\]"):
        list_data_sets(StackConfig(instances=(agent,)))
    agent = agent.model_copy(update={"fields": {"datasets": {"name": "a"}}})
    with pytest.raises(ConfigError, match=r"datasets: .*a list"):
        list_data_sets(StackConfig(instances=(agent,)))


@pytest.mark.parametrize("split", ["train", "validation"])
def test_data_to_train_or_validate_on_needs_a_licence(split: str) -> None:
    (text,) = problems({"type": split, "license": ""})
    assert text.startswith("a.yaml:7: a_agent.responses_api_agents.simple_agent.datasets[0].license: is missing")
    for known in ("Apache 2.0", "TBD", "NVIDIA Internal Use Only, Do Not Distribute"):
        assert known in text


@pytest.mark.parametrize("split", ["example", "benchmark"])
def test_examples_and_benchmarks_may_do_without(split: str) -> None:
    assert len(list_data_sets(stack({"type": split, "license": ""}))) == 1


def test_a_licence_that_is_not_known_names_the_nearest_or_the_setting() -> None:
    assert "did you mean 'Apache 2.0'?" in problems({"license": "Apache-2.0"})[0]
    assert "add it to `data_licenses`" in problems({"license": "Ours"})[0]


def test_further_licences_come_from_the_configuration() -> None:
    listed = list_data_sets(stack({"license": "Our Licence 1.0"}, settings={"data_licenses": ["Our Licence 1.0"]}))
    assert listed[0].data.license == "Our Licence 1.0"
    assert "must be a list of names" in problems({}, settings={"data_licenses": "MIT"})[0]
    assert "must be a list of names" in problems({}, settings={"data_licenses": [""]})[0]


def test_all_that_is_wrong_is_reported_at_once() -> None:
    found = problems({"license": ""}, {"num_repeats": 0}, {"type": "test"})
    assert [one.split("datasets")[1][:3] for one in found] == ["[0]", "[1]", "[2]"]
