"""What counts as a secret, and that none is left in what is shown."""

from __future__ import annotations

import json

import pytest

from gym.config import collect_secrets, is_secret_key, redact, redact_text
from tests.support.config_tree import ConfigTree


@pytest.mark.parametrize(
    "key",
    [
        "api_key", "openai_api_key", "policy_api_key", "OPENAI_API_KEY", "apiKey", "apikey", "x-api-key", "hf_token",
        "wandb_api_key", "mlflow_tracking_token", "Authorization", "password", "dbPassword", "client_secret", "token",
        "access_token", "auth_tokens", "api_keys", "credentials", "key", "secret", "AWS_SECRET_ACCESS_KEY", "cookie",
        "ssh_private_key", "PGPASSWORD", "appsecret", "auth", "basic_auth",
    ],
)  # fmt: skip
def test_these_keys_are_secret(key: str) -> None:
    assert is_secret_key(key)


@pytest.mark.parametrize(
    "key",
    [
        "max_tokens", "max_output_tokens", "tokenizer", "num_tokens", "total_tokens", "tokens", "key_metrics", "keys",
        "token_id_capture", "return_token_id_information", "eos_token", "pad_token", "stop_token", "monkey", "keyboard",
        "sort_key", "metric_key", "domain", "author", "openai_base_url", "", "secretary",
    ],
)  # fmt: skip
def test_these_keys_are_not_secret(key: str) -> None:
    assert not is_secret_key(key)


def test_secret_values_are_masked_wherever_they_stand() -> None:
    tree = {
        "policy_api_key": "sk-12345678",
        "max_tokens": 100,
        "nested": [{"hf_token": "hf_abcdefgh"}, {"command": "run --with hf_abcdefgh now"}],
        "api_keys": ["one-secret", {"deep": "two-secret"}],
        "password": 12345,
        "credentials": {"user": "ann", "n": 3},
        "api_key": "",
        "token": "${oc.env:TOKEN}",
        "other_token": "${oc.env:TOKEN,fallback}",
        "use_token": True,
        "secret": None,
    }
    assert redact(tree) == {
        "policy_api_key": "****",
        "max_tokens": 100,
        "nested": [{"hf_token": "****"}, {"command": "run --with **** now"}],
        "api_keys": ["****", {"deep": "****"}],
        "password": "****",
        "credentials": {"user": "****", "n": 3},
        "api_key": "",
        "token": "${oc.env:TOKEN}",
        "other_token": "****",
        "use_token": True,
        "secret": None,
    }
    assert tree["policy_api_key"] == "sk-12345678"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("http://ann:pw@host:1/v1", "http://****@host:1/v1"),
        ("postgres://ghp_abc@host/db", "postgres://****@host/db"),
        ("https://h/v1?api_key=abc&n=1#x", "https://h/v1?api_key=****&n=1#x"),
        ("https://h/?a=1&token=abc", "https://h/?a=1&token=****"),
        ("https://h/?sig=abc", "https://h/?sig=****"),
        ("Bearer abcdefgh", "Bearer ****"),
        ("http://host:8000/v1?max_tokens=5", "http://host:8000/v1?max_tokens=5"),
        ("mail ann@host about it", "mail ann@host about it"),
        ("the bearer of news", "the bearer of news"),
        (f"run with sk-proj-{'a1' * 12} now", "run with **** now"),
        (f"hf_{'Ab' * 12}", "****"),
        ("-----BEGIN PRIVATE KEY-----\nabc\n-----END PRIVATE KEY-----\n", "****\n"),
        ("the task-of-the-disk-is-long-enough-for-this", "the task-of-the-disk-is-long-enough-for-this"),
    ],
)
def test_credentials_inside_a_text_are_masked(text: str, shown: str) -> None:
    assert redact_text(text) == shown
    assert redact({"url": text}) == {"url": shown}


def test_a_short_secret_does_not_mask_the_word_elsewhere() -> None:
    assert redact({"api_key": "EMPTY", "note": "EMPTY box"}) == {"api_key": "****", "note": "EMPTY box"}


def test_every_secret_of_a_stack_is_collected_by_its_path(tree: ConfigTree) -> None:
    tree.usual_servers()
    settings = ("policy_base_url=http://u:p@h/v1", "policy_api_key=sk-1", "policy_model_name=m")
    extra = ("+policy_model.env={HF_TOKEN: hf-1, A: b}", "+policy_model.responses_api_models.openai.max_tokens=5")
    stack = tree.load("mcqa", overrides=(*settings, *extra))
    assert collect_secrets(stack) == {
        "policy_model.openai_base_url": "http://u:p@h/v1",
        "policy_model.openai_api_key": "sk-1",
        "policy_model.env.HF_TOKEN": "hf-1",
        "policy_base_url": "http://u:p@h/v1",
        "policy_api_key": "sk-1",
    }
    shown = json.dumps(redact(stack.model_dump(mode="json")))
    assert "sk-1" not in shown
    assert "u:p" not in shown
    assert "hf-1" not in shown
