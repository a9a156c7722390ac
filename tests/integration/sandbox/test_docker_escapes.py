"""Ways out of a sandbox, tried from inside a running one: every one is refused, and the machine is as it was.

What is tried from outside, through a request, is in tests/unit/broker/test_policy.py and test_create_body.py.
"""

from __future__ import annotations

import asyncio
import errno
import platform
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack

import pytest

from gym.broker.provider import Tags
from gym.broker.providers.docker.docker_sandbox import DockerSandbox
from gym.wire.sandbox import SandboxSpec
from tests.support.sandbox_docker import IMAGE, docker_harness, run, say

pytestmark = pytest.mark.docker

LIBC = (
    "import ctypes, os, sys; libc = ctypes.CDLL(None, use_errno=True); BUFFER = ctypes.create_string_buffer(128); "
    "WORD = (ctypes.c_ulong * 2)(ctypes.addressof(BUFFER), 8); ONE = ctypes.c_long(1)"
)
REFUSALS = (errno.EPERM, errno.EACCES, errno.ENOSYS)
TELL = "sys.exit(0 if {call} >= 0 else ctypes.get_errno() or 1)"
CALLS = {
    "mount a tmpfs": "libc.mount(b'none', b'/mnt', b'tmpfs', 0, None)",
    "mount proc again": "libc.mount(b'proc', b'/mnt', b'proc', 0, None)",
    "mount sysfs": "libc.mount(b'sysfs', b'/mnt', b'sysfs', 0, None)",
    "mount a control group": "libc.mount(b'cgroup', b'/mnt', b'cgroup', 0, b'memory')",
    "remount the root": "libc.mount(b'', b'/', b'', 32 | 4096, None)",
    "bind a directory": "libc.mount(b'/', b'/mnt', b'', 4096, None)",
    "unmount proc": "libc.umount2(b'/proc', 2)",
    "leave for a new user namespace": "libc.unshare(0x10000000)",
    "leave for a new mount namespace": "libc.unshare(0x00020000)",
    "leave for a new network namespace": "libc.unshare(0x40000000)",
    "join the namespaces of pid 1": "libc.setns(os.open('/proc/1/ns/mnt', 0), 0)",
    "pivot the root": "libc.syscall(155, b'/', b'/mnt')",
    "change the root": "libc.chroot(b'/mnt')",
    "make a block device": "libc.mknod(b'/tmp/disk', 0o60666, (254 << 8))",
    "make a memory device": "libc.mknod(b'/tmp/mem', 0o20666, (1 << 8) | 1)",
    "load a kernel module": "libc.syscall(313, 0, b'', 0)",
    "load another kernel": "libc.syscall(246, 0, 0, 0, 0, 0)",
    "set the clock": "libc.settimeofday(ctypes.create_string_buffer(16), None)",
    "set the host's name": "libc.sethostname(b'evil', 4)",
    "reboot": "libc.reboot(0)",
    "trace pid 1": "libc.ptrace(16, 1, 0, 0)",
    "read the memory of pid 1": "libc.syscall(310, ONE, WORD, ONE, WORD, ONE, ctypes.c_long(0))",
    "take the kernel's keys": "libc.syscall(250, 0, -4, 0)",
    "add a kernel key": "libc.syscall(248, b'user', b'x', b'y', 1, -4)",
    "run in the kernel": "libc.syscall(321, 0, BUFFER, 128)",
    "count the kernel's events": "libc.syscall(298, BUFFER, 0, -1, -1, 0)",
    "handle faults of the kernel": "libc.syscall(323, 0)",
    "open by handle": "libc.syscall(304, 3, BUFFER, 0)",
    "get a raw socket": "libc.socket(2, 3, 1)",
    "get a packet socket": "libc.socket(17, 3, 768)",
    "become another user": "libc.setuid(1000)",
    "raise a priority": "libc.setpriority(0, 0, -20)",
    "take a limit from pid 1": "libc.prlimit(1, 9, (ctypes.c_ulong * 2)(1, 1), None)",
    "slow pid 1 down": "libc.setpriority(0, 1, 19)",
    "slow the group of pid 1 down": "libc.setpriority(1, 1, 19)",
    "slow everything of the user down": "libc.setpriority(2, 0, 19)",
    "give pid 1 another scheduler": "libc.sched_setscheduler(1, 5, ctypes.byref(ctypes.c_int(0)))",
    "give pid 1 other attributes": "libc.syscall(314, 1, (ctypes.c_int * 12)(48, 5), 0)",
    "move pid 1 to one core": "libc.sched_setaffinity(1, 8, (ctypes.c_ulong * 1)(1))",
    "make pid 1 wait for its disk": "libc.syscall(251, 1, 1, 3 << 13)",
    "take hold of pid 1": "libc.syscall(434, 1, 0)",
    "lift a limit": "libc.setrlimit(7, (ctypes.c_ulong * 2)(1 << 20, 1 << 20))",
    "turn swap on": "libc.syscall(167, b'/tmp/swap', 0)",
    "read the kernel's log": "libc.klogctl(3, ctypes.create_string_buffer(64), 64)",
    "account for processes": "libc.acct(b'/tmp/acct')",
    "give itself a capability": "libc.prctl(47, 2, 21, 0, 0)",
    "use the machine's ports": "libc.iopl(3)",
}
WAYS = {
    "the engine's socket": "ls -d /var/run/docker.sock /run/docker.sock /run/containerd /run/podman | grep .",
    "the machine's memory": "head -c 1 /dev/mem || head -c 1 /dev/kmem || head -c 1 /proc/kcore",
    "the machine's disks": "ls /dev/vd* /dev/sd* /dev/nvme* /dev/mapper /dev/kvm",
    "the root of pid 1": "ls /proc/1/root/",
    "the memory of pid 1": "head -c 1 /proc/1/mem || cat /proc/1/maps | grep .",
    "the pipes of pid 1": "cat /proc/1/fd/0 || echo x > /proc/1/fd/1",
    "the environment of pid 1": "cat /proc/1/environ | grep -a .",
    "ending pid 1": "kill -9 1; sleep 0.2; test ! -d /proc/1",
    "the kernel's settings": "echo 1 > /proc/sys/kernel/panic || echo x > /proc/sys/kernel/core_pattern",
    "the kernel's keys": "echo h > /proc/sysrq-trigger",
    "interrupts": "echo 1 > /proc/irq/default_smp_affinity",
    "the kernel's address space": "grep -v '^0\\{16\\}' /proc/kallsyms",
    "a control group's own program": "cd /sys/fs/cgroup; echo /x > release_agent || echo /x > memory/release_agent",
    "a control group's last word": "cd /sys/fs/cgroup; echo 1 > memory/notify_on_release || mkdir memory/x || mkdir x",
    "a higher memory limit": "cd /sys/fs/cgroup; echo -1 > memory/memory.limit_in_bytes || echo max > memory.max",
    "a device rule": "echo a > /sys/fs/cgroup/devices/devices.allow",
    "the helper's volume": "echo x > /.gym/helper || rm /.gym/helper || touch /.gym/x || ln -sf /bin/true /.gym/helper",
    "the first process's out-of-memory score": "for f in /proc/1 /proc/1/task/1 /proc/self/root/proc/1;"
    " do echo 1000 > $f/oom_score_adj && exit 0; done; exit 1",
    "the modes of the machine's own files": "chmod 0444 /proc/consoles || chmod 0444 /proc/meminfo",
    "the text of the helper": "head -c 1 /.gym/helper | grep -a .",
    "the machine's disk by its hosts": "echo x >> /etc/hosts || echo x >> /etc/resolv.conf || echo x >> /etc/hostname",
    "the machine's firmware": "ls /sys/firmware/* 2>/dev/null | grep .",
    "security settings": "echo 0 > /sys/kernel/security/x || echo 1 > /sys/module/kernel/parameters/panic",
    "the host's processes": "test $(ls -d /proc/[0-9]* | wc -l) -gt 20",
    "capabilities": "grep -E 'Cap(Inh|Prm|Eff|Bnd|Amb):' /proc/self/status | grep -v 0000000000000000",
    "more memory in /dev/shm": "head -c 100000000 /dev/zero > /dev/shm/x",
    "another process's out-of-memory score": "echo -1000 > /proc/self/oom_score_adj",
    "the cloud's metadata": "python3 -c \"import socket; socket.create_connection(('169.254.169.254', 80), 2)\"",
    "the machine's bridge": "python3 -c \"import socket; socket.create_connection(('172.17.0.1', 22), 2)\"",
    "the internet": "python3 -c \"import socket; socket.create_connection(('192.0.2.1', 80), 2)\"",
    "a name": "python3 -c \"import socket; print(socket.getaddrinfo('example.org', 80))\"",
    "an interface": "test $(ls /sys/class/net | wc -l) -gt 1",
    "abstract sockets of the host": "test $(grep -c @ /proc/net/unix) -gt 0",
}


