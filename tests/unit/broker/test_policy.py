"""What an instance asks for, held against what it was granted: whatever is not granted is refused, and says why."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from gym.broker.errors import RequestRefused
from gym.broker.grant_check import REASONS, check_image, check_spec, explain_extra
from gym.wire.sandbox import Grant, SandboxSpec

DIGEST = "sha256:" + "ab" * 32
GRANT = Grant(images=("python", "swe-*", "ghcr.io/org/*", "pinned:1.0", f"exact@{DIGEST}"), hosts=("*.example.org",))
WIDE = Grant(images=("*",), build=True, network=("none", "internet", "allow"), hosts=("*",), runtimes=("runsc",))


def checked(grant: Grant = WIDE, image: str | None = "python", **fields: Any) -> SandboxSpec:
    if "build" in fields:
        image = None
    return check_spec(SandboxSpec.model_validate({"image": image, **fields}), grant)


@pytest.mark.parametrize(
    ("asked", "whole"),
    [
        ("python", "docker.io/library/python:latest"),
        ("python:3.13-slim", "docker.io/library/python:3.13-slim"),
        ("docker.io/python", "docker.io/library/python:latest"),
        ("index.docker.io/library/python", "docker.io/library/python:latest"),
        ("swe-a_b", "docker.io/library/swe-a_b:latest"),
        ("ghcr.io/org/name:tag", "ghcr.io/org/name:tag"),
        ("ghcr.io/org/deep/er/name", "ghcr.io/org/deep/er/name:latest"),
        ("pinned:1.0", "docker.io/library/pinned:1.0"),
        (f"python@{DIGEST}", f"docker.io/library/python@{DIGEST}"),
        (f"exact@{DIGEST}", f"docker.io/library/exact@{DIGEST}"),
    ],
)
def test_a_granted_image_goes_on_by_its_full_name(asked: str, whole: str) -> None:
    assert check_image(asked, GRANT) == whole


@pytest.mark.parametrize(
    "asked",
    [
        "alpine",
        "evil/python",
        "localhost:5000/python",
        "ghcr.io/organisation/name",
        "ghcr.io.evil.org/org/name",
        "evil.org/ghcr.io/org/name",
        "swe-x/evil",
        "swe-x.evil.org/python",
        "pinned",
        "pinned:1.0-evil",
        f"pinned:1.0@{DIGEST}",
        f"exact@sha256:{'cd' * 32}",
        "exact:latest",
        "docker.io/library/gym-task:0123",
        "gym-fork/other:sandbox",
        "gym-helper",
    ],
)
def test_an_image_that_no_pattern_covers_is_refused(asked: str) -> None:
    with pytest.raises(RequestRefused) as refused:
        check_image(asked, GRANT)
    assert (refused.value.status, refused.value.retryable) == (403, False)


@pytest.mark.parametrize("ours", ["gym-task:1", "gym-fork/s:x", "docker.io/gym-fork/s:x"])
def test_images_of_other_sandboxes_are_refused_even_where_all_are_granted(ours: str) -> None:
    with pytest.raises(RequestRefused, match="other sandboxes"):
        check_image(ours, WIDE)


@pytest.mark.parametrize(
    "asked",
    [
        "",
        "Python",
        "3eda7a31e6f0" + "0" * 52,
        "python:",
        "python@sha256:12",
        "python@latest",
        "../python",
        "ghcr.io/org/../../evil",
        "ghcr.io//org",
        "python ",
        "python\n",
        "python:3.13\n",
        "python?tag=x",
        "-python",
        "python:3#x",
        "http://evil.org/python",
    ],
)
def test_what_is_not_an_image_is_refused_before_an_engine_hears_of_it(asked: str) -> None:
    with pytest.raises(RequestRefused):
        check_image(asked, WIDE)


@given(st.text(max_size=60))
def test_whatever_is_let_through_is_one_plain_full_name(text: str) -> None:
    try:
        name = check_image(text, WIDE)
    except RequestRefused:
        return
    assert name.partition("/")[1] == "/"
    assert name.isprintable()
    assert name.isascii()
    assert ".." not in name
    assert check_image(name, WIDE) == name


def test_nothing_is_granted_by_default() -> None:
    with pytest.raises(RequestRefused, match="not granted"):
        checked(Grant())
    with pytest.raises(RequestRefused, match="not granted"):
        checked(Grant(), build={"dockerfile": "FROM scratch"})
    for network in ("internet", {"allow": ["example.org"]}):
        with pytest.raises(RequestRefused, match="network"):
            checked(Grant(images=("*",)), network=network)
    with pytest.raises(RequestRefused, match="runtime"):
        checked(Grant(images=("*",)), runtime="kata")


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("cpus", 5, "`max_cpus` is 4"),
        ("memory", "8.5g", "`memory: 8704m` is more than this instance is granted; `max_memory` is 8g"),
        ("pids", 5000, "`max_pids` is 4096"),
        ("disk", "21g", "`max_disk` is 20g"),
    ],
)
def test_a_limit_beyond_the_grant_is_refused_by_name(field: str, value: object, message: str) -> None:
    with pytest.raises(RequestRefused, match=message):
        checked(limits={field: value})


def test_a_default_gives_way_to_a_smaller_grant_and_disk_is_always_limited() -> None:
    small = Grant(images=("*",), max_cpus=0.5, max_memory=1 << 20, max_pids=10, max_disk=1 << 30, max_ttl=60)
    spec = checked(small)
    assert (spec.limits.cpus, spec.limits.memory, spec.limits.pids) == (0.5, 1 << 20, 10)
    assert (spec.limits.disk, spec.ttl) == (1 << 30, 60)
    with pytest.raises(RequestRefused, match="max_ttl"):
        checked(small, ttl=61)


@pytest.mark.parametrize(
    "path",
    ["/", "//", "tmp", "/a/../proc", "/proc", "/proc/self", "/sys", "/sys/fs/cgroup", "/dev", "/dev/mem", "/.gym"]
    + ["/.gym/x", "/a/", "/a//b", "/a/./b", "/a\n", "", ".", "/a\0b", "/dev/shm/x"],
)
def test_a_mount_that_would_cover_what_stays_is_refused(path: str) -> None:
    with pytest.raises(RequestRefused, match="mounts"):
        checked(mounts={path: "1m"})


def test_mounts_are_memory_and_so_limited() -> None:
    assert checked(mounts={"/dev/shm": "1m", "/scratch": "2m"}).mounts == {"/dev/shm": 1 << 20, "/scratch": 2 << 20}
    with pytest.raises(RequestRefused, match="tmpfs is memory"):
        checked(mounts={"/scratch": "9g"})
    with pytest.raises(RequestRefused, match="at most 16"):
        checked(mounts={f"/m{n}": 1 for n in range(17)})


@pytest.mark.parametrize(
    "name", ["gym.stack", "GYM.stack", "Gym.sandbox", "gym.", "com.docker.compose.project", "A", ""]
)
def test_labels_of_ours_cannot_be_written(name: str) -> None:
    with pytest.raises(RequestRefused, match="label"):
        checked(labels={name: "x"})


@pytest.mark.parametrize(
    "user", ["", "root\n", "0:0:0", "host/root", "$(id)", "-1", "99999999999", "a b", "../x", "a\0"]
)
def test_a_user_is_a_name_or_a_number(user: str) -> None:
    with pytest.raises(RequestRefused, match="user"):
        checked(user=user)


@pytest.mark.parametrize("user", ["root", "0", "nobody", "1000:1000", "agent:users", "_apt"])
def test_users_of_the_image_may_be_named(user: str) -> None:
    assert checked(user=user).user == user


@pytest.mark.parametrize(
    "fields",
    [
        {"env": {"A=B": "c"}},
        {"env": {"": "c"}},
        {"env": {"A": "b\0"}},
        {"env": {"A": "x" * (200 << 10)}},
        {"workdir": "work"},
        {"workdir": "/a\0b"},
        {"command": ["a\0"]},
    ],
)
def test_what_makes_no_sense_is_422(fields: dict[str, Any]) -> None:
    with pytest.raises(RequestRefused) as refused:
        checked(**fields)
    assert refused.value.status == 422


ALLOWING = Grant(images=("*",), network=("none", "internet", "allow"), hosts=("*",))


@pytest.mark.parametrize(
    ("setup", "run", "beyond"),
    [
        ("none", "internet", "the internet"),
        ({"allow": ["a.org"]}, "internet", "the internet"),
        ("none", {"allow": ["a.org"]}, "a.org"),
        ({"allow": ["a.org"]}, {"allow": ["a.org", "b.org"]}, "b.org"),
        ({"allow": ["a.org"]}, {"allow": ["*.a.org"]}, r"\*.a.org"),
        ({"allow": ["*.b.a.org"]}, {"allow": ["*.a.org"]}, r"\*.a.org"),
    ],
)
def test_a_run_reaches_nothing_that_its_setup_did_not(setup: Any, run: Any, beyond: str) -> None:
    network = {**({"access": run} if isinstance(run, str) else run), "setup": setup}
    with pytest.raises(RequestRefused, match=f"narrower than the run, which may reach {beyond}:") as refused:
        checked(ALLOWING, network=network)
    assert refused.value.status == 422


@pytest.mark.parametrize(
    ("setup", "run"),
    [
        ("internet", "none"),
        ("internet", "internet"),
        ("internet", {"allow": ["a.org"]}),
        ({"allow": ["a.org"]}, "none"),
        ({"allow": ["a.org", "b.org"]}, {"allow": ["b.org"]}),
        ({"allow": ["*.a.org"]}, {"allow": ["b.a.org", "*.c.a.org", "*.a.org"]}),
        ("none", "none"),
    ],
)
def test_a_run_may_reach_as_much_as_its_setup_or_less(setup: Any, run: Any) -> None:
    network = {**({"access": run} if isinstance(run, str) else run), "setup": setup}
    assert checked(ALLOWING, network=network).network.setup is not None


@pytest.mark.parametrize(
    ("host", "granted"),
    [
        ("docs.example.org", True),
        ("*.example.org", True),
        ("example.org", False),
        ("*.org", False),
        ("evil.org", False),
    ],
)
def test_hosts_are_those_that_were_granted(host: str, granted: bool) -> None:
    grant = Grant(images=("*",), network=("none", "allow"), hosts=("*.example.org",))
    for network in ({"allow": [host]}, {"access": "none", "setup": {"allow": [host]}}):
        if granted:
            assert checked(grant, network=network)
        else:
            with pytest.raises(RequestRefused, match="not granted"):
                checked(grant, network=network)


@pytest.mark.parametrize(
    ("dockerfile", "reason"),
    [
        ("FROM evil", "not granted"),
        ("FROM python\nFROM evil AS x", "not granted"),
        ("from evil", "not granted"),
        ("FROM \\\n  evil", "not granted"),
        ("FROM --platform=linux/amd64 evil", "not granted"),
        ("ARG B=evil\nFROM ${B}", "not granted"),
        ("ARG B\nFROM $B", "not a complete image name"),
        ("FROM ${B:-evil}", "not a complete image name"),
        ("FROM python\nCOPY --from=evil /a /b", "not granted"),
        ("FROM python\nRUN --mount=type=bind,from=evil,target=/x ls", "not granted"),
        ("FROM python\nONBUILD COPY --from=evil /a /b", "not granted"),
        ("FROM python\nADD http://169.254.169.254/ /x", "fetched by the engine"),
        ("FROM python\nADD --chown=1 https://a.org/b /x", "fetched by the engine"),
        ("FROM python\nADD git@github.com:a/b /x", "fetched by the engine"),
        ('FROM python\nADD ["git@github.com:a/b", "/x"]', "write plain paths"),
        ("# syntax=evil/frontend\nFROM python", "builder"),
        ("FROM gym-fork/other:x", "other sandboxes"),
    ],
)
def test_a_dockerfile_brings_in_nothing_that_was_not_granted(dockerfile: str, reason: str) -> None:
    grant = Grant(images=("python",), build=True)
    if "gym-fork" in dockerfile:
        grant = WIDE
    with pytest.raises(RequestRefused, match=reason):
        checked(grant, build={"dockerfile": dockerfile})


# Each of these made a real engine fetch what was not granted, under a reader that guessed.
DECEITS = {
    "two variables in one line": "ARG IMG=python\nARG X=1 IMG=evil\nFROM $IMG",
    "a variable's name in quotes": 'ARG IMG=python\nARG I""MG=evil\nFROM $IMG',
    "a variable of the builder's own": "ARG TARGETARCH=python\nFROM $TARGETARCH",
    "a flag in quotes": 'FROM python\nCOPY --"from"=evil /a /b',
    "a flag with an escape": "FROM python\nCOPY --fr\\om=evil /a /b",
    "a flag over two lines": "FROM python\nCOPY --fr\\\nom=evil /a /b",
    "another escape, declared late": "FROM python\n# escape=`\nRUN true \\\nFROM python AS evil\nFROM evil",
    "two backslashes": "FROM python\nRUN echo \\\\\nFROM evil",
    "a line end of Unicode's": "FROM python\nRUN true \u2028FROM python AS evil\nFROM evil",
    "a vertical tab": "FROM\vevil",
    "a byte order mark": "\ufeffFROM evil",
    "an address in a variable": "FROM python\nENV U=http://127.0.0.1:9/x\nADD $U /x",
    "an address in quotes": 'FROM python\nADD h"ttp"://127.0.0.1:9/x /x',
    "an address in JSON": 'FROM python\nADD ["\\u0068ttp://127.0.0.1:9/x", "/x"]',
    "a repository of another user": "FROM python\nADD me@example.org:a/b /x",
    "a frontend with an option": "# syntax=evil option\nFROM python",
    "a frontend as in Go": "//syntax=evil\nFROM python",
    "a frontend in JSON": '{"syntax": "evil"}\nFROM python',
    "two images in one mount": "FROM python\nRUN --mount=type=bind,from=python,from=evil,target=/m ls /m",
    "a mount's image in quotes": 'FROM python\nRUN --mount=type=bind,fr"om"=evil,target=/m ls /m',
    "a mount's image in capitals": "FROM python\nRUN --mount=type=bind,FROM=evil,target=/m ls /m",
    "a mount's image in a variable": "ARG X=python\nFROM python\nARG X=evil\nRUN --mount=type=bind,from=$X ls",
    "a stage that is text": "FROM python\nRUN <<A\nFROM python AS evil\nA\nFROM evil",
    "a text that hides a stage": "FROM python\nRUN echo '<<A' <<B\nB\nFROM evil\nRUN true\nA",
    "a text without an end": "FROM python\nRUN cat <<A\nFROM evil",
    "quotes around blanks": 'FROM --platform="linux/amd64 python" evil',
    "a label of a stack's container": "FROM python\nLABEL a=b gym.type=sandbox",
    "a label of Compose, in quotes": 'FROM python\nLABEL "com.docker.compose.project"=x',
    "a label in pieces": 'FROM python\nLABEL g"ym".type=sandbox',
    "a label in a variable": "FROM python\nENV X=gym.type\nLABEL $X=sandbox",
    "a label as they were": "FROM python\nLABEL gym.type sandbox",
    "the host's network": "FROM python\nRUN --network=host true",
    "a step without isolation": "FROM python\nRUN --security=insecure true",
}


@pytest.mark.parametrize("deceit", DECEITS)
def test_a_dockerfile_that_could_be_read_in_two_ways_is_refused(deceit: str) -> None:
    with pytest.raises(RequestRefused):
        checked(Grant(images=("python",), build=True), build={"dockerfile": DECEITS[deceit]})


@pytest.mark.parametrize("name", ["BUILDKIT_SYNTAX", "IMG=evil", "", "-x", "a b"])
def test_a_builds_variables_have_plain_names_and_none_of_the_builder(name: str) -> None:
    with pytest.raises(RequestRefused, match=r"args\."):
        checked(Grant(images=("python",), build=True), build={"dockerfile": "FROM python", "args": {name: "evil"}})


@pytest.mark.parametrize(
    "dockerfile",
    [
        "FROM scratch\nCOPY a /a",
        "FROM python AS one\nFROM one\nCOPY --from=one /a /a\nCOPY --from=0 /b /b",
        "ARG TAG=3.13\nFROM python:${TAG}\nADD local.tar /x",
        "# a comment\nFROM python\nRUN echo https://example.org \\\n  # more\n  && true",
        "FROM python\r\nRUN python3 - <<'EOF' > /x\nfrom os import path\nEOF\n",
        'FROM python\nLABEL a=1 \\\n  org.example.b="x y" c=\'$V\'\nLABEL vendor Some and Co\nLABEL e=""',
        "FROM python\nRUN cat <<-A && echo $((1<<2))\n\tFROM\n\tA\n",
        "FROM --platform=$BUILDPLATFORM python\nRUN --mount=type=cache,target=/root/.cache python -c 'print(1 << 2)'",
        'ARG A="3.13" B\nFROM python:$A\nARG C=1 D="x y"\nADD --chown=1:1 a.tar b.tar /x/\nRUN x <<<"here"',
    ],
)
def test_a_dockerfile_of_granted_images_passes(dockerfile: str) -> None:
    assert checked(Grant(images=("python",), build=True), build={"dockerfile": dockerfile})


@pytest.mark.parametrize("path", ["/etc/passwd", "../x", "a/../../x", "a//b", "./a"])
def test_files_of_a_build_stay_below_it(path: str) -> None:
    with pytest.raises(RequestRefused, match="build.files"):
        checked(build={"dockerfile": "FROM scratch", "files": {path: "x"}})


SPELLINGS = [
    "privileged",
    "Privileged",
    "PRIVILEGED",
    "pid_mode",
    "PidMode",
    "pid-mode",
    "cap_add",
    "CapAdd",
    "hostConfig",
]
SPELLINGS += ["HostConfig", "binds", "Binds", "Mounts", "volumes_from", "VolumesFrom", "devices", "DeviceRequests"]
SPELLINGS += [
    "ipc_mode",
    "UTSMode",
    "UsernsMode",
    "cgroup_parent",
    "CgroupParent",
    "sysctls",
    "security_opt",
    "SecurityOpt",
]
SPELLINGS += [
    "Runtime",
    "network_mode",
    "NetworkMode",
    "NetworkingConfig",
    "ports",
    "PublishAllPorts",
    "oom_kill_disable",
]
SPELLINGS += [
    "Ulimits",
    "StorageOpt",
    "Entrypoint",
    "ExtraHosts",
    "Dns",
    "gpus",
    "cgroupns_mode",
    "Links",
    "Image",
    "Env",
]


@pytest.mark.parametrize("key", SPELLINGS)
def test_a_key_of_the_engines_own_api_is_refused_in_every_spelling(key: str) -> None:
    with pytest.raises(ValidationError, match="[Ee]xtra"):
        SandboxSpec.model_validate({"image": "python", key: True})
    with pytest.raises(ValidationError):
        SandboxSpec.model_validate({"image": "python", "limits": {key: 1}})


def test_the_reason_is_reported_in_words() -> None:
    assert explain_extra({"image": "python", "limits": {}}) is None
    assert explain_extra([]) is None
    assert "root on this machine" in str(explain_extra({"image": "x", "Privileged": True}))
    assert "host's processes" in str(explain_extra({"pid-mode": "host"}))
    assert "limits" in str(explain_extra({"limits": {"Ulimits": []}}))
    assert all(explain_extra({key: 1}) for key in REASONS)
