"""The commands of NeMo Gym that start nothing; tests/integration/test_tutorials.py walks through the others."""

from __future__ import annotations

import subprocess
from pathlib import Path

from tests.support.cli import GYM, environment, gym

PATHS = (
    "resources_servers/example_simple_weather/configs/simple_weather.yaml",
    "responses_api_models/scripted/configs/scripted.yaml",
)


def ng(name: str, *words: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    command = [str(Path(GYM).parent / name), *words]
    return subprocess.run(command, cwd=cwd, env=environment(), capture_output=True, text=True, timeout=120, check=False)


def test_config_scaffold_and_version_answer_under_their_old_names(tmp_path: Path) -> None:
    assert "simple_weather" in ng("ng_dump_config", f"+config_paths=[{PATHS[0]},{PATHS[1]}]", cwd=tmp_path).stdout
    assert ng("ng_init_resources_server", "+entrypoint=resources_servers/my_tool", cwd=tmp_path).returncode == 0
    assert (tmp_path / "resources_servers" / "my_tool" / "app.py").is_file()
    assert "uvicorn" in ng("ng_version", cwd=tmp_path).stdout
    assert "rollouts" in ng("ng_help", cwd=tmp_path).stdout
    refused = ng("ng_prepare_data", cwd=tmp_path)
    assert refused.returncode == 1
    assert "Traceback" not in refused.stderr


def test_a_word_of_another_program_names_ours(tmp_path: Path) -> None:
    for word, name in (("run", "gym up NAMES"), ("status", "gym ps"), ("prepare", "gym data prepare")):
        done = gym(word, cwd=tmp_path)
        assert done.returncode == 2
        assert f"Here it is: {name}" in " ".join(done.stderr.replace("│", " ").split())
