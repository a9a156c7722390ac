"""Another host, as far as TCP can tell: a network namespace of the test's own, and a cable that can be pulled."""

from __future__ import annotations

import os
import secrets
import shutil
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import pytest

ENDLESS = """
    import asyncio, sys

    log = open(sys.argv[2], "w")
    HEAD = b"HTTP/1.1 200 OK\\r\\ncontent-length: 2\\r\\n\\r\\nok"
    STREAM = b"HTTP/1.1 200 OK\\r\\ntransfer-encoding: chunked\\r\\n\\r\\n6\\r\\nfirst\\n\\r\\n"

    async def serve(reader, writer):
        while True:
            try:
                head = await reader.readuntil(b"\\r\\n\\r\\n")
            except (OSError, EOFError):
                return
            path = head.split(b" ")[1].decode()
            log.write(path + "\\n")
            log.flush()
            if path == "/healthz":
                writer.write(HEAD)
            if path == "/stream":
                writer.write(STREAM)
            if path != "/healthz":
                await asyncio.sleep(10000)

    async def main():
        server = await asyncio.start_server(serve, "0.0.0.0", int(sys.argv[1]))
        await server.serve_forever()

    asyncio.run(main())
"""


@dataclass
class FarHost:
    """`here` is this side's address, `there` the other's."""

    name: str
    here: str
    there: str
    link: str
    started: list[subprocess.Popen[bytes]] = field(default_factory=list)

    def run(self, source: str, *arguments: str) -> None:
        """A Python program over there, until the end of the test."""
        argv = ["ip", "netns", "exec", self.name, sys.executable, "-c", textwrap.dedent(source), *arguments]
        self.started.append(subprocess.Popen(argv))

    def pull_cable(self) -> None:
        run("ip", "netns", "exec", self.name, "ip", "link", "set", self.link, "down")

    def plug_in(self) -> None:
        run("ip", "netns", "exec", self.name, "ip", "link", "set", self.link, "up")


@contextmanager
def far_host() -> Iterator[FarHost]:
    """Skips where the system allows none."""
    if sys.platform != "linux" or os.geteuid() != 0 or shutil.which("ip") is None:
        pytest.skip("network namespaces need Linux, root and `ip`")
    token = secrets.token_hex(3)
    near, (octet, four) = f"gn{token}", divmod(secrets.randbelow(16_000), 64)  # another test may have one, too
    host = FarHost(f"gym-{token}", f"10.213.{octet}.{4 * four + 1}", f"10.213.{octet}.{4 * four + 2}", f"gf{token}")
    run("ip", "netns", "add", host.name)
    try:
        run("ip", "link", "add", near, "type", "veth", "peer", "name", host.link, "netns", host.name)
        run("ip", "address", "add", f"{host.here}/30", "dev", near)
        run("ip", "link", "set", near, "up")
        inside = ("ip", "-n", host.name)
        run(*inside, "address", "add", f"{host.there}/30", "dev", host.link)
        run(*inside, "link", "set", host.link, "up")
        run(*inside, "link", "set", "lo", "up")
        yield host
    finally:
        for process in host.started:
            process.kill()
            process.wait()
        run("ip", "netns", "del", host.name)


def run(*argv: str) -> None:
    done = subprocess.run(argv, check=False, capture_output=True, text=True)
    if done.returncode and "Operation not permitted" in done.stderr:
        pytest.skip(f"{' '.join(argv)}: {done.stderr.strip()}")
    assert done.returncode == 0, f"{argv}: {done.stderr}"
