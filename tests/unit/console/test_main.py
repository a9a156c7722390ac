from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

from tests.support.router import ask
from tests.support.unmeasured import unmeasured


def test_it_serves_on_an_inherited_socket_and_ends_on_sigterm(tmp_path: Path) -> None:
    (tmp_path / "discovery.json").write_text('{"stack": "mine"}')
    with socket.create_server(("127.0.0.1", 0)) as listener:
        url = f"http://127.0.0.1:{listener.getsockname()[1]}"
        environ = {
            **os.environ,
            "GYM_LISTEN": f"fd:{listener.fileno()}",
            "GYM_DISCOVERY": str(tmp_path / "discovery.json"),
        }
        process = subprocess.Popen([sys.executable, "-m", "gym.console"], env=environ, pass_fds=(listener.fileno(),))
    try:
        assert ask(url, "/discovery").json()["stack"] == "mine"
        process.send_signal(signal.SIGTERM)
        assert process.wait(120) in (0, -signal.SIGTERM)
    finally:
        process.kill()
        process.wait(60)


def test_its_memory_stays_small() -> None:
    """60 MB is what a console may cost beside a stack."""
    code = (
        "import resource, pathlib, gym.console.__main__\n"
        "status = pathlib.Path('/proc/self/status')\n"
        "if status.exists(): print(*[line.split()[1] for line in status.open() if line.startswith('VmHWM')])\n"
        "else: print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024)\n"
    )
    asked = [sys.executable, "-c", code]
    subprocess.run(asked, check=True, timeout=300, capture_output=True, env=unmeasured())  # compiles what it imports
    output = subprocess.run(asked, capture_output=True, text=True, check=True, timeout=300, env=unmeasured()).stdout
    assert int(output) < 60 * 1024


def test_without_a_stack_to_show_it_says_so_in_one_paragraph() -> None:
    environ = {key: value for key, value in os.environ.items() if not key.startswith("GYM_")}
    ended = subprocess.run(
        [sys.executable, "-m", "gym.console"], env=environ, capture_output=True, text=True, timeout=300, check=False
    )
    assert ended.returncode == 1
    assert "GYM_DISCOVERY is not set" in ended.stderr
    assert "Traceback" not in ended.stderr
