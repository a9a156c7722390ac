"""Memory that a large body took is kept for the next one: new pages of the kernel cost twice what the copying does."""

from __future__ import annotations

import ctypes
from typing import Final

KEPT: Final = 64 << 20  # bytes that glibc may hold free; only bodies of some MB ever take that much
SHARED: Final = 32 << 20  # smaller blocks come from that memory, larger ones from the kernel
_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3


def keep_freed_memory() -> bool:
    """Of this process. False where its C library is not glibc: then nothing changes."""
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError, TypeError):
        return False
    return bool(mallopt(_M_TRIM_THRESHOLD, KEPT) and mallopt(_M_MMAP_THRESHOLD, SHARED))
