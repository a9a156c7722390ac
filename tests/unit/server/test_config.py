"""What a server process gets at its start."""

from __future__ import annotations

import contextlib
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gym import labels
from gym.errors import ConfigError, UserError
from gym.server.config import Settings, addresses, parse_config, read_settings
from gym.server.resources import ResourcesConfig

DOCUMENT: dict[str, Any] = {
    "mcqa": {"resources_servers": {"mcqa": {"host": "127.0.0.1", "port": 9001, "domain": "knowledge"}}},
    "policy_model": {"responses_api_models": {"openai": {"host": "10.0.0.2", "port": 80}}},
    "policy_model_name": "m",
}


def test_a_process_started_by_hand_gets_the_defaults() -> None:
    assert read_settings({}) == Settings()


def test_an_instance_gets_its_own_fields() -> None:
    read = read_settings(
        {
            labels.ENV_CONFIG: json.dumps(DOCUMENT),
            labels.ENV_INSTANCE: "mcqa",
            labels.ENV_LISTEN: "fd:3",
            labels.ENV_REPLICA: "mcqa-1",
            labels.ENV_DRAIN: "1.5",
            labels.ENV_DISCOVERY: "/somewhere",
        }
    )
    assert read.name == "mcqa"
    assert read.fields["domain"] == "knowledge"
    assert (read.listen, read.replica, read.drain_seconds, read.discovery) == ("fd:3", "mcqa-1", 1.5, "/somewhere")
    assert addresses(read.document) == {"mcqa": "http://127.0.0.1:9001", "policy_model": "http://10.0.0.2:80"}


def test_the_document_may_be_yaml_or_a_file(tmp_path: Path) -> None:
    yaml = "mcqa:\n  resources_servers:\n    mcqa: {domain: math}\n"
    path = tmp_path / "config.yaml"
    path.write_text(yaml)
    inline = read_settings({labels.ENV_CONFIG: yaml, labels.ENV_INSTANCE: "mcqa"})
    filed = read_settings({labels.ENV_CONFIG_FILE: str(path), labels.ENV_INSTANCE: "mcqa"})
    assert inline.fields == filed.fields == {"domain": "math"}


def test_a_secret_is_read_from_its_file_and_no_newline_comes_along(tmp_path: Path) -> None:
    (tmp_path / "key").write_text("s3cret\n")
    document = {"m": {"responses_api_models": {"x": {"api_key": "secret://key", "list": ["secret://key"]}}}}
    environ = {labels.ENV_CONFIG: json.dumps(document), labels.ENV_INSTANCE: "m"}
    read = read_settings({**environ, labels.ENV_SECRETS_DIR: str(tmp_path)})
    assert read.fields == {"api_key": "s3cret", "list": ["s3cret"]}
    with pytest.raises(UserError, match="the secret key cannot be read: No such file"):
        read_settings({**environ, labels.ENV_SECRETS_DIR: str(tmp_path / "no")})


@pytest.mark.parametrize(
    ("environ", "said"),
    [
        ({labels.ENV_CONFIG: "{}x: ["}, "neither JSON nor YAML"),
        ({labels.ENV_CONFIG: "[1]"}, "holds a list, not a mapping"),
        ({labels.ENV_CONFIG: "text"}, "holds a str, not a mapping"),
        ({labels.ENV_CONFIG_FILE: "/no/such/file"}, "GYM_CONFIG_FILE=/no/such/file cannot be read"),
        ({labels.ENV_CONFIG: json.dumps(DOCUMENT), labels.ENV_INSTANCE: "other"}, "other is not an instance"),
        ({labels.ENV_DRAIN: "soon"}, "GYM_DRAIN_SECONDS=soon is not a number"),
        ({labels.ENV_DRAIN: "nan"}, "GYM_DRAIN_SECONDS=nan is not a number"),
    ],
)
def test_an_environment_that_is_wrong_is_said_and_no_traceback(environ: dict[str, str], said: str) -> None:
    with pytest.raises(UserError, match=said):
        read_settings(environ)


@given(text=st.text(max_size=40).filter(lambda text: "\0" not in text))
@settings(max_examples=200, deadline=None, derandomize=True)
def test_no_document_gives_anything_but_settings_or_a_users_error(text: str) -> None:
    with contextlib.suppress(UserError):
        read_settings({labels.ENV_CONFIG: text})


def test_an_undeclared_field_is_named_with_the_nearest_one() -> None:
    with pytest.raises(ConfigError, match=r"mcqa: sesion_ttl_seconds: no such field\n.*did you mean session_ttl_sec"):
        parse_config(ResourcesConfig, "mcqa", {"sesion_ttl_seconds": 5})
    with pytest.raises(ConfigError, match="it knows: .*expose_tools_over_mcp"):
        parse_config(ResourcesConfig, "mcqa", {"zzz": 5})


def test_all_problems_come_at_once_with_what_was_found() -> None:
    with pytest.raises(ConfigError) as caught:
        parse_config(ResourcesConfig, "mcqa", {"session_ttl_seconds": "long", "expose_tools_over_mcp": 7})
    assert len(caught.value.problems) == 2
    assert "(found 'long')" in str(caught.value)


def test_a_server_knows_its_name() -> None:
    assert parse_config(ResourcesConfig, "mcqa", {"domain": "math"}).name == "mcqa"


def test_a_holder_of_a_grant_gets_the_broker_and_its_token(tmp_path: Path) -> None:
    (tmp_path / "gym-sandbox-mcqa").write_text("the-token\n")
    environ = {
        labels.ENV_SANDBOX_URL: "http://sandbox:8000",
        labels.ENV_SANDBOX_TOKEN: "secret://gym-sandbox-mcqa",
        labels.ENV_SECRETS_DIR: str(tmp_path),
    }
    read = read_settings(environ)
    assert read.sandbox_access() == ("http://sandbox:8000", "the-token")
    assert "the-token" not in repr(read)


def test_a_request_for_sandboxes_without_a_grant_gets_an_error_with_the_line_to_write() -> None:
    with pytest.raises(UserError, match="mcqa asks for sandboxes, and its configuration grants it none") as caught:
        Settings(name="mcqa").sandbox_access()
    assert "Add `sandbox:` to mcqa's config" in caught.value.hint
