"""Bubblewrap with a broker that is root: what a sandbox finds in /dev works, and is not the machine's own to change."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from gym.broker.providers.local import Bubblewrap
from gym.wire.sandbox import ExecRequest, SandboxSpec
from tests.support.sandbox_local import tags

pytestmark = [
    pytest.mark.skipif(shutil.which("bwrap") is None, reason="bubblewrap is not here"),
    pytest.mark.skipif(os.geteuid() != 0, reason="only root owns the machine's devices"),
]
DEVICES = ("null", "zero", "full", "random", "urandom", "tty")
# To the mode that they have: had this an effect, it would be one of none on the machine that runs the test.
CHMOD = "for name in NAMES; do chmod 0666 /dev/$name && echo mode; touch -r /bin /dev/$name && echo time; done"
WORKS = "echo gone > /dev/null && head -c3 /dev/zero | wc -c && head -c3 /dev/urandom | wc -c && ! echo > /dev/full"


@pytest.mark.parametrize("asked", [{}, {"user": "65534"}, {"user": "65534", "read_only": True}])
async def test_a_command_cannot_change_the_modes_and_times_of_the_machines_devices(
    tmp_path: Path, asked: dict[str, object]
) -> None:
    before = {name: Path("/dev", name).stat() for name in DEVICES}
    provider = Bubblewrap(tmp_path)
    await provider.open()
    held = await provider.create(SandboxSpec.model_validate({"image": "host", **asked}), tags("s"))
    try:
        tried = await held.channel.exec(ExecRequest(shell=CHMOD.replace("NAMES", " ".join(DEVICES))))
        assert tried.stdout.text == ""
        assert "Operation not permitted" in tried.stderr.text
        after = {name: Path("/dev", name).stat() for name in DEVICES}
        assert [(one.st_mode, one.st_ctime_ns) for one in after.values()] == [
            (one.st_mode, one.st_ctime_ns) for one in before.values()
        ]
        used = await held.channel.exec(ExecRequest(shell=WORKS))
        assert (used.stdout.text.split(), used.exit_code) == (["3", "3"], 0), used.stderr.text
        assert not (tmp_path / "stack" / "sandboxes" / "s" / "files" / "dev").exists()  # no part of a fork
    finally:
        await held.remove()
    assert list(tmp_path.glob("stack/sandboxes/*")) == []
