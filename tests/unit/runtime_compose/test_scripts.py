"""The small programs inside an image, run here as they are run there."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from gym.files import asset_dir

SCRIPTS = asset_dir("compose") / "base"
INSTALL = "uv pip install --quiet --compile-bytecode "
SHARED = "-c /opt/gym/server.txt -r wanted.txt"
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


@pytest.mark.parametrize(("fits", "calls"), [(True, [SHARED]), (False, [SHARED, "-r wanted.txt compose-gym"])])
def test_packages_have_the_shared_versions_where_they_fit(tmp_path: Path, fits: bool, calls: list[str]) -> None:
    online = tmp_path / "gym-online"
    refusal = "" if fits else 'case "$*" in *server.txt*) exit 1;; esac'
    online.write_text(f'#!/bin/bash\necho "$@" >> {tmp_path}/calls\n{refusal}\n')
    online.chmod(0o755)
    env = {"PATH": f"{tmp_path}:/usr/bin:/bin"}
    argv = ["bash", str(SCRIPTS / "gym-install"), "-r", "wanted.txt"]
    done = subprocess.run(argv, env=env, capture_output=True, text=True, check=True)
    asked = [line.removeprefix(INSTALL) for line in (tmp_path / "calls").read_text().splitlines()]
    assert asked == calls
    assert ("not in the versions that servers share" in done.stderr) is not fits


def test_packages_that_fit_in_no_versions_are_an_error(tmp_path: Path) -> None:
    online = tmp_path / "gym-online"
    online.write_text("#!/bin/bash\nexit 2\n")
    online.chmod(0o755)
    argv = ["bash", str(SCRIPTS / "gym-install"), "-r", "wanted.txt"]
    done = subprocess.run(argv, env={"PATH": f"{tmp_path}:/usr/bin:/bin"}, capture_output=True, text=True, check=False)
    assert done.returncode == 2
