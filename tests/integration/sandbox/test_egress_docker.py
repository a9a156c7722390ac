"""What a container with `allow: [hosts]` reaches: those hosts through its gate, and nothing else whichever way."""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from gym.broker.providers.docker.docker_provider import Docker
from gym.broker.providers.docker.docker_sandbox import DockerSandbox
from gym.wire.sandbox import ExecRequest, Network, SandboxSpec
from tests.support.docker import need_engine
from tests.support.sandbox_docker import DockerHarness, docker_harness, run, say
from tests.support.sandbox_egress import ALSO, BAD, GET, GOOD, TLS, Origin, Seen, certificate, origin, python, until

pytestmark = pytest.mark.docker

# Each tries to get one datagram or connection out, and tells how that ended.
WAYS = """
import json, socket, sys
found = {}
def tcp(name, family, address):
    try:
        with socket.socket(family, socket.SOCK_STREAM) as sock:
            sock.settimeout(2)
            sock.connect(address)
            found[name] = "REACHED"
    except OSError as error:
        found[name] = type(error).__name__
def udp(name, family, address, data=b"x"):
    try:
        with socket.socket(family, socket.SOCK_DGRAM) as sock:
            sock.settimeout(1)
            sock.sendto(data, address)
            sock.recv(100)
            found[name] = "REACHED"
    except OSError as error:
        found[name] = type(error).__name__
question = b"\\x12\\x34\\x01\\0\\0\\1\\0\\0\\0\\0\\0\\0\\6secret\\7example\\3org\\0\\0\\x10\\0\\1"
port, own, other = int(sys.argv[1]), sys.argv[2], sys.argv[3]
tcp("the machine's loopback", socket.AF_INET, ("127.0.0.1", port))
tcp("the machine", socket.AF_INET, (own, port))
tcp("the engine's bridge", socket.AF_INET, (other, port))
tcp("the stack's network", socket.AF_INET, ("172.18.0.2", 8000))
tcp("a public address", socket.AF_INET, ("192.0.2.1", 443))
tcp("the cloud's metadata", socket.AF_INET, ("169.254.169.254", 80))
tcp("a resolver over TCP", socket.AF_INET, ("192.0.2.53", 53))
udp("a resolver", socket.AF_INET, ("192.0.2.53", 53), question)
udp("the engine's resolver", socket.AF_INET, ("127.0.0.11", 53), question)
udp("QUIC", socket.AF_INET, ("192.0.2.1", 443), b"\\xc0" * 1200)
udp("QUIC at the relay", socket.AF_INET, ("127.9.9.9", 443), b"\\xc0" * 1200)
tcp("IPv6", socket.AF_INET6, ("2001:db8::1", 443))
tcp("IPv6 of the machine", socket.AF_INET6, ("fe80::1", port, 0, 0))
udp("IPv6 multicast", socket.AF_INET6, ("ff02::1", 53), question)
udp("multicast", socket.AF_INET, ("224.0.0.251", 5353), question)
udp("broadcast", socket.AF_INET, ("255.255.255.255", 67))
for name, kind in (("raw", socket.SOCK_RAW), ("packets", socket.SOCK_RAW)):
    try:
        socket.socket(socket.AF_PACKET if name == "packets" else socket.AF_INET, kind, 1)
        found[name] = "REACHED"
    except OSError as error:
        found[name] = type(error).__name__
print(json.dumps(found))
"""
HOLD = """
import socket, sys, time
sock = socket.create_connection(("127.9.9.9", 3128), 60)
head = f"POST http://{sys.argv[1]}/echo HTTP/1.1\\r\\nHost: {sys.argv[1]}\\r\\nContent-Length: 1000\\r\\n\\r\\n"
sock.sendall(head.encode())
sock.settimeout(240)
seen = b""
sock.sendall(b"first")
while b"first" not in seen:
    seen += sock.recv(100)
print("open", flush=True)
try:
    while sock.recv(100):
        pass
    print("ended", flush=True)
except OSError as error:
    print("dead", type(error).__name__, flush=True)
try:
    for _ in range(3):
        sock.sendall(b"more")
        time.sleep(0.1)
    print("still sends", flush=True)
except OSError:
    print("sends nothing", flush=True)
"""


async def fetch(sandbox: DockerSandbox, url: str) -> str:
    return (await run(sandbox, python(GET, url), timeout=120)).stdout.text.strip()


@asynccontextmanager
async def stand(**fields: object) -> AsyncIterator[tuple[Origin, Seen, DockerHarness]]:
    async with origin() as there:
        seen = Seen(there.port, **fields)
        async with docker_harness(seen.gate) as one:
            yield there, seen, one
        assert len(seen.gate) == 0, "a door stayed open"


