"""What a build learns of the host's package settings: enough to reach an index, and no path that only the host has."""

from __future__ import annotations

import subprocess
from pathlib import Path

from gym.runtime.compose.index_settings import index_settings, write_build_secrets


def test_pips_settings_reach_pip_and_uv_under_the_names_they_know() -> None:
    found = index_settings({"PIP_INDEX_URL": "https://index.example.org/simple"}, {"timeout": "60"})
    assert found == {
        "PIP_INDEX_URL": "https://index.example.org/simple",
        "UV_DEFAULT_INDEX": "https://index.example.org/simple",
        "PIP_DEFAULT_TIMEOUT": "60",
        "UV_HTTP_TIMEOUT": "60",
    }


def test_what_only_this_host_can_read_is_left_out() -> None:
    pip = {"find-links": "/opt/wheels https://example.org/wheels", "extra-index-url": "file:///opt/simple"}
    assert index_settings({}, pip) == {
        "PIP_FIND_LINKS": "https://example.org/wheels",
        "UV_FIND_LINKS": "https://example.org/wheels",
    }


def test_the_environment_wins_over_the_files_and_uvs_own_over_pips() -> None:
    environ = {
        "PIP_INDEX_URL": "https://env/simple",
        "UV_DEFAULT_INDEX": "https://uv/simple",
        "HTTPS_PROXY": "http://p:1",
    }
    found = index_settings(environ, {"index-url": "https://file/simple"})
    assert found["PIP_INDEX_URL"] == "https://env/simple"
    assert found["UV_DEFAULT_INDEX"] == "https://uv/simple"
    assert found["HTTPS_PROXY"] == "http://p:1"


def test_the_file_is_private_and_a_shell_reads_back_what_was_meant(tmp_path: Path) -> None:
    (tmp_path / "pip.conf").write_text("[global]\nindex-url = https://me:p'w$x@index/simple\n[install]\ntimeout = 5\n")
    bundle = tmp_path / "ca.pem"
    bundle.write_text("certificates")
    environ = {"PIP_CONFIG_FILE": str(tmp_path / "pip.conf"), "SSL_CERT_FILE": str(bundle), "HOME": str(tmp_path)}
    secrets = write_build_secrets(tmp_path / "build", environ)
    assert secrets == {"index": str(tmp_path / "build" / "index"), "ca": str(bundle)}
    path = Path(secrets["index"])
    assert path.stat().st_mode & 0o777 == 0o600
    script = f'set -a; . "{path}"; printf %s "$PIP_INDEX_URL"'
    shown = subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=True).stdout
    assert shown == "https://me:p'w$x@index/simple"


def test_a_broken_pip_file_and_a_missing_bundle_are_passed_over(tmp_path: Path) -> None:
    (tmp_path / "pip.conf").write_text("no section = here\n")
    environ = {"PIP_CONFIG_FILE": str(tmp_path / "pip.conf"), "SSL_CERT_FILE": "/nowhere", "HOME": str(tmp_path)}
    assert set(write_build_secrets(tmp_path, environ)) == {"index"}
    assert (tmp_path / "index").read_text() == ""
