"""The `telemetry:` block of a stack and the OTEL_* variables: what switches spans on, and what is refused."""

from __future__ import annotations

from typing import Any

import pytest

from gym.errors import ConfigError
from gym.wire.telemetry import Telemetry, check_telemetry, read_telemetry


def test_nothing_said_is_off() -> None:
    assert read_telemetry(None, {}) == Telemetry()
    assert not read_telemetry({"content": True}, {}).on


def test_the_block_names_the_receiver() -> None:
    found = read_telemetry({"otlp": "http://127.0.0.1:4318/", "content": True}, {})
    assert (found.on, found.content) == (True, True)
    assert found.traces_url == "http://127.0.0.1:4318/v1/traces"
    assert read_telemetry({"otlp": "http://h/v1/traces"}, {}).traces_url == "http://h/v1/traces"


def test_the_usual_variables_win_and_switch_off() -> None:
    block = {"otlp": "http://block"}
    assert read_telemetry(block, {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://shell"}) == Telemetry(True, "")
    assert read_telemetry(None, {"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://shell/v1/traces"}).on
    assert not read_telemetry(block, {"OTEL_SDK_DISABLED": "true"}).on
    assert not read_telemetry(block, {"OTEL_TRACES_EXPORTER": "none"}).on


@pytest.mark.parametrize(
    ("block", "words"),
    [
        ("http://127.0.0.1:4318", "a mapping is needed"),
        ({"otlp": "127.0.0.1:4318"}, "the address of an OTLP/HTTP receiver is needed"),
        ({"otlp": "grpc://127.0.0.1:4317"}, "the address of an OTLP/HTTP receiver is needed"),
        ({"otlp": "http://h:notaport"}, "the address of an OTLP/HTTP receiver is needed"),
        ({"otlp": "http://ada:word@h:4318"}, "OTEL_EXPORTER_OTLP_HEADERS"),
        ({"otlp": "http://h:4318?key=1"}, "OTEL_EXPORTER_OTLP_HEADERS"),
        ({"otlp": "http://h", "content": "yes"}, "true or false is needed, found `yes`"),
        ({"otpl": "http://h"}, "it knows: otlp, content"),
        (["http://h"], "a mapping is needed"),
    ],
)
def test_a_wrong_block_says_what_to_write(block: Any, words: str) -> None:
    with pytest.raises(ConfigError) as caught:
        check_telemetry(block)
    assert words in str(caught.value)
    assert "word@" not in str(caught.value)


@pytest.mark.parametrize("block", [None, {}, {"otlp": "https://traces.example:4318", "content": False}])
def test_a_right_block_passes(block: Any) -> None:
    check_telemetry(block)
