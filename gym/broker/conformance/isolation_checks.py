"""Isolation: what a sandbox must not see, reach or become. Only for providers that say they isolate."""

from __future__ import annotations

import asyncio
import os
import socket

from gym.broker.conformance.harness import SOON, Harness, Skipped, check, out, own_namespace, same, sh
from gym.broker.conformance.requires import requires

MARK = "GYM_CONFORMANCE_MARK"


async def _refused(harness: Harness, *lines: str) -> None:
    sandbox = await harness.sandbox()
    for line in lines:
        result = await sh(sandbox, line, timeout=SOON)
        check(result.exit_code != 0, f"`{line}` succeeded: {result.stdout.text[:100]!r}")


async def no_interfaces(harness: Harness) -> None:
    """with network `none` there is no interface but loopback, and no route"""
    names = await out(
        await harness.sandbox(), "tail -n +3 /proc/net/dev | cut -d: -f1 | tr -d ' ' | grep -v '^lo$' || true"
    )
    same([name for name in names.split() if name not in ("sit0", "tunl0", "ip6tnl0", "gre0")], [])
    same(await out(await harness.sandbox(), "tail -n +2 /proc/net/route | wc -l"), "0")


async def loopback_is_own(harness: Harness) -> None:
    """loopback is the sandbox's own: what listens on this machine is not there"""
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = f"{server.getsockname()[1]:04X}"
        same(await out(await harness.sandbox(), f"grep -c ':{port} 00000000:0000 0A' /proc/net/tcp || true"), "0")


async def no_host_environment(harness: Harness) -> None:
    """no variable of this machine's is seen inside"""
    os.environ[MARK] = "secret"
    try:
        sandbox = await harness.fresh()
        found = await out(
            sandbox, f"env | grep -c {MARK} || true; cat /proc/*/environ 2>/dev/null | grep -c {MARK} || true"
        )
        same(found, "0\n0")
    finally:
        del os.environ[MARK]


async def no_host_processes(harness: Harness) -> None:
    """no process of this machine's is seen inside"""
    sandbox = await harness.sandbox()
    count = int(await out(sandbox, "ls -d /proc/[0-9]* | wc -l"))
    check(count < 32, f"{count} processes are seen")
    same(await out(sandbox, "cat /proc/[0-9]*/cmdline | tr '\\0' ' ' | grep -c '[p]ytest' || true"), "0")


async def first_process_closed(harness: Harness) -> None:
    """the first process can neither be read nor written nor traced"""
    await _refused(
        harness,
        "head -c 1 /proc/1/mem",
        "echo x > /proc/1/mem",
        "cat /proc/1/environ",
        "cat /proc/1/fd/0 < /dev/null",
        "echo x > /proc/1/fd/1",
        "ls /proc/1/root/",
        "readlink /proc/1/exe",
        "ls /proc/1/cwd/",
        "cat /proc/1/maps | grep -q .",
        "cat /proc/1/syscall",
        "cat /proc/1/stack",
    )


async def no_capabilities(harness: Harness) -> None:
    """no command has a capability, and none can be gained"""
    found = await out(await harness.sandbox(), "grep -E '^(CapEff|CapBnd|CapPrm|CapAmb|NoNewPrivs)' /proc/self/status")
    values = dict(line.split(":\t") for line in found.splitlines())
    same(
        {name: int(value, 16) for name, value in values.items() if name.startswith("Cap")},
        dict.fromkeys(values.keys() - {"NoNewPrivs"}, 0),
    )
    same(values["NoNewPrivs"], "1")


async def no_mounts(harness: Harness) -> None:
    """nothing can be mounted, and no root can be changed"""
    await own_namespace(await harness.sandbox(), "mnt")
    place = "/tmp/conformance-mount"
    await _refused(
        harness,
        f"mkdir -p {place}; mount -t tmpfs none {place}",
        f"mkdir -p {place}; mount --bind /etc {place}",
        f"mkdir -p {place}; mount -t proc none {place}",
        "chroot / true",
    )


async def no_devices(harness: Harness) -> None:
    """no device can be made, and none of the machine's is there"""
    await _refused(
        harness,
        "mknod /tmp/conformance-device b 8 0",
        "head -c 1 /dev/sda",
        "head -c 1 /dev/vda",
        "head -c 1 /dev/mem",
        "head -c 1 /dev/kmsg",
    )


async def no_kernel_settings(harness: Harness) -> None:
    """no setting of the kernel can be opened for writing"""
    files = (
        "/proc/sys/kernel/randomize_va_space",
        "/proc/sys/kernel/core_pattern",
        "/proc/sys/kernel/hostname",
        "/proc/sys/vm/drop_caches",
        "/proc/sysrq-trigger",
        "/proc/mtrr",
        "/proc/acpi/wakeup",
        "/sys/kernel/uevent_helper",
        "/sys/kernel/mm/ksm/run",
    )
    await _refused(harness, *(f": > {file}" for file in files))  # opened only: a provider that fails must not be harmed


