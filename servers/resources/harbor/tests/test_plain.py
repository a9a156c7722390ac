"""What a Dockerfile asks for, where this machine's own programs have to do; what they cannot is refused."""

from __future__ import annotations

import pytest
from plain import PlainPlace, read_plain

from gym.wire.failures import RolloutError
from gym.wire.sandbox import Build

BASES = ("python:3*-slim*", "debian:*")
FILES = {"a.txt": b"a", "site/b.txt": b"b", "site/deep/c.txt": b"c"}


def plain(*lines: str) -> PlainPlace:
    return read_plain(Build(dockerfile="\n".join(("FROM python:3.13-slim", *lines)), files=FILES), BASES)


def test_folders_files_and_variables_are_read() -> None:
    place = plain("WORKDIR /srv", "WORKDIR app", "ENV A=1 B='two words'", "ENV C three four", "COPY a.txt \\", "  ./x/")
    assert place.workdir == "/srv/app"
    assert place.env == {"A": "1", "B": "two words", "C": "three four"}
    assert place.files == {"/srv/app/x/a.txt": b"a"}


@pytest.mark.parametrize(
    ("line", "paths"),
    [
        ("COPY . .", {"/app/a.txt", "/app/site/b.txt", "/app/site/deep/c.txt"}),
        ("COPY site/ /app/kept/", {"/app/kept/b.txt", "/app/kept/deep/c.txt"}),
        ("COPY a.txt /app/other.txt", {"/app/other.txt"}),
        ("ADD ./a.txt /root/", {"/root/a.txt"}),
    ],
)
def test_copies_stand_where_docker_puts_them(line: str, paths: set[str]) -> None:
    assert set(plain("WORKDIR /app", line, 'CMD ["bash"]').files) == paths


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("RUN apt-get install -y gcc", "line 2, `RUN apt-get"),
        ("COPY --chown=1 a.txt .", "plain paths"),
        ("COPY a.txt /etc/", "lies outside"),
        ("COPY a.txt ../../etc/passwd", "lies outside"),
        ("COPY nothing.txt .", "not beside"),
        ("FROM debian:13", "several stages"),
        ("USER nobody", "USER"),
    ],
)
def test_what_needs_an_image_is_refused(line: str, reason: str) -> None:
    with pytest.raises(RolloutError, match=reason) as refused:
        plain(line)
    assert refused.value.kind == "row"


def test_an_image_that_may_hold_more_is_refused() -> None:
    with pytest.raises(RolloutError, match="ghcr.io/some/image may hold more"):
        read_plain(Build(dockerfile="FROM ghcr.io/some/image\n"), BASES)
