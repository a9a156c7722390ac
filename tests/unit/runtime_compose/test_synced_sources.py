"""A copy is what an image would hold of a folder, readable inside, and the same folder after each change."""

from __future__ import annotations

import os
from pathlib import Path

from gym.config.model import ContainerFacts
from gym.render.compose import SOURCES_MOUNT, render_compose
from gym.runtime.compose.image_sources import read_image_sources
from gym.runtime.compose.reload import switched
from gym.runtime.compose.synced_sources import find_synced, forget_synced, sync_sources
from tests.support.compose_plans import demo_plan, facts_of, plan_of, service, write_folder


def names_in(folder: Path) -> set[str]:
    return {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}


def test_a_copy_follows_its_folder_and_stays_the_mounted_one(tmp_path: Path) -> None:
    source, target = tmp_path / "tally", tmp_path / "synced"
    (source / "words").mkdir(parents=True)
    (source / "app.py").write_text("app = 1\n")
    (source / "words" / "list.txt").write_text("a\n")
    (source / "env.yaml").write_text("policy_api_key: secret\n")
    (source / "app.py").chmod(0o600)
    plan = plan_of(service("tally", directory=source))
    sync_sources(target, plan, ("tally",))
    copy = target / "tally"
    before = (copy.stat().st_ino, (copy / "words" / "list.txt").stat().st_ino)
    assert names_in(copy) == {"app.py", "words/list.txt"}
    assert (copy / "app.py").stat().st_mode & 0o777 == 0o644
    (source / "app.py").write_text("app = 2\n")
    (source / "new.py").write_text("x = 1\n")
    sync_sources(target, plan, ("tally",))
    assert (copy / "app.py").read_text() == "app = 2\n"
    assert names_in(copy) == {"app.py", "new.py", "words/list.txt"}
    assert (copy.stat().st_ino, (copy / "words" / "list.txt").stat().st_ino) == before
    (source / "words" / "list.txt").unlink()
    (source / "words").rmdir()
    (source / "words").write_text("a file by now\n")
    sync_sources(target, plan, ("tally",))
    assert names_in(copy) == {"app.py", "new.py", "words"}


def test_copies_of_servers_that_left_are_removed(tmp_path: Path) -> None:
    source = write_folder(tmp_path)
    plan = plan_of(service("a", directory=source), service("b", directory=source))
    sync_sources(tmp_path / "synced", plan, ("a", "b"))
    sync_sources(tmp_path / "synced", plan, ("b",))
    assert [one.name for one in (tmp_path / "synced").iterdir()] == ["b"]
    forget_synced(tmp_path / "synced")
    assert not (tmp_path / "synced").exists()


def test_only_what_our_own_dockerfile_lays_out_runs_from_a_copy(tmp_path: Path) -> None:
    plain, own, build = (write_folder(tmp_path / name) for name in ("plain", "own", "build"))
    (own / "Dockerfile").write_text("FROM scratch\n")
    (build / "Dockerfile").write_text("FROM scratch\n")
    plan = plan_of(
        service("plain", directory=plain),
        service("own", directory=own),
        service("built", directory=plain, container=ContainerFacts(build=str(build))),
        service("foreign", directory=plain, launch="script"),
        service("packed", directory=plain, image_digest="0123"),
        service("judge", launch="image", directory=None, container=ContainerFacts(image="example.org/judge:2")),
    )
    sources = read_image_sources(plan, tmp_path / "build-files", tmp_path / "cache")
    assert find_synced(plan, sources) == ("plain",)


def test_a_synced_server_mounts_its_copy_where_its_image_has_its_folder() -> None:
    plan = demo_plan()
    text = render_compose(plan, facts_of(plan, synced=("mcqa",)))
    assert text.count(f":{SOURCES_MOUNT}:ro") == 1
    assert f"./synced/mcqa:{SOURCES_MOUNT}:ro" in text
    base = (Path(__file__).parents[3] / "Dockerfile.base").read_text()
    assert f"WORKDIR {SOURCES_MOUNT}\n" in base
    assert os.fspath(SOURCES_MOUNT) not in render_compose(plan, facts_of(plan))


def test_who_reads_from_elsewhere_than_before_is_replaced_with_the_reason() -> None:
    assert switched(("a", "b"), ("a", "b")) == ()
    assert [(one.action, one.service, one.why.partition(":")[0]) for one in switched(("a", "b"), ("b", "c"))] == [
        ("replace", "c", "its files are watched"),
        ("replace", "a", "its files are watched no longer"),
    ]