@pytest.fixture
async def sandbox() -> AsyncIterator[DockerSandbox]:
    async with docker_harness() as one:
        yield await one.make(limits={"memory": "256m", "pids": 64})


@pytest.mark.skipif(platform.machine() != "x86_64", reason="calls are by their numbers on x86_64")
@pytest.mark.parametrize("batch", [0, 1, 2])
async def test_the_kernel_refuses_every_call_that_leads_out(batch: int, sandbox: DockerSandbox) -> None:
    assert (await run(sandbox, f'python3 -c "{LIBC}; {TELL.format(call="libc.getpid()")}"')).exit_code == 0
    tries = list(CALLS.items())[batch::3]
    results = await asyncio.gather(
        *(run(sandbox, f'python3 -c "{LIBC}; {TELL.format(call=call)}"', timeout=120) for _, call in tries)
    )
    answers = {name: result.exit_code or 0 for (name, _), result in zip(tries, results, strict=True)}
    assert {name: errno.errorcode.get(code) for name, code in answers.items() if code not in REFUSALS} == {}
    assert await say(sandbox, "echo alive") == "alive"


@pytest.mark.parametrize("name", WAYS)
async def test_from_inside_there_is_no_way_to(name: str, sandbox: DockerSandbox) -> None:
    result = await run(sandbox, f"({WAYS[name]}) 2>/dev/null", timeout=120)
    assert result.exit_code != 0, f"{name}: {result.stdout.text[:500]}"
    assert not result.timed_out
    assert await say(sandbox, "echo alive") == "alive"