async def test_an_allowed_host_is_reached_and_every_other_is_refused_in_words() -> None:
    async with stand() as (there, seen, one):
        tags = one.tags(rollout="rollout-7")
        request = {"image": "python:3.13-slim", "network": {"allow": [GOOD]}}
        sandbox = await one.docker.create(SandboxSpec.model_validate(request), tags)
        assert await fetch(sandbox, f"http://{GOOD}:{there.port}/x?y=1") == "200 hello"
        await seen.written("http", 1)
        refused = await fetch(sandbox, f"http://{BAD}:{there.port}/")
        await seen.written("http", 2)
        assert refused.startswith("403")
        assert GOOD in refused
        assert (await fetch(sandbox, f"http://{GOOD}:{there.port + 1}/")).startswith("403")
        assert there.heads[0].startswith(b"GET /x?y=1 HTTP/1.1\r\nhost: %b:%d\r\n" % (GOOD.encode(), there.port))
        assert len(there.heads) == 1
        first = next(line for line in seen.lines if line["verdict"] == "allowed")
        assert (first["rollout"], first["sandbox"], first["host"], first["port"]) == (
            "rollout-7",
            tags.id,
            GOOD,
            there.port,
        )
        assert first["received"] > 5
        assert (await seen.written("http", 3))[1:] == [(BAD, "refused"), (GOOD, "refused")]


async def test_tls_goes_through_where_its_name_is_the_one_that_was_asked_for(tmp_path: Path) -> None:
    async with origin(tls=certificate(tmp_path)) as there:
        seen = Seen(there.port)
        async with docker_harness(seen.gate) as one:
            sandbox = await one.make(network={"allow": [GOOD]})

            async def speak(host: str, name: str) -> list[str]:
                return (await say(sandbox, python(TLS, host, there.port, name))).splitlines()

            established = "HTTP/1.1 200 Connection established"
            assert await speak(GOOD, GOOD) == [established, "hello"]
            await seen.written("connect", 1)
            assert await speak(BAD, BAD) == ["HTTP/1.1 403 Forbidden"]
            assert await speak(GOOD, BAD) == [established, "cut off"]
            assert await speak(GOOD, "") == [established, "cut off"]
            assert [verdict for _, verdict in await seen.written("connect", 4)] == ["allowed"] + ["refused"] * 3
            assert len(there.heads) == 1


async def test_there_is_no_other_way_out() -> None:
    async with stand() as (there, _, one):
        sandbox, neighbour = [await one.make(network={"allow": [GOOD]}) for _ in range(2)]
        assert await say(sandbox, "ls /sys/class/net; cat /proc/net/route | tail -n +2") == "lo"
        listens = python(
            "import socket; s = socket.create_server(('0.0.0.0', 8000)); print('up', flush=True); s.accept()"
        )
        await neighbour.channel.start(ExecRequest(shell=listens))
        found = json.loads(await say(sandbox, python(WAYS, there.port, "192.0.2.2", "10.200.0.1"), timeout=240))
        assert len(found) == 18
        assert {name: end for name, end in found.items() if end == "REACHED"} == {}
        assert there.heads == []


async def test_names_are_answered_where_they_are_allowed_and_no_question_goes_further() -> None:
    async with stand() as (_, seen, one):
        sandbox = await one.make(network={"allow": [GOOD, "*.below.example"]})
        ask = "getent hosts {0} | head -1 | cut -d' ' -f1"
        assert await say(sandbox, ask.format(GOOD)) == "127.9.9.9"
        assert await say(sandbox, ask.format("a.b.below.example")) == "127.9.9.9"
        for name in ("below.example", BAD, "c2VjcmV0.tunnel.example", f"x.{GOOD}", f"{GOOD}.evil.example"):
            assert await say(sandbox, ask.format(name)) == "", name
        verdicts = dict(seen.verdicts("dns"))
        assert verdicts[GOOD] == verdicts["a.b.below.example"] == "allowed"
        assert verdicts["c2vjcmv0.tunnel.example"] == "refused"


async def test_who_ignores_the_proxy_is_led_to_it_by_name() -> None:
    async with stand() as (there, seen, one):
        sandbox = await one.make(network={"allow": [GOOD]})
        plain = f"env -u http_proxy -u HTTP_PROXY {python(GET, f'http://{GOOD}/')}"
        assert (await say(sandbox, plain)).startswith("403")  # port 80 is not open in this test, and it says so
        await seen.written("http", 1)
        script = (
            "import socket; s = socket.create_connection(('good.example', 80)); "
            f"s.sendall(b'GET / HTTP/1.1\\r\\nHost: {GOOD}:{there.port}\\r\\n\\r\\n'); print(s.makefile().read()[-5:])"
        )
        assert await say(sandbox, python(script)) == "hello"
        assert await seen.written("http", 2) == [(GOOD, "refused"), (GOOD, "allowed")]


