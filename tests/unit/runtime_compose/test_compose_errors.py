"""What Compose says when it fails, as a person reads it."""

from __future__ import annotations

from gym.errors import InfraError, ProgramFailed
from gym.runtime.compose.compose_errors import explain

REASON = 'Get "https://registry-1.docker.io/v2/": dial tcp: lookup registry-1.docker.io: no such host'
NOT_PULLED = f"""\
traces Pulling
 grafana Pulling
 traces Error {REASON}
 grafana Error {REASON}
Error response from daemon: {REASON}
"""


def test_services_whose_images_cannot_be_pulled_are_named_with_what_to_do() -> None:
    explained = explain(ProgramFailed(("docker", "compose", "up"), 18, NOT_PULLED), ())
    assert isinstance(explained, InfraError)
    assert explained.what == (
        f"No image of grafana, traces is here, and none can be pulled: Error response from daemon: {REASON}"
    )
    assert "docker save and load" in explained.hint


def test_a_paused_container_is_reported_with_what_unpauses_it() -> None:
    said = "Error response from daemon: cannot start a paused container, try unpause instead"
    assert "docker unpause" in explain(ProgramFailed(("docker", "compose", "up"), 1, said), ()).hint


def test_what_is_not_known_is_passed_on() -> None:
    unknown = ProgramFailed(("docker", "compose", "up"), 1, "Error response from daemon: the moon is full\n")
    assert explain(unknown, ()) is unknown