async def test_a_user_without_rights_gains_none_by_a_set_user_id_program() -> None:
    async with docker_harness() as one:
        sandbox = await one.make()
        await say(sandbox, "cp $(readlink -f $(command -v python3)) /tmp/suid && chmod 4755 /tmp/suid")
        nobody = await sandbox.channel_as("nobody")
        assert await say(nobody, "/tmp/suid -c 'import os; print(os.geteuid())'") == "65534"


async def test_killing_everything_kills_neither_the_channel_nor_the_sandbox(sandbox: DockerSandbox) -> None:
    await run(sandbox, "kill -9 -1; pkill -9 -f .; kill -9 1")
    assert await say(sandbox, "echo alive") == "alive"


async def test_labels_of_a_request_do_not_make_a_sandbox_anybody_elses() -> None:
    async with AsyncExitStack() as stack:
        mine, theirs = [await stack.enter_async_context(docker_harness()) for _ in range(2)]
        spec = SandboxSpec(image=IMAGE, labels={"gym.stack": theirs.stack, "gym.sandbox": "other", "x": "y"})
        sandbox = await mine.docker.create(spec, mine.tags())
        assert await theirs.docker.sweep(theirs.stack, frozenset()) == 0
        reply = await mine.docker.engine.call("GET", f"/containers/{sandbox.container}/json", doing="look")
        assert (reply["Config"]["Labels"]["gym.stack"], reply["Config"]["Labels"]["x"]) == (mine.stack, "y")


@pytest.mark.parametrize("evil", ["../x", "a/b", "a b", "A", "", "x" * 64, "a\n", "a?force=1", "a%2fb", ".", "-a"])
async def test_an_id_that_is_a_path_or_a_query_reaches_no_engine(evil: str) -> None:
    async with docker_harness() as one:
        with pytest.raises(ValueError, match="not a sandbox's id"):
            await one.docker.create(SandboxSpec(image=IMAGE), Tags(evil, one.stack, "i", "o"))
        assert await one.containers() == []


async def test_a_stacks_containers_that_are_not_sandboxes_are_left_alone() -> None:
    async with docker_harness() as one:
        body = {"Image": IMAGE, "Labels": {"gym.stack": one.stack, "gym.sandbox": "victim"}}
        named = {"name": f"server-of-{one.stack}"}
        made = await one.docker.engine.call("POST", "/containers/create", named, json=body, doing="make a server")
        try:
            assert [tags async for tags, _ in one.docker.found(one.stack)] == []
            assert await one.docker.sweep(one.stack, frozenset()) == 0
        finally:
            await one.docker.engine.call("DELETE", f"/containers/{made['Id']}", {"force": True}, doing="remove it")


async def test_no_variable_of_the_brokers_gets_in(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SECRET_OF_THE_BROKER", "1234")
    async with docker_harness() as one:
        sandbox = await one.make()
        assert "SECRET_OF_THE_BROKER" not in await say(sandbox, "env; cat /proc/*/environ 2>/dev/null | tr '\\0' '\\n'")
