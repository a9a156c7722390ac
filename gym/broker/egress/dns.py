"""A resolver for sandboxes: answers allowed names with the relay's own address, and forwards nothing. Pure.

So a client that ignores the proxy variables reaches the relay as well, and is checked there by the name it uses.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Sequence
from typing import Final, NamedTuple

from gym.wire.addresses import plain_host

A, AAAA, IN = 1, 28, 1
NO_ERROR, NO_SUCH_NAME = 0, 3
HEAD: Final = 12
SECONDS: Final = 30  # how long an answer may be kept
NAMES: Final = {A: "A", AAAA: "AAAA", 5: "CNAME", 12: "PTR", 15: "MX", 16: "TXT", 33: "SRV", 65: "HTTPS", 255: "ANY"}


class DnsQuestion(NamedTuple):
    id: int
    flags: int
    name: str  # "" where it is not one that could be allowed
    kind: int
    raw: bytes  # as it was asked, for the answer repeats it

    @property
    def kind_name(self) -> str:
        return NAMES.get(self.kind, f"TYPE{self.kind}")


def read_question(data: bytes) -> DnsQuestion | None:
    """One question; None where the datagram is not a valid one, which gets no answer."""
    if len(data) < HEAD or data[2] & 0x80 or data[2] & 0x78 or int.from_bytes(data[4:6]) != 1:
        return None
    labels, at = [], HEAD
    while True:
        if at >= len(data):
            return None
        size = data[at]
        if size == 0:
            break
        if size > 63 or at + 1 + size > len(data):
            return None
        labels.append(data[at + 1 : at + 1 + size])
        at += 1 + size
    if len(data) < at + 5:
        return None
    kind, group = int.from_bytes(data[at + 1 : at + 3]), int.from_bytes(data[at + 3 : at + 5])
    name = plain_host(b".".join(labels).decode("ascii", "replace")) if labels and group == IN else ""
    return DnsQuestion(int.from_bytes(data[:2]), int.from_bytes(data[2:4]), name, kind, data[HEAD : at + 5])


def write_answer(question: DnsQuestion, code: int, addresses: Sequence[str] = ()) -> bytes:
    answers = b"".join(_answer(one) for one in addresses)
    flags = 0x8080 | (question.flags & 0x0100) | code
    head = b"".join(one.to_bytes(2) for one in (question.id, flags, 1, len(addresses), 0, 0))
    return head + question.raw + answers


def _answer(address: str) -> bytes:
    packed = ipaddress.ip_address(address).packed
    kind = A if len(packed) == 4 else AAAA
    return b"\xc0\x0c" + kind.to_bytes(2) + IN.to_bytes(2) + SECONDS.to_bytes(4) + len(packed).to_bytes(2) + packed
