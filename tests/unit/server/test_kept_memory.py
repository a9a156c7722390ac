"""Large bodies cost no new pages once a server has had one."""

from __future__ import annotations

import platform
import resource

import pytest

from gym.server.kept_memory import keep_freed_memory

SIZE = 4 << 20


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="only glibc has the setting")
def test_memory_of_a_large_body_is_used_again() -> None:
    assert keep_freed_memory()
    copy_often(3)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    copy_often(50)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before < 50 * SIZE / resource.getpagesize() / 10


def copy_often(times: int) -> None:
    for _ in range(times):
        bodies = [bytes(SIZE) for _ in range(3)]
        del bodies