async def test_a_sandbox_cannot_borrow_the_list_of_another() -> None:
    async with stand() as (there, _, one):
        good = await one.make(network={"allow": [GOOD]})
        also = await one.make(network={"allow": [ALSO]})
        for sandbox, own, other in ((good, GOOD, ALSO), (also, ALSO, GOOD)):
            assert await fetch(sandbox, f"http://{own}:{there.port}/") == "200 hello"
            assert (await fetch(sandbox, f"http://{other}:{there.port}/")).startswith("403")
        assert await say(good, "env | grep -i proxy | sort") == await say(also, "env | grep -i proxy | sort")


async def test_much_data_and_many_connections_arrive_whole() -> None:
    body = bytes(range(256)) * 40_000
    async with origin(body) as there:
        seen = Seen(there.port)
        async with docker_harness(seen.gate) as one:
            sandbox = await one.make(network={"allow": [GOOD]})
            many = (
                "import hashlib, sys, urllib.request, concurrent.futures as f\n"
                "fetch = lambda n: urllib.request.urlopen(sys.argv[1], data=b'z' * n).read()\n"
                "get = lambda n: hashlib.sha256(fetch(n)).hexdigest()\n"
                "print(*set(f.ThreadPoolExecutor(12).map(get, [1, 200_000, 3_000_000] * 4)))"
            )
            found = await say(sandbox, python(many, f"http://{GOOD}:{there.port}/"), timeout=240)
            assert found == hashlib.sha256(body).hexdigest()
            assert sorted(map(len, there.bodies)) == [1] * 4 + [200_000] * 4 + [3_000_000] * 4
            few = (
                "import sys, urllib.request, concurrent.futures as f\n"
                "get = lambda n: len(urllib.request.urlopen(sys.argv[1]).read(100))\n"
                "print(*set(f.ThreadPoolExecutor(100).map(get, range(100))))"
            )
            assert await say(sandbox, python(few, f"http://{GOOD}:{there.port}/"), timeout=240) == "100"
            await until(lambda: sum(one["how"] == "http" for one in seen.lines) == 112)


async def test_a_connection_without_a_reader_holds_up_nothing() -> None:
    async with origin(bytes(4 << 20)) as there:
        seen = Seen(there.port)
        async with docker_harness(seen.gate) as one:
            sandbox = await one.make(network={"allow": [GOOD]})
            lazy = (
                "import socket, time; s = socket.create_connection(('127.9.9.9', 3128)); "
                f"s.sendall(b'GET http://{GOOD}:{there.port}/ HTTP/1.1\\r\\nHost: {GOOD}:{there.port}\\r\\n\\r\\n'); "
                "print('sent', flush=True); time.sleep(300)"
            )
            await sandbox.channel.start(ExecRequest(shell=python(lazy), timeout=300))
            await until(lambda: len(there.heads) == 1)
            assert await say(sandbox, "head -c 300000 /dev/zero | wc -c") == "300000"
            assert (await fetch(sandbox, f"http://{GOOD}:{there.port}/")).startswith("200")


async def test_a_sandbox_that_kills_the_relay_gets_another() -> None:
    async with stand() as (there, _, one):
        sandbox = await one.make(network={"allow": [GOOD]})
        assert await fetch(sandbox, f"http://{GOOD}:{there.port}/") == "200 hello"
        await run(sandbox, "kill -9 -1")

        async def back() -> bool:
            return await fetch(sandbox, f"http://{GOOD}:{there.port}/") == "200 hello"

        ends = asyncio.get_running_loop().time() + 120
        while not await back():
            assert asyncio.get_running_loop().time() < ends


class Held:
    """A program in the sandbox that keeps a connection."""

    def __init__(self) -> None:
        self.text = ""

    async def start(self, sandbox: DockerSandbox, target: str) -> None:
        def take(stream: int, data: bytes) -> None:
            self.text += data.decode()

        await sandbox.channel.start(ExecRequest(shell=python(HOLD, target), timeout=400), take)
        await until(lambda: "open" in self.text)


async def test_a_sealed_sandbox_has_no_network_and_what_it_kept_is_dead() -> None:
    async with stand() as (there, seen, one):
        sandbox = await one.make(network={"access": "none", "setup": {"allow": [GOOD]}})
        held = Held()
        await held.start(sandbox, f"{GOOD}:{there.port}")
        assert await fetch(sandbox, f"http://{GOOD}:{there.port}/") == "200 hello"
        await sandbox.seal()
        await until(lambda: "sends" in held.text)
        assert held.text.split("\n")[2] == "sends nothing"
        await asyncio.wait_for(there.lost.wait(), 120)
        assert (await fetch(sandbox, f"http://{GOOD}:{there.port}/")).startswith("none")
        assert await say(sandbox, f"getent hosts {GOOD} || echo none", timeout=240) == "none"
        await sandbox.seal()
        await seen.gate.seal(sandbox.tags, Network(access="allow", allow=(GOOD,)))  # there is no way back
        assert (await fetch(sandbox, f"http://{GOOD}:{there.port}/")).startswith("none")


