"""The same gate before a local sandbox: the hosts that are listed through the relay, and no other network at all."""

from __future__ import annotations

import shlex
import shutil
from pathlib import Path

import pytest

from gym.broker.provider import ProviderSandbox
from gym.broker.providers.local import Bubblewrap
from gym.wire.failures import RolloutError
from gym.wire.sandbox import ExecRequest, SandboxSpec
from tests.support.sandbox_egress import ALSO, BAD, GOOD, Seen, origin
from tests.support.sandbox_local import tags

pytestmark = pytest.mark.skipif(shutil.which("bwrap") is None, reason="bubblewrap is not installed")

GET = """
import sys, urllib.error, urllib.request
try:
    print(urllib.request.urlopen(sys.argv[1], timeout=60).read().decode())
except urllib.error.HTTPError as error:
    print(error.code)
except OSError as error:
    print("none")
"""


async def fetch(held: ProviderSandbox, url: str) -> str:
    line = f"python3 -c {shlex.quote(GET)} {url}"
    return (await held.channel.exec(ExecRequest(shell=line, timeout=120))).stdout.text.strip()


async def test_a_local_sandbox_reaches_what_is_allowed_until_it_is_sealed(tmp_path: Path) -> None:
    async with origin() as there:
        seen = Seen(there.port)
        provider = Bubblewrap(tmp_path, gate=seen.gate)
        await provider.open()
        network = {"allow": [GOOD], "setup": {"allow": [GOOD, ALSO]}}
        spec = SandboxSpec.model_validate({"image": "host", "network": network})
        held = await provider.create(spec, tags("one"))
        try:
            good, also, bad = (f"http://{host}:{there.port}/" for host in (GOOD, ALSO, BAD))
            assert [await fetch(held, url) for url in (good, also, bad)] == ["hello", "hello", "403"]
            routes = await held.channel.exec(
                ExecRequest(shell="tail -n +2 /proc/net/route; ls /proc/sys/net/ipv4/conf")
            )
            assert routes.stdout.text.split() == ["all", "default", "lo"]
            await held.seal()
            assert [await fetch(held, url) for url in (good, also, bad)] == ["hello", "403", "403"]
            fork = await held.fork(tags("two"))
            assert [await fetch(fork, url) for url in (good, also)] == ["hello", "403"]
        finally:
            await provider.close()
        assert len(seen.gate) == 0


async def test_a_local_sandbox_without_a_run_network_loses_its_relay(tmp_path: Path) -> None:
    async with origin() as there:
        seen = Seen(there.port)
        provider = Bubblewrap(tmp_path, gate=seen.gate)
        await provider.open()
        spec = SandboxSpec.model_validate({"image": "host", "network": {"setup": {"allow": [GOOD]}}})
        held = await provider.create(spec, tags("one"))
        try:
            assert await fetch(held, f"http://{GOOD}:{there.port}/") == "hello"
            await held.seal()
            assert await fetch(held, f"http://{GOOD}:{there.port}/") == "none"
        finally:
            await provider.close()


async def test_without_a_gate_hosts_are_refused_in_words(tmp_path: Path) -> None:
    provider = Bubblewrap(tmp_path)
    await provider.open()
    with pytest.raises(RolloutError, match="offers none"):
        await provider.create(SandboxSpec.model_validate({"image": "host", "network": {"allow": [GOOD]}}), tags("one"))
