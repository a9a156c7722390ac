"""A server that breaks with its secret in its hands: neither its log nor what it answers has it."""

from __future__ import annotations

import json
import logging
import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from gym.labels import ENV_CONFIG, ENV_INSTANCE, REDACTED
from gym.server.config import Settings
from gym.server.own_secrets import OwnSecrets
from gym.wire.failures import RolloutError
from tests.support.router import Answer, ask, eventually

MARK = "marked/5ecr3t+a1b2c3"
APP = """
import logging, os
from urllib.parse import quote
from gym.server import ResourcesConfig, ResourcesServer, VerifyRequest, tool

class Config(ResourcesConfig):
    vault_api_key: str = ""
    limit: int = 1

class Vault(ResourcesServer[None]):
    config: Config

    async def start(self) -> None:
        if "BREAK" in os.environ:
            raise RuntimeError(f"no login with {self.config.vault_api_key}")

    @tool
    async def look(self) -> str:
        raise OSError(f"https://vault.example/?key={quote(self.config.vault_api_key, safe='')} does not answer")

    @tool
    async def grumble(self) -> str:
        logging.getLogger("mine").error("as %s, %s", self.config.vault_api_key, os.environ["OTHER_TOKEN"])
        return "done"

    async def verify(self, rollout: VerifyRequest) -> float:
        raise ValueError(f"cannot log in at https://me:{self.config.vault_api_key}@vault.example")

app = Vault.app()
"""
BODY = json.dumps({"responses_create_params": {"input": "x"}, "response": {"output": []}}).encode()


def environ_of(folder: Path, **fields: object) -> dict[str, str]:
    (folder / "app.py").write_text(APP)
    block = {"entrypoint": "app.py", "vault_api_key": MARK, **fields}
    document = json.dumps({"vault": {"resources_servers": {"vault": block}}})
    more = {ENV_INSTANCE: "vault", ENV_CONFIG: document, "OTHER_TOKEN": f"other-{MARK}"}
    return {**os.environ, **more}


def test_neither_a_failure_nor_the_log_has_it(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0), backlog=64) as listener, (tmp_path / "log").open("wb") as log:
        url = f"http://127.0.0.1:{listener.getsockname()[1]}"
        environ = environ_of(tmp_path) | {"GYM_LISTEN": f"fd:{listener.fileno()}"}
        command = [sys.executable, "-m", "gym.server.serve", "app.py"]
        process = subprocess.Popen(
            command, cwd=tmp_path, env=environ, pass_fds=(listener.fileno(),), stdout=log, stderr=log
        )
    try:
        replies = [post(url, path, BODY) for path in ("/verify", "/look", "/grumble", "/healthz", "/tools")]
    finally:
        process.terminate()
        process.wait(120)
    written = (tmp_path / "log").read_text()
    bodies = [reply.body.decode() for reply in replies]
    assert [reply.status for reply in replies[:3]] == [500, 500, 200]
    assert f"cannot log in at https://me:{REDACTED}@vault.example" in bodies[0]
    assert f"?key={REDACTED} does not answer" in bodies[1]
    assert "Traceback" in written  # the rest of it is there
    assert f"as {REDACTED}, {REDACTED}" in written
    for text in (written, *bodies):
        assert "5ecr3t" not in text


@pytest.mark.parametrize(
    ("fields", "more", "said"),
    [
        ({}, {"BREAK": "1"}, "no login with"),
        ({"limit": MARK}, {}, "unable to parse string as an integer"),
        ({"vault_api_key": [MARK]}, {}, "valid string"),
    ],
)
def test_a_server_that_does_not_start_says_why_without_it(
    fields: dict[str, object], more: dict[str, str], said: str, tmp_path: Path
) -> None:
    """A secret that was put into the wrong field is one, too, where its own field has it as well."""
    environ = environ_of(tmp_path, **fields) | more
    command = [sys.executable, "-m", "gym.server.serve", "app.py"]
    done = subprocess.run(command, cwd=tmp_path, env=environ, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 1
    assert said in done.stderr
    assert "5ecr3t" not in done.stdout + done.stderr


def test_what_is_short_or_named_otherwise_stays() -> None:
    fields = {
        "openai_api_key": "EMPTY",
        "max_tokens": "123456789",
        "note": "a sentence",
        "db": {"passwords": ["p" * 9]},
    }
    secrets = OwnSecrets.of(Settings(fields=fields, sandbox_token="t" * 20), {"HF_TOKEN": "hf-0123456789"})
    text = f"EMPTY 123456789 a sentence {'p' * 9} {'t' * 20} hf-0123456789"
    assert secrets.mask(text) == f"EMPTY 123456789 a sentence {REDACTED} {REDACTED} {REDACTED}"
    failure = secrets.mask_failure(RolloutError("judge", f"with {'p' * 9}", server="judge"))
    assert (str(failure), failure.message, failure.kind) == (f"with {REDACTED}", f"with {REDACTED}", "judge")


def test_a_log_keeps_its_form(capsys: pytest.CaptureFixture[str]) -> None:
    logger, handler = logging.Logger("own"), logging.StreamHandler(sys.stdout)
    handler.setFormatter(logging.Formatter("%(levelname)s: %(message)s"))
    logger.addHandler(handler)
    OwnSecrets(["password-1"]).mask_logs(logger)
    logger.warning("it is %s", "password-1")
    assert capsys.readouterr().out == f"WARNING: it is {REDACTED}\n"


def post(url: str, path: str, body: bytes) -> Answer:
    def reply() -> Answer | None:
        try:
            return ask(url, path, method="GET" if path in ("/healthz", "/tools") else "POST", body=body)
        except ConnectionError:
            return None

    found = eventually(reply, seconds=60, what="the server")
    assert isinstance(found, Answer)
    return found
