from __future__ import annotations

from typing import Any

import pytest

from gym.wire.failures import RolloutError
from gym.wire.policy_endpoint import (
    PolicyEndpoint,
    mask_body,
    mask_key,
    masking,
    policy_of_headers,
    take_policy,
)

KEY = "sk-canary-0123456789"
URL = "http://trainer.local:8000/v1"


@pytest.mark.parametrize(
    ("fields", "urls"),
    [
        ({"policy_base_url": URL}, (URL,)),
        ({"policy_base_url": f" {URL}/ "}, (URL,)),
        ({"policy_base_url": [URL, "https://B.example/v1"]}, (URL, "https://b.example/v1")),
        ({"policy_base_url": "http://[::1]:80/s/1/v1"}, ("http://[::1]:80/s/1/v1",)),
        ({"policy_model_name": "m"}, ()),
        ({"policy_model_name": "m", "policy_base_url": None, "policy_api_key": ""}, ()),
    ],
)
def test_the_fields_of_a_row_are_read(fields: dict[str, Any], urls: tuple[str, ...]) -> None:
    policy = take_policy(fields)
    assert policy is not None
    assert policy.urls == urls


@pytest.mark.parametrize("fields", [{}, {"policy_base_url": None}, {"policy_api_key": ""}])
def test_a_row_without_an_endpoint_has_none(fields: dict[str, Any]) -> None:
    assert take_policy(fields) is None


@pytest.mark.parametrize(
    "url",
    [
        *("", "trainer:8000", "ftp://trainer/v1", "file:///etc/passwd", "http://", "http:///v1", 7, [], [7], {"a": 1}),
        *("http://u:p4ssword@trainer/v1", "http://trainer/v1?a=1", "http://trainer/v1#a", "http://trainer:99999/v1"),
        *("http://2130706433/v1", "http://127.1/v1", "http://0x7f.0.0.1/v1", "http://0x7f000001/v1"),
        *("http://１２７.0.0.1/v1", "http://%31%32%37.0.0.1/v1", "http://a\\@b/v1", "http://[::1/v1"),
        *("http://trainer/v1\r\nx-evil: 1", "http://trainer/v 1", "http://trainer/" + "a" * 3000, [URL] * 65),
    ],
)
def test_a_bad_url_is_the_rows_fault_and_nothing_secret_in_it_is_repeated(url: Any) -> None:
    with pytest.raises(RolloutError) as caught:
        take_policy({"policy_base_url": url, "policy_api_key": KEY})
    assert (caught.value.kind, caught.value.status) == ("row", 422)
    assert "policy_base_url" in caught.value.message
    assert KEY not in caught.value.message
    assert "p4ssword" not in caught.value.message


@pytest.mark.parametrize(
    "fields",
    [
        {"policy_base_url": URL, "policy_api_key": "sk-canary\r\nx-evil: 1"},
        {"policy_base_url": URL, "policy_api_key": 12345678},
        {"policy_base_url": URL, "policy_api_key": "k" * 9000},
        {"policy_base_url": URL, "policy_api_key": "****"},
        {"policy_api_key": KEY},
        {"policy_base_url": URL, "policy_model_name": ""},
        {"policy_base_url": URL, "policy_model_name": ["m"]},
    ],
)
def test_a_key_or_a_name_that_cannot_be_used_is_the_rows_fault(fields: dict[str, Any]) -> None:
    with pytest.raises(RolloutError) as caught:
        take_policy(fields)
    assert caught.value.kind == "row"
    assert "canary" not in caught.value.message


def test_headers_carry_what_the_body_said() -> None:
    policy = PolicyEndpoint((URL, "http://b/v1"), KEY, "ünïcode/model 7%", "policy model")
    assert policy_of_headers([(b"x-gym-timeout", b"3"), *policy.to_headers()]) == policy
    assert policy_of_headers([(b"x-gym-timeout", b"3")]) is None


def test_the_key_is_in_no_representation() -> None:
    assert KEY not in repr(PolicyEndpoint((URL,), KEY))


def test_a_reply_loses_the_key_wherever_it_stands_and_nothing_else() -> None:
    policy = PolicyEndpoint((URL,), KEY)
    body = b'{"a": "Bearer ' + KEY.encode() + b'", "n": 123456789012345678901234567890, "reward": 1.0}'
    assert mask_body(body, policy) == b'{"a":"Bearer ****","n":123456789012345678901234567890,"reward":1.0}'
    same = b'{"a": 1}'
    assert mask_body(same, policy) is same
    assert mask_body(b'{"a": "EMPTY"}', PolicyEndpoint((URL,), "EMPTY")) == b'{"a": "EMPTY"}'


def test_a_short_key_is_masked_below_its_own_name() -> None:
    assert mask_key({"row": [{"policy_api_key": "EMPTY"}], "text": "EMPTY"}, "EMPTY") == {
        "row": [{"policy_api_key": "****"}],
        "text": "EMPTY",
    }


@pytest.mark.parametrize("error", [RolloutError("model", f"bad {KEY}"), ValueError(f"bad {KEY}", {"k": KEY})])
def test_what_is_raised_says_nothing_of_the_key(error: Exception) -> None:
    with pytest.raises(type(error)) as caught, masking(PolicyEndpoint((URL,), KEY)):
        raise error
    assert KEY not in f"{caught.value} {caught.value.args} {getattr(caught.value, 'message', '')}"
