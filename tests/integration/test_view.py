"""`gym view`: the command over real files, a real server, and Ctrl-C."""

from __future__ import annotations

import json
import re
import signal
import socket
import subprocess
import urllib.request
from pathlib import Path
from typing import Any

import pytest

from tests.support.cli import GYM, environment, gym
from tests.support.rollout_files import failure, rollout, write_lines


@pytest.fixture
def file(tmp_path: Path) -> Path:
    write_lines(tmp_path / "x_failures.jsonl", [failure(2)])
    return write_lines(tmp_path / "x.jsonl", [rollout(0), rollout(1)])


def test_a_file_is_served_as_it_grows_until_ctrl_c_which_ends_it_well(file: Path) -> None:
    words = [GYM, "view", file.name]
    with subprocess.Popen(words, cwd=file.parent, env=environment(), stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        url = process.stdout.readline().strip()
        assert url.startswith("http://127.0.0.1:")
        api = f"{url}view/api/rollouts"
        assert fetch(f"{api}/summary")["count"] == 2
        with file.open("ab") as stream:
            stream.write(json.dumps(rollout(3)).encode() + b"\n")
        assert fetch(f"{api}/summary")["count"] == 3
        assert fetch(f"{api}/list?kind=failed")["rows"][0]["kind"] == "timeout"
        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=120) == 0


def test_a_page_of_its_own_is_written_and_nothing_else_is(file: Path) -> None:
    done = gym("view", file.name, "-o", "pages/page.html", cwd=file.parent)
    assert (done.returncode, done.stdout) == (0, "pages/page.html\n"), done.stderr
    page = (file.parent / "pages" / "page.html").read_text("utf-8")
    assert "The answer to 1" in page
    assert "no answer within 3 s" in page
    # Nothing is fetched, and the policy would not let it be.
    assert not re.search(r"""<(?:link|script|img|iframe)[^>]*(?:src|href)=(?!["']?data:)|@import""", page)
    assert "default-src 'none'" in page
    assert [path.name for path in (file.parent / "pages").iterdir()] == ["page.html"]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("absent.jsonl",), "absent.jsonl is not there"),
        (("x.jsonl", "-o", "x.jsonl"), "one of the files to be read"),
        (("x.jsonl", "--sample", "3"), "Add -o page.html"),
    ],
)
def test_what_makes_no_sense_is_one_paragraph(words: tuple[str, ...], said: str, file: Path) -> None:
    before = file.read_bytes()
    done = gym("view", *words, cwd=file.parent)
    assert done.returncode == 1
    assert said in done.stderr
    assert "Traceback" not in done.stderr
    assert file.read_bytes() == before


def test_a_port_that_is_taken_is_named_with_what_to_do(file: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as holder:
        port = str(holder.getsockname()[1])
        done = gym("view", file.name, "--port", port, cwd=file.parent)
    assert done.returncode == 1
    assert f"127.0.0.1:{port}" in done.stderr
    assert "Choose another --port" in done.stderr


def fetch(url: str) -> Any:
    with urllib.request.urlopen(url, timeout=60) as reply:
        return json.loads(reply.read())