async def no_clock(harness: Harness) -> None:
    """neither the clock nor the name of the machine can be set"""
    await own_namespace(await harness.sandbox(), "uts")
    await _refused(harness, 'date -s "@$(date +%s)"', 'hostname "$(hostname)"')


async def no_engine(harness: Harness) -> None:
    """no socket of an engine is there"""
    await _refused(
        harness, "ls /var/run/docker.sock", "ls /run/docker.sock", "ls /run/containerd", "ls /run/user/0/podman"
    )


async def no_secrets(harness: Harness) -> None:
    """nothing of this machine's users is there"""
    sandbox = await harness.sandbox()
    same(await out(sandbox, "ls -A /root/.ssh /root/.docker /home/*/.ssh 2>/dev/null | wc -l"), "0")
    shadow = await sh(sandbox, "grep -c '^[^:]*:[$]' /etc/shadow")
    check(shadow.stdout.text.strip() in ("", "0"), "password hashes can be read")


async def own_name(harness: Harness) -> None:
    """it has a host name of its own"""
    check(
        await out(await harness.sandbox(), "cat /proc/sys/kernel/hostname") != socket.gethostname(),
        "it has this machine's name",
    )


async def helper_kept(harness: Harness) -> None:
    """the helper cannot be changed or removed"""
    await _refused(
        harness, "echo x > /.gym/helper", "rm -f /.gym/helper && test ! -e /.gym/helper", "mv /.gym /elsewhere"
    )


async def own_workdir(harness: Harness) -> None:
    """a sandbox starts its commands in the directory that it was made with"""
    sandbox = await harness.fresh(workdir="/conformance/work")
    same(await out(sandbox, "pwd; echo x > f && cat /conformance/work/f"), "/conformance/work\nx")


async def read_only(harness: Harness) -> None:
    """a read-only sandbox can be written in /tmp alone"""
    sandbox = await harness.fresh(read_only=True)
    for path in ("/", "/usr", "/etc", "."):
        result = await sh(sandbox, f"echo x > {path}/conformance")
        check(result.exit_code != 0, f"{path} can be written")
    same(await out(sandbox, "echo x > /tmp/conformance && cat /tmp/conformance"), "x")


async def bounded_mount(harness: Harness) -> None:
    """a mount in memory is there and no larger than was asked for"""
    sandbox = await harness.fresh(mounts={"/scratch": "1m"})
    same(await out(sandbox, "echo x > /scratch/f && cat /scratch/f"), "x")
    full = await sh(sandbox, "head -c 4000000 /dev/zero > /scratch/big")
    check(full.exit_code != 0, "four MB went into one")


async def signals_stay_inside(harness: Harness) -> None:
    """a signal to a process of this machine's does not arrive"""
    sleeper = await asyncio.create_subprocess_exec("sleep", "1000")
    try:
        result = await sh(await harness.sandbox(), f"kill -9 {sleeper.pid}")
        check(result.exit_code != 0 or sleeper.returncode is None, "it was sent")
        check(sleeper.returncode is None, "a process of this machine was ended")
    finally:
        if sleeper.returncode is None:
            sleeper.kill()
        await sleeper.wait()


@requires("limits")
async def pids_bounded(harness: Harness) -> None:
    """there can be no more processes than were asked for"""
    sandbox = await harness.fresh(limits={"pids": 32})
    line = "i=0; while [ $i -lt 60 ]; do sleep 1000 & i=$((i+1)); done 2>/dev/null; ls -d /proc/[0-9]* | wc -l"
    result = await sh(sandbox, line, kill_leftovers=True, timeout=SOON)
    counts = [int(word) for word in result.stdout.text.split()]
    check(all(count <= 34 for count in counts), f"{counts} processes")
    check(bool(counts) or result.exit_code != 0, "sixty processes were started")


@requires("users")
async def other_user(harness: Harness) -> None:
    """a sandbox made for another user runs its commands as that user"""
    sandbox = await harness.fresh(user="65534")
    same(await out(sandbox, "id -u"), "65534")
    check((await sh(sandbox, "echo x > /etc/conformance")).exit_code != 0, "it can write /etc")


async def no_set_uid(harness: Harness) -> None:
    """a set-uid program gains nothing"""
    sandbox = await harness.sandbox()
    found = (await sh(sandbox, "ls -d /bin/su /usr/bin/su /bin/mount /usr/bin/passwd 2>/dev/null")).stdout.text.split()
    if not found:
        raise Skipped("there is no set-uid program inside")
    same(await out(sandbox, "grep NoNewPrivs /proc/self/status | cut -f2"), "1")
