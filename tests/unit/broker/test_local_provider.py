"""Local providers: what they cannot give is refused in words, and whatever happens nothing stays behind."""

from __future__ import annotations

import asyncio
import hashlib
import os
import shutil
import signal
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import orjson
import pytest

from gym.broker.channel import channel
from gym.broker.helper import FOLDER
from gym.broker.provider import Provider
from gym.broker.providers.local import Bubblewrap, Subprocess, records
from gym.broker.providers.local.bwrap import PATH
from gym.broker.providers.local.local_provider import LocalProvider
from gym.broker.providers.local.local_sandbox import LocalSandbox
from gym.broker.providers.local.science_environment import ScienceEnvironment, environment_name
from gym.errors import InfraError, UserError
from gym.files import asset_dir
from gym.programs import run_program
from gym.sandbox.science import SCIENCE
from gym.venvs import MARK
from gym.wire.failures import RolloutError
from gym.wire.sandbox import Build, ExecRequest, SandboxSpec
from tests.support.sandbox_local import SPEC, end, make_provider, runs, tags, until, until_written
from tests.support.wheels import write_wheel

BOTH = pytest.mark.parametrize("name", ["subprocess", "bubblewrap"])


def spec(**asked: Any) -> SandboxSpec:
    return SandboxSpec.model_validate({"image": "host", **asked})


async def opened(name: str, folder: Path) -> Provider:
    provider = make_provider(name, folder)
    await provider.open()
    return provider


def state_of(pid: int) -> str:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]


def left_in(folder: Path) -> list[str]:
    return [path.name for path in folder.glob("*/sandboxes/*")]


def pretend_science(cache: Path) -> None:
    """An environment such as uv makes, with one package of a line."""
    python = shutil.which("python3", path=PATH)
    assert python is not None
    folder = cache / "envs" / environment_name(python, asset_dir("requirements") / "science.txt")
    run_program([python, "-m", "venv", "--without-pip", "--symlinks", str(folder)])
    (packages,) = folder.glob("lib/python*/site-packages")
    (packages / "numpy.py").write_text("def say(): print('pretended')\n")
    (folder / MARK).touch()


def test_plain_processes_must_be_asked_for_by_name(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="isolates nothing") as found:
        Subprocess(tmp_path, isolates_nothing=False)  # type: ignore[arg-type]  # what a settings file may hold
    assert "isolates_nothing: true" in found.value.hint


