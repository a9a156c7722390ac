"""Resource limits of a program, and a seccomp filter that refuses system calls that reach beyond its process."""

# ruff: noqa: PTH123
# (descriptors outlive their blocks, and what is imported costs each program its time)

from __future__ import annotations

import ctypes
import functools
import math
import os
import platform
import resource
import struct
import sys
from typing import Any

STACK = 512 << 20
FILE = 64 << 20
PR_SET_DUMPABLE, PR_SET_SECCOMP, PR_SET_NO_NEW_PRIVS = 4, 22, 38

# Calls that reach beyond the process, by machine: number in the kernel's table. -1: that machine has none.
ARCHES = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
REFUSED = (  # fork, vfork, execve, execveat, tkill, rt_sigqueueinfo, rt_tgsigqueueinfo, pidfd_send_signal, pidfd_open
    *((57, -1), (58, -1), (59, 221), (322, 281), (200, 130), (129, 138), (297, 240), (424, 424), (434, 434)),
    # ptrace, process_vm_readv, process_vm_writev, process_madvise, kcmp, migrate_pages, move_pages, pidfd_getfd
    *((101, 117), (310, 270), (311, 271), (440, 440), (312, 272), (256, 238), (279, 239), (438, 438)),
    # setpriority, sched_setattr, sched_setparam, sched_setscheduler, sched_setaffinity, ioprio_set, setpgid:
    # a program that makes way for all others would be starved by its own wish
    *((141, 140), (314, 274), (142, 118), (144, 119), (203, 122), (251, 30), (109, 154)),
    # shmget, semget, msgget, mq_open, add_key, request_key, keyctl: what would outlive the process
    *((29, 194), (64, 190), (68, 186), (240, 180), (248, 217), (249, 218), (250, 219)),
    # unshare, setns, mount, perf_event_open, bpf, userfaultfd, io_uring_setup
    *((272, 97), (308, 268), (165, 40), (298, 241), (321, 280), (323, 282), (425, 425)),
)
# kill, tgkill, prlimit64: of itself alone
OWN = ((62, 129), (234, 131), (302, 261))
CLONE, CLONE3 = (56, 220), (435, 435)
LOAD, EQUAL, ATLEAST, ANYBIT, RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
ALLOW, EPERM, ENOSYS, KILL = 0x7FFF0000, 0x00050001, 0x00050026, 0x80000000


def limit(asked: Any, libc: Any) -> None:
    seconds = int(math.ceil(asked["cpu"])) + 1
    for what, value in (
        (resource.RLIMIT_CPU, seconds),
        (resource.RLIMIT_CORE, 0),
        (resource.RLIMIT_FSIZE, FILE),
        (resource.RLIMIT_NOFILE, 256),
        (resource.RLIMIT_AS, asked["memory"]),
    ):
        had = resource.getrlimit(what)[1]
        resource.setrlimit(what, (value, value) if had == resource.RLIM_INFINITY or value <= had else (had, had))
    hard = resource.getrlimit(resource.RLIMIT_STACK)[1]
    resource.setrlimit(resource.RLIMIT_STACK, (STACK if hard == resource.RLIM_INFINITY else min(STACK, hard), hard))
    go_first(libc, alone=asked["alone"])
    rules = make_filter(os.getpid()) if libc is not None else None
    if rules is not None:
        install_filter(libc, rules)


def go_first(libc: Any, *, alone: bool) -> None:
    """When memory is full it is the program that is ended, not what runs it. These files belong to root
    while the process is not dumpable, so it is made dumpable for the write, where no other process could trace it."""
    opened = alone and libc is not None and os.getuid() != 0
    if opened:
        libc.prctl(PR_SET_DUMPABLE, 1, 0, 0, 0)
    try:
        with open("/proc/self/oom_score_adj", "wb") as file:
            file.write(b"1000")
    except OSError:
        pass
    finally:
        if opened:
            libc.prctl(PR_SET_DUMPABLE, 0, 0, 0, 0)


def install_filter(libc: Any, rules: bytes) -> None:
    held = ctypes.create_string_buffer(rules, len(rules))
    program = ctypes.create_string_buffer(struct.pack("HxxxxxxP", len(rules) // 8, ctypes.addressof(held)))
    libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    if libc.prctl(PR_SET_SECCOMP, 2, ctypes.byref(program), 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "the seccomp filter could not be installed")


@functools.lru_cache(maxsize=1)
def make_filter(pid: int) -> bytes | None:
    """No process but itself may be made, signalled, limited or looked into, and nothing stays in the kernel."""
    arch = ARCHES.get(platform.machine()) if sys.platform == "linux" else None
    if arch is None or struct.calcsize("P") != 8:
        return None
    which = list(ARCHES).index(platform.machine())
    rules: list[tuple[int, int, int, int]] = [(LOAD, 0, 0, 4), (EQUAL, 1, 0, arch), (RETURN, 0, 0, KILL)]
    rules += [(LOAD, 0, 0, 0), (ATLEAST, 0, 1, 0x40000000), (RETURN, 0, 0, EPERM)]
    for numbers in REFUSED:
        if numbers[which] >= 0:
            rules += [(EQUAL, 0, 1, numbers[which]), (RETURN, 0, 0, EPERM)]
    rules += [(EQUAL, 0, 1, CLONE3[which]), (RETURN, 0, 0, ENOSYS)]  # its flags cannot be read: clone is used then
    rules += [(EQUAL, 0, 4, CLONE[which]), (LOAD, 0, 0, 16), (ANYBIT, 0, 1, 0x10000)]  # threads alone
    rules += [(RETURN, 0, 0, ALLOW), (RETURN, 0, 0, EPERM)]
    for numbers in OWN:
        rules += [(EQUAL, 0, 5, numbers[which]), (LOAD, 0, 0, 16), (EQUAL, 1, 0, 0), (EQUAL, 0, 1, pid)]
        rules += [(RETURN, 0, 0, ALLOW), (RETURN, 0, 0, EPERM)]
    rules.append((RETURN, 0, 0, ALLOW))
    return b"".join(struct.pack("HBBI", *rule) for rule in rules)