async def test_the_run_may_reach_less_than_the_setup() -> None:
    async with stand() as (there, seen, one):
        network = {"allow": [GOOD], "setup": {"allow": [GOOD, ALSO]}}
        sandbox = await one.make(network=network)
        held = Held()
        await held.start(sandbox, f"{ALSO}:{there.port}")
        await sandbox.seal()
        await until(lambda: "sends" in held.text)
        assert "sends nothing" in held.text
        assert await fetch(sandbox, f"http://{GOOD}:{there.port}/") == "200 hello"
        assert (await fetch(sandbox, f"http://{ALSO}:{there.port}/")).startswith("403")
        assert await say(sandbox, f"getent hosts {ALSO} || echo none", timeout=240) == "none"
        fork = await sandbox.fork(one.tags())
        assert await fetch(fork, f"http://{GOOD}:{there.port}/") == "200 hello"
        assert (await fetch(fork, f"http://{ALSO}:{there.port}/")).startswith("403")
        assert ("", "allowed") not in seen.verdicts("http")


async def test_a_setup_with_the_internet_ends_with_its_bridge_and_its_resolver() -> None:
    async with stand() as (there, seen, one):
        network = {"allow": [GOOD], "setup": "internet"}
        sandbox = await one.make(network=network)
        assert await fetch(sandbox, f"http://{ALSO}:{there.port}/") == "200 hello"  # everything is granted for now
        address = await say(sandbox, f"getent hosts {ALSO} | head -1 | cut -d' ' -f1")
        assert address == "127.0.0.1"  # the true one: its packets find their own way
        assert "eth0" in await say(sandbox, "ls /sys/class/net")
        gateway = (await say(sandbox, "awk '$2 == \"00000000\" {print $3}' /proc/net/route")).strip()
        assert gateway
        kept = await keep_on_bridge(sandbox, gateway)
        await sandbox.seal()
        assert await kept == "nothing comes"
        assert await say(sandbox, "ls /sys/class/net") == "lo"
        assert await fetch(sandbox, f"http://{GOOD}:{there.port}/") == "200 hello"
        assert (await fetch(sandbox, f"http://{ALSO}:{there.port}/")).startswith("403")
        await seen.written("http", 3)
        before = len(seen.lines)
        assert await say(sandbox, f"getent hosts tunnel.{ALSO} || echo none", timeout=240) == "none"
        assert all(line["verdict"] == "refused" for line in seen.lines[before:])


async def keep_on_bridge(sandbox: DockerSandbox, gateway: str) -> asyncio.Task[str]:
    """A connection over the bridge itself, to a listener at its other end; what becomes of it."""
    address = ".".join(str(byte) for byte in bytes.fromhex(gateway)[::-1])
    connected = asyncio.Event()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while data := await reader.read(100):
                writer.write(data)
                if b"x" in data:  # it has had its first answer
                    connected.set()
        except (OSError, asyncio.CancelledError):
            pass
        finally:
            writer.transport.abort()

    server = await asyncio.start_server(serve, address, 0)
    port = server.sockets[0].getsockname()[1]
    script = (
        f"import socket, time; s = socket.create_connection(('{address}', {port}), 60); s.settimeout(4)\n"
        "s.sendall(b'a'); assert s.recv(1) == b'a'\n"
        "while True:\n"
        "    try:\n"
        "        time.sleep(0.05); s.sendall(b'x'); s.recv(1)\n"
        "    except OSError:\n"
        "        print('nothing comes'); break\n"
    )

    async def watch() -> str:
        try:
            return await say(sandbox, python(script), timeout=240)
        finally:
            server.close()

    task = asyncio.create_task(watch())
    await asyncio.wait_for(connected.wait(), 120)
    return task


async def test_the_next_broker_opens_the_gate_again_for_the_run() -> None:
    async with stand() as (there, seen, one):
        sandbox = await one.make(network={"allow": [GOOD], "setup": {"allow": [GOOD, ALSO]}})
        later = Seen(there.port)
        await one.docker.close()
        await seen.gate.detach(sandbox.tags)
        second = Docker(need_engine(), gate=later.gate)
        await second.open()
        one.docker = second
        taken = [await take() async for _, take in second.found(one.stack)]  # type: ignore[misc]
        (adopted,) = taken
        assert isinstance(adopted, DockerSandbox)
        assert await fetch(adopted, f"http://{GOOD}:{there.port}/") == "200 hello"
        assert (await fetch(adopted, f"http://{ALSO}:{there.port}/")).startswith("403")
        await adopted.remove()
        assert len(later.gate) == 0
