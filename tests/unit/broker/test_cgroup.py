"""Control groups of both versions, on folders made to look like them; the real ones are for the conformance suite."""

from __future__ import annotations

from pathlib import Path

from gym.broker.providers.local.cgroup import ControlGroup, find_cgroup_roots, find_group, make_group
from gym.wire.sandbox import Limits

VERSION_1 = "9:memory:/\n8:pids:/mine\n3:cpu,cpuacct:/\n1:name=systemd:/\n0::/\n"


def version_1(root: Path) -> None:
    for folder in ("memory", "pids/mine", "cpu"):
        (root / folder).mkdir(parents=True)


def version_2(root: Path, controllers: str) -> None:
    (root / "user.slice" / "app.scope").mkdir(parents=True)
    (root / "user.slice" / "cgroup.subtree_control").write_text(controllers)


def test_the_first_version_has_a_folder_for_each_controller(tmp_path: Path) -> None:
    version_1(tmp_path)
    places = find_cgroup_roots(VERSION_1, tmp_path)
    assert places is not None
    assert places.version == 1
    assert (places.memory, places.pids, places.cpu) == (tmp_path / "memory", tmp_path / "pids/mine", tmp_path / "cpu")


def test_limits_of_the_first_version_are_written(tmp_path: Path) -> None:
    version_1(tmp_path)
    places = find_cgroup_roots(VERSION_1, tmp_path)
    assert places is not None
    group = make_group(places, "one", Limits(cpus=1.5, memory=1 << 20, pids=10))
    assert (tmp_path / "memory/one/memory.limit_in_bytes").read_text() == "1048576"
    assert (tmp_path / "memory/one/memory.memsw.limit_in_bytes").read_text() == "1048576"
    assert (tmp_path / "pids/mine/one/pids.max").read_text() == "10"
    assert (tmp_path / "cpu/one/cpu.cfs_quota_us").read_text() == "150000"
    assert group.procs_files == tuple(tmp_path / name / "one/cgroup.procs" for name in ("memory", "pids/mine", "cpu"))


def test_the_second_version_makes_groups_beside_its_own(tmp_path: Path) -> None:
    version_2(tmp_path, "cpu io memory pids")
    places = find_cgroup_roots("0::/user.slice/app.scope\n", tmp_path)
    assert places is not None
    assert (places.version, places.memory) == (2, tmp_path / "user.slice")
    group = make_group(places, "one", Limits(cpus=0.5, memory=1 << 20, pids=10))
    folder = tmp_path / "user.slice" / "one"
    assert group == ControlGroup((folder,), folder / "memory.events")
    found = {path.name: path.read_text() for path in folder.iterdir()}
    wanted = {"memory.max": "1048576", "memory.swap.max": "0", "pids.max": "10", "cpu.max": "50000 100000"}
    assert found == wanted
    assert find_group(places, "one").folders == (folder,)


def test_a_controller_that_is_not_shared_out_means_no_groups(tmp_path: Path) -> None:
    version_2(tmp_path, "memory pids")
    assert find_cgroup_roots("0::/user.slice/app.scope\n", tmp_path) is None
    assert find_cgroup_roots("0::/elsewhere/app.scope\n", tmp_path) is None
    assert find_cgroup_roots("", tmp_path) is None


def test_a_folder_that_may_not_be_written_means_no_groups(tmp_path: Path) -> None:
    version_1(tmp_path)
    (tmp_path / "pids/mine").rmdir()
    (tmp_path / "pids/mine").write_text("no folder")
    assert find_cgroup_roots(VERSION_1, tmp_path) is None
    assert not list((tmp_path / "cpu").iterdir())


def test_kills_for_memory_are_counted(tmp_path: Path) -> None:
    events = tmp_path / "events"
    group = ControlGroup((), events)
    assert group.count_ooms() == 0
    events.write_text("oom_kill_disable 0\nunder_oom 0\noom_kill 3\n")
    assert group.count_ooms() == 3
    events.write_text("oom_kill many\n")
    assert group.count_ooms() == 0
