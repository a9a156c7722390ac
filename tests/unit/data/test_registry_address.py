"""How data sets in registries are named, and what a user sets to reach them."""

from __future__ import annotations

import pytest

from gym.data.registries import RegistryAddress, parse_address, read_access
from gym.errors import UserError


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("hf:org/name", RegistryAddress("huggingface", "org/name")),
        ("org/name@v1", RegistryAddress("huggingface", "org/name", "v1")),
        ("hf:org/name@refs/pr/1", RegistryAddress("huggingface", "org/name", "refs/pr/1")),
        ("hf:org", RegistryAddress("huggingface", "org")),
        ("gitlab:mcqa:0.0.1", RegistryAddress("gitlab", "mcqa", "0.0.1")),
        ("mlflow:my set:2", RegistryAddress("gitlab", "my set", "2")),
        ("gitlab:", RegistryAddress("gitlab")),
    ],
)
def test_an_address_says_registry_name_and_version(text: str, address: RegistryAddress) -> None:
    assert parse_address(text) == address
    assert parse_address(str(address)) == address


@pytest.mark.parametrize("text", ["rows.jsonl", "a/b/c", "s3:bucket/x", "hf:../x", "hf:a/b/c", "gitlab:a/b:1", ""])
def test_what_is_not_an_address_is_reported_with_the_forms_there_are(text: str) -> None:
    with pytest.raises(UserError) as caught:
        parse_address(text)
    assert "gitlab:NAME:VERSION" in caught.value.hint


def test_settings_win_over_variables_and_secrets_are_not_shown() -> None:
    access = read_access({"hf_token": "hf_mine"}, {"HF_TOKEN": "hf_other", "MLFLOW_TRACKING_TOKEN": "glpat-x"})
    assert (access.hf_token, access.mlflow_tracking_token) == ("hf_mine", "glpat-x")
    assert "hf_mine" not in repr(access)
    assert "glpat-x" not in repr(access)


def test_what_is_missing_names_the_key_the_file_and_the_variable() -> None:
    with pytest.raises(UserError, match="`mlflow_tracking_uri` is not set") as caught:
        read_access({}, {}).require("mlflow_tracking_uri")
    assert "env.yaml" in caught.value.hint
    assert "MLFLOW_TRACKING_URI" in caught.value.hint


@pytest.mark.parametrize("url", ["file:///etc", "host:5000", "http://user:pass@host"])
def test_a_url_that_is_none_or_holds_a_password_is_refused_without_being_shown(url: str) -> None:
    with pytest.raises(UserError, match="mlflow_tracking_uri") as caught:
        read_access({"mlflow_tracking_uri": url}, {})
    assert "pass@" not in str(caught.value)


def test_a_collection_needs_all_its_three_settings() -> None:
    assert read_access({}, {}).collection == ""
    named = {"hf_organization": "org", "hf_collection_name": "nemo", "hf_collection_slug": "12ab"}
    assert read_access(named, {}).collection == "org/nemo-12ab"
    with pytest.raises(UserError, match="hf_collection_slug"):
        _ = read_access({**named, "hf_collection_slug": None}, {}).collection
