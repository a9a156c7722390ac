"""The small programs inside an image, run here as they are run there."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from gym.files import asset_dir

SCRIPTS = asset_dir("compose") / "base"
KEYS = ("NEMO_GYM_CONFIG_DICT", "TOKEN", "MODE")
SHOW = f"import json, os; print(json.dumps({{key: os.environ.get(key) for key in {KEYS}}}))"


def with_secrets(folder: Path, **environ: str) -> subprocess.CompletedProcess[str]:
    argv = [sys.executable, "-IS", str(SCRIPTS / "gym-with-secrets"), sys.executable, "-c", SHOW]
    given = {"PATH": "/usr/bin:/bin", "GYM_SECRETS_DIR": str(folder)} | environ
    return subprocess.run(argv, env=given, capture_output=True, text=True, check=False)


def test_a_server_that_knows_no_secrets_is_given_their_values(tmp_path: Path) -> None:
    (tmp_path / "key").write_text("the-value\n")
    document = {"a": {"list": [{"api_key": "secret://key"}], "plain": "x", "number": 3}}
    done = with_secrets(tmp_path, NEMO_GYM_CONFIG_DICT=json.dumps(document), TOKEN="secret://key", MODE="fast")
    seen = json.loads(done.stdout)
    assert json.loads(seen["NEMO_GYM_CONFIG_DICT"]) == {
        "a": {"list": [{"api_key": "the-value"}], "plain": "x", "number": 3}
    }
    assert (seen["TOKEN"], seen["MODE"]) == ("the-value", "fast")


def test_a_document_that_was_too_long_is_read_from_its_file(tmp_path: Path) -> None:
    (tmp_path / "key").write_text("the-value")
    (tmp_path / "config.json").write_text('{"a": "secret://key"}')
    done = with_secrets(tmp_path, GYM_CONFIG_FILE=str(tmp_path / "config.json"))
    assert json.loads(json.loads(done.stdout)["NEMO_GYM_CONFIG_DICT"]) == {"a": "the-value"}


def test_a_name_cannot_lead_out_of_the_folder(tmp_path: Path) -> None:
    (tmp_path / "outside").write_text("not yours")
    (tmp_path / "secrets").mkdir()
    done = with_secrets(tmp_path / "secrets", TOKEN="secret://../outside")
    assert done.returncode != 0
    assert "not yours" not in done.stdout


def test_an_empty_environment_just_starts_the_server(tmp_path: Path) -> None:
    assert json.loads(with_secrets(tmp_path).stdout) == {"NEMO_GYM_CONFIG_DICT": None, "TOKEN": None, "MODE": None}


def test_a_command_goes_online_with_the_hosts_settings_only_where_there_are_any() -> None:
    script = (SCRIPTS / "gym-online").read_text()
    assert "if [ -s /run/secrets/index ]" in script
    argv = ["bash", str(SCRIPTS / "gym-online"), "bash", "-c", "echo $UV_CACHE_DIR"]
    done = subprocess.run(argv, env={"PATH": "/usr/bin:/bin"}, capture_output=True, text=True, check=True)
    assert done.stdout == "/var/cache/uv\n"