async def test_plain_processes_say_once_that_they_isolate_nothing(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    provider = await opened("subprocess", tmp_path)
    held = [await provider.create(SPEC, tags(f"s{i}")) for i in range(2)]
    assert [record.message for record in caplog.records if "isolates nothing" in record.message] == [
        "the sandbox provider `subprocess` isolates nothing: commands run as this user, on this machine"
    ]
    assert provider.abilities.isolates is False
    for one in held:
        await one.remove()


async def test_a_machine_without_bubblewrap_gets_an_error_that_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(InfraError, match="needs the program `bwrap`") as found:
        await Bubblewrap(tmp_path / "s").open()
    assert "apt install bubblewrap" in found.value.hint


async def test_a_machine_without_namespaces_gets_an_error_that_says_what_to_allow(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = tmp_path / "bwrap"
    program.write_text("#!/bin/sh\necho 'bwrap: No permissions to create a new namespace' >&2; exit 1\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    with pytest.raises(InfraError, match="No permissions to create a new namespace") as found:
        await Bubblewrap(tmp_path / "s").open()
    assert "sysctl" in found.value.hint


@pytest.mark.parametrize(
    ("asked", "word"),
    [
        ({"workdir": "/w"}, "workdir"),
        ({"mounts": {"/m": "1m"}}, "mounts"),
        ({"read_only": True}, "read_only"),
        ({"user": "nobody"}, "user: nobody"),
        ({"runtime": "kata"}, "runtime: kata"),
        ({"network": {"allow": ["example.org"]}}, "network: allow"),
    ],
)
async def test_plain_processes_refuse_what_needs_walls(tmp_path: Path, asked: dict[str, Any], word: str) -> None:
    provider = await opened("subprocess", tmp_path)
    with pytest.raises(RolloutError, match=word) as found:
        await provider.create(spec(**asked), tags("s"))
    assert (found.value.kind, found.value.retryable) == ("row", False)
    assert left_in(tmp_path) == []


@pytest.mark.parametrize(
    ("asked", "word"),
    [
        ({"user": "nobody"}, "user: nobody"),
        ({"network": "internet"}, "network: internet"),
        ({"network": {"access": "none", "setup": "internet"}}, "network.setup"),
        ({"mounts": {"/proc/x": "1m"}}, "'/proc/x' cannot be mounted over"),
        ({"mounts": {"/usr": "1m"}}, "'/usr' cannot be mounted over"),
        ({"mounts": {"relative": "1m"}}, "'relative' cannot be mounted over"),
        ({"workdir": "/w/../etc"}, "cannot be mounted over"),
        ({"workdir": "/"}, "'/' cannot be mounted over"),
    ],
)
async def test_bubblewrap_refuses_what_it_cannot_give(tmp_path: Path, asked: dict[str, Any], word: str) -> None:
    provider = await opened("bubblewrap", tmp_path)
    with pytest.raises(RolloutError, match=word):
        await provider.create(spec(**asked), tags("s"))
    assert left_in(tmp_path) == []


@BOTH
async def test_images_cannot_be_built(tmp_path: Path, name: str) -> None:
    provider = await opened(name, tmp_path)
    build = Build(dockerfile="FROM x")
    with pytest.raises(RolloutError, match="builds no images"):
        await provider.make_image(build)
    with pytest.raises(RolloutError, match="builds no images"):
        await provider.create(SandboxSpec(build=build), tags("s"))
    assert left_in(tmp_path) == []


@BOTH
async def test_the_science_packages_are_found_without_an_engine(
    tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GYM_CACHE_DIR", str(tmp_path / "cache"))
    pretend_science(tmp_path / "cache")
    provider = await opened(name, tmp_path / "state")
    said: list[str] = []
    await provider.prepare(SandboxSpec(build=SCIENCE), said.append)
    assert said == []  # it is there
    held = await provider.create(SandboxSpec(build=SCIENCE), tags("s"))
    code = "import numpy; numpy.say(); open(numpy.__file__, 'a')"
    done = await held.channel.exec(ExecRequest(argv=("python3", "-s", "-c", code)))
    assert done.stdout.text == "pretended\n"
    assert ("Read-only file system" in done.stderr.text) == (name == "bubblewrap")
    branch = await held.fork(tags("f"))
    assert (await branch.channel.exec(ExecRequest(argv=("python3", "-c", "import numpy")))).exit_code == 0
    for one in (held, branch):
        await one.remove()


async def test_the_science_packages_are_installed_once_by_their_hashes(tmp_path: Path) -> None:
    wheel = write_wheel(tmp_path, "tiny", "ANSWER = 42\n")
    digest = hashlib.sha256(wheel.read_bytes()).hexdigest()
    requirements = tmp_path / "science.txt"
    requirements.write_text(f"tiny @ file://{wheel} --hash=sha256:{digest}\n")
    said: list[str] = []
    made = await asyncio.gather(
        *(ScienceEnvironment(PATH, tmp_path / "cache", requirements).make(said.append) for _ in range(2)),
    )
    assert made[0] == made[1]
    wheel.unlink()
    assert await ScienceEnvironment(PATH, tmp_path / "cache", requirements).make(said.append) == made[0]
    assert len(said) in (1, 2)  # the second of two at once may find it there
    assert "installing numpy" in said[0]
    ran = await asyncio.create_subprocess_exec(made[0] / "bin" / "python3", "-c", "import tiny")
    assert await ran.wait() == 0


async def test_what_cannot_be_installed_is_a_failure_that_is_not_tried_by_every_sandbox(tmp_path: Path) -> None:
    wheel = write_wheel(tmp_path, "tiny", "ANSWER = 42\n")
    requirements = tmp_path / "science.txt"
    requirements.write_text(f"tiny @ file://{wheel} --hash=sha256:{'0' * 64}\n")
    science = ScienceEnvironment(PATH, tmp_path / "cache", requirements)
    for _ in range(2):
        with pytest.raises(RolloutError, match="(?s)could be made for programs here.*[Hh]ash mismatch") as found:
            await science.make()
        assert (found.value.kind, found.value.retryable) == ("sandbox", False)
        requirements.write_text("")  # which would do, were it read again


@BOTH
@pytest.mark.parametrize("id", ["../x", "a/b", ".", "", "a b"])
async def test_an_id_cannot_leave_the_folder(tmp_path: Path, name: str, id: str) -> None:
    provider = await opened(name, tmp_path)
    with pytest.raises(RolloutError, match="cannot name a sandbox"):
        await provider.create(SPEC, tags(id))


@BOTH
async def test_nothing_is_left_of_a_sandbox_that_did_not_begin(
    tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    provider = await opened(name, tmp_path)
    broken = tmp_path / "broken"
    broken.write_text("#!/bin/sh\nshift $#\necho 'no such luck' >&2\nexit 1\n")
    broken.chmod(0o755)
    monkeypatch.setattr("gym.broker.providers.local.local_provider.find_helper", lambda machine: broken)
    with pytest.raises(RolloutError, match="ended before its helper answered.*: no such luck"):
        await provider.create(SPEC, tags("s"))
    assert left_in(tmp_path) == []
    monkeypatch.undo()
    held = await provider.create(SPEC, tags("s"))
    assert (await held.channel.exec(ExecRequest(argv=("echo", "on")))).ok
    await held.remove()


@BOTH
async def test_removal_leaves_no_process_and_no_file(tmp_path: Path, name: str) -> None:
    provider = await opened(name, tmp_path)
    held = await provider.create(SPEC, tags("s"))
    assert isinstance(held, LocalSandbox)
    await held.channel.exec(ExecRequest(shell="mkdir -p d/e; touch d/e/f; chmod 0 d/e d; setsid sleep 1000 &"))
    pids = records.tree_of(held.pid)
    await held.remove()
    await until(lambda: not any(map(runs, pids)), "every process has ended")
    assert left_in(tmp_path) == []
    await held.remove()


@BOTH
async def test_closing_the_provider_removes_what_it_made(tmp_path: Path, name: str) -> None:
    provider = await opened(name, tmp_path)
    held = await provider.create(SPEC, tags("s"))
    await provider.close()
    assert held.channel.closed
    assert left_in(tmp_path) == []


CRASHING = """
import asyncio, sys
from pathlib import Path
from gym.broker.providers.local import Bubblewrap, Subprocess
from gym.broker.provider import Tags
from gym.wire.sandbox import ExecRequest, SandboxSpec
async def main():
    folder = Path(sys.argv[1])
    provider = Bubblewrap(folder) if sys.argv[2] == "bubblewrap" else Subprocess(folder, isolates_nothing=True)
    await provider.open()
    for id in ("one", "two"):
        held = await provider.create(SandboxSpec(image="host"), Tags(id, "stack", "i", "o"))
        await held.channel.exec(ExecRequest(shell="setsid sleep 1000 &"))
    (folder / "pid").write_text(f"{held.pid}\\n")
    await asyncio.sleep(1000)
asyncio.run(main())
"""


@BOTH
async def test_a_killed_broker_leaves_no_process_and_the_next_clears_its_folders(tmp_path: Path, name: str) -> None:
    provider = await opened(name, tmp_path)
    env = {**os.environ, "PYTHONPATH": str(FOLDER.parents[2])}
    broker = await asyncio.create_subprocess_exec(sys.executable, "-c", CRASHING, str(tmp_path), name, env=env)
    pids = records.tree_of(await until_written(tmp_path / "pid"))
    assert len(pids) > 1
    end(broker)
    await broker.wait()
    await until(lambda: not any(map(runs, pids)), "every process has ended")
    assert sorted(left_in(tmp_path)) == ["one", "two"]
    assert [tag async for tag, _ in provider.found("stack")] == []
    assert await provider.sweep("other", frozenset()) == 0
    assert await provider.sweep("stack", frozenset({"two"})) == 1
    assert left_in(tmp_path) == ["two"]
    assert await provider.sweep("stack", frozenset()) == 1
    assert left_in(tmp_path) == []


async def test_sweeping_ends_a_helper_that_still_runs_but_no_other_process_of_its_number(tmp_path: Path) -> None:
    provider = await opened("subprocess", tmp_path)
    sleepers = [await asyncio.create_subprocess_exec("sleep", "1000") for _ in range(2)]
    for sleeper, started in zip(sleepers, (records.started_at(sleepers[0].pid), "12345"), strict=True):
        place = records.folder_of_sandbox(tmp_path, "stack", f"s{sleeper.pid}")
        place.root.mkdir(parents=True)
        place.record.write_bytes(orjson.dumps({"tags": {}, "pid": sleeper.pid, "started": started, "group": ""}))
    assert await provider.sweep("stack", frozenset()) == 2
    assert await asyncio.wait_for(sleepers[0].wait(), 120) == -9
    assert runs(sleepers[1].pid)
    sleepers[1].kill()
    await sleepers[1].wait()


@pytest.mark.parametrize("text", [b"", b"{", b"[]", b'{"pid": "x", "group": 7}'])
async def test_a_folder_with_a_broken_record_is_swept(tmp_path: Path, text: bytes) -> None:
    provider = await opened("subprocess", tmp_path)
    place = records.folder_of_sandbox(tmp_path, "stack", "s")
    place.root.mkdir(parents=True)
    place.record.write_bytes(text)
    assert await provider.sweep("stack", frozenset()) == 1
    assert left_in(tmp_path) == []


@BOTH
async def test_new_tags_are_written_down(tmp_path: Path, name: str) -> None:
    provider = await opened(name, tmp_path)
    held = await provider.create(SPEC, tags("s")._replace(warm="key"))
    await held.retag(tags("s")._replace(rollout="r1", expires=12.5))
    assert held.tags.rollout == "r1"
    found = records.read_record(records.folder_of_sandbox(tmp_path, "stack", "s"))
    assert (found["tags"]["rollout"], found["tags"]["warm"], found["tags"]["expires"]) == ("r1", "", 12.5)
    await held.remove()


@BOTH
async def test_a_sandbox_that_is_forked_twice_at_once_goes_on_afterwards(tmp_path: Path, name: str) -> None:
    provider = await opened(name, tmp_path)
    held = await provider.create(SPEC, tags("s"))
    await held.channel.write_file("f", b"of then")
    forks = await asyncio.gather(held.fork(tags("f")), held.fork(tags("g")))
    assert isinstance(held, LocalSandbox)
    assert "T" not in set(map(state_of, records.tree_of(held.pid)))
    assert (await held.channel.exec(ExecRequest(argv=("echo", "on")))).ok
    assert [await fork.channel.read_file("f") for fork in forks] == [b"of then"] * 2
    for one in (held, *forks):
        await one.remove()


@BOTH
async def test_why_a_sandbox_was_lost_is_reported(tmp_path: Path, name: str) -> None:
    provider = await opened(name, tmp_path)
    held = await provider.create(SPEC, tags("s"))
    assert isinstance(held, LocalSandbox)
    records.signal_all(records.tree_of(held.pid)[-1:], 9)
    await asyncio.wait_for(held.channel.wait_closed(), 120)
    await until(lambda: not runs(held.pid), "its first process has ended")
    assert "its first process" in await held.why_lost()
    await held.remove()


async def test_a_folder_is_an_image_of_bubblewrap(tmp_path: Path) -> None:
    make_provider("bubblewrap", tmp_path)
    root = tmp_path / "root"
    for folder in ("usr", "etc", "opt"):
        (root / folder).mkdir(parents=True)
    (root / "etc" / "given").write_text("from the image\n")
    (root / "lib64").symlink_to("usr/lib64")
    provider = Bubblewrap(tmp_path / "s", images={"tiny": root, "host-too": Path("/")})
    await provider.open()
    assert provider.abilities.images
    with pytest.raises(RolloutError, match="There are: host, host-too, tiny"):
        await provider.prepare(spec(image="other"))
    held = await provider.create(spec(image="tiny"), tags("s"))
    assert await held.channel.read_file("/etc/given") == b"from the image\n"
    assert [entry.path for entry in await held.channel.list("/etc")] == ["/etc/given"]
    with pytest.raises(RolloutError, match="No such file"):
        await held.channel.exec(ExecRequest(argv=("/bin/true",)))
    await held.remove()


async def test_more_of_this_machine_can_be_shown_read_only(tmp_path: Path) -> None:
    make_provider("bubblewrap", tmp_path)
    shown = tmp_path / "shown"
    shown.mkdir()
    (shown / "f").write_text("seen")
    provider = Bubblewrap(tmp_path / "s", also=[str(shown)])
    await provider.open()
    held = await provider.create(SPEC, tags("s"))
    assert await held.channel.read_file(f"{shown}/f") == b"seen"
    with pytest.raises(RolloutError, match="Read-only file system"):
        await held.channel.write_file(f"{shown}/g", b"")
    await held.remove()


async def test_this_machines_network_is_shared_only_when_it_is_switched_on(tmp_path: Path) -> None:
    make_provider("bubblewrap", tmp_path)
    provider = Bubblewrap(tmp_path / "s", share_network=True)
    await provider.open()
    assert provider.abilities.networks == ("none", "internet")
    namespace = ExecRequest(argv=("readlink", "/proc/self/ns/net"))
    ours = os.readlink("/proc/self/ns/net")  # noqa: PTH115 (no path of a file)
    for access, shared in (("internet", True), ("none", False)):
        held = await provider.create(spec(network=access), tags(access))
        assert ((await held.channel.exec(namespace)).stdout.text.strip() == ours) is shared
        await held.remove()


@BOTH
async def test_a_disk_limit_bounds_each_file(tmp_path: Path, name: str) -> None:
    provider = await opened(name, tmp_path)
    held = await provider.create(spec(limits={"disk": "64k"}), tags("s"))
    await held.channel.exec(ExecRequest(shell="head -c 1000000 /dev/zero > f"))
    assert (await held.channel.stat("f")).size == 65536
    await held.remove()


async def test_a_value_of_the_environment_is_on_no_command_line(tmp_path: Path) -> None:
    provider = await opened("bubblewrap", tmp_path)
    held = await provider.create(spec(env={"TOKEN": "very-secret"}), tags("s"))
    assert isinstance(held, LocalSandbox)
    lines = [Path(f"/proc/{pid}/cmdline").read_bytes() for pid in records.tree_of(held.pid)]
    assert not any(b"very-secret" in line for line in lines)
    assert b"very-secret" not in records.folder_of_sandbox(tmp_path, "stack", "s").record.read_bytes()
    await held.remove()


async def test_its_folder_is_closed_to_others(tmp_path: Path) -> None:
    provider = await opened("subprocess", tmp_path / "s")
    assert isinstance(provider, LocalProvider)
    assert provider.folder.stat().st_mode & 0o777 == 0o700
    assert await provider.ping() >= 0
    assert await provider.collect_garbage(0.5, 0.9) == 0


async def test_another_system_gets_the_advice_to_use_docker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.platform", "darwin")
    with pytest.raises(InfraError, match="needs Linux"):
        await Subprocess(tmp_path, isolates_nothing=True).open()


async def test_a_listing_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(channel, "MAX_LISTED", 4096)
    provider = await opened("subprocess", tmp_path)
    held = await provider.create(SPEC, tags("s"))
    await held.channel.exec(
        ExecRequest(shell="mkdir many few; cd many; i=0; while [ $i -lt 300 ]; do :> f$i; i=$((i+1)); done")
    )
    with pytest.raises(RolloutError, match="list parts of it") as refused:
        await held.channel.list("many")
    assert refused.value.status == 413
    assert await held.channel.list("few") == []
    await held.remove()


async def test_a_file_operation_in_a_sandbox_that_stands_still_is_given_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    provider = await opened("subprocess", tmp_path)
    held = await provider.create(SPEC, tags("s"))
    await held.channel.write_file("f", b"before")
    assert isinstance(held, LocalSandbox)
    records.stop_tree(held.pid)
    monkeypatch.setattr(channel, "UNHEARD", 0.2)

    async def much() -> AsyncIterator[bytes]:
        while True:
            yield bytes(1 << 16)

    with pytest.raises(RolloutError, match="stopped answering"):
        await held.channel.read_file("f")
    with pytest.raises(RolloutError, match="stopped answering"):
        await held.channel.write_pieces("f", much())
    records.signal_all(records.tree_of(held.pid), signal.SIGCONT)
    monkeypatch.setattr(channel, "UNHEARD", 20.0)
    assert await held.channel.read_file("f") == b"before"
    await held.remove()
