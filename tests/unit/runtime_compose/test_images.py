"""Which images a plan needs: tags by content, shared where the content is, and nothing laid out twice."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from gym.config.model import ContainerFacts
from gym.config.server_sources import EXTRA_LINES
from gym.errors import UserError
from gym.runtime.compose.image_sources import digest_tree, is_ignored
from gym.runtime.user_state import owner
from tests.support.compose_plans import plan_of, service, write_folder, write_images


def tag_of(tmp_path: Path, folder: Path) -> str:
    images = write_images(plan_of(service("mcqa", directory=folder)), tmp_path)
    return images.by_instance["mcqa"]


def test_a_tag_changes_with_what_a_server_runs_from_and_with_nothing_else(tmp_path: Path) -> None:
    folder = write_folder(tmp_path)
    before = tag_of(tmp_path, folder)
    (folder / "tests" / "test_app.py").write_text("new")
    (folder / "data" / "train.jsonl").write_text("{}\n" * 9)
    (folder / "__pycache__").mkdir()
    (folder / "__pycache__" / "app.pyc").write_text("x")
    assert tag_of(tmp_path, folder) == before
    (folder / "data" / "example.jsonl").write_text("{}")
    with_data = tag_of(tmp_path, folder)
    assert with_data != before
    (folder / "app.py").write_text("app = 2\n")
    assert tag_of(tmp_path, folder) not in (before, with_data)


def test_another_base_means_another_image(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = write_folder(tmp_path)
    before = tag_of(tmp_path, folder)
    monkeypatch.setenv("GYM_PYTHON_IMAGE", "python:3.12-slim")
    assert tag_of(tmp_path, folder) != before


def test_two_instances_of_one_implementation_share_an_image(tmp_path: Path) -> None:
    folder = write_folder(tmp_path)
    plan = plan_of(*(service(name, directory=folder, implementation="mcqa") for name in ("easy", "hard")))
    images = write_images(plan, tmp_path)
    assert len(set(images.by_instance.values())) == 1
    assert len(images.targets) == 1


def test_a_server_with_a_dockerfile_of_its_own_is_built_from_that(tmp_path: Path) -> None:
    folder = write_folder(tmp_path)
    (folder / "Dockerfile").write_text("ARG GYM_BASE\nFROM ${GYM_BASE}\n")
    images = write_images(plan_of(service("mcqa", directory=folder)), tmp_path)
    assert images.targets[0].dockerfile == str(folder / "Dockerfile")
    assert images.targets[0].args == {"GYM_BASE": images.base}


def dockerfile_of(tmp_path: Path, folder: Path) -> str:
    plan = plan_of(service("mcqa", directory=folder))
    return Path(write_images(plan, tmp_path).targets[0].dockerfile).read_text()


def test_overrides_of_a_folder_are_part_of_its_image_as_they_are_of_its_environment(tmp_path: Path) -> None:
    folder = write_folder(tmp_path)
    (folder / "overrides.txt").write_text("docker ; python_version < '3'\n")
    assert "overrides.txt" not in dockerfile_of(tmp_path, folder)  # nothing is installed that they could change
    (folder / "requirements.txt").write_text("swebench\n")
    assert "--override /opt/gym/overrides.txt -r /opt/gym/requirements.txt" in dockerfile_of(tmp_path, folder)
    before = tag_of(tmp_path, folder)
    (folder / "overrides.txt").write_text("modal ; python_version < '3'\n")
    changed = tag_of(tmp_path, folder)
    assert changed != before
    (folder / "overrides.txt").unlink()
    assert tag_of(tmp_path, folder) not in (before, changed)
    assert "override" not in dockerfile_of(tmp_path, folder)


def test_packages_of_the_system_come_before_the_requirements_and_are_part_of_the_image(tmp_path: Path) -> None:
    folder = write_folder(tmp_path)
    (folder / "requirements.txt").write_text("pycosat\n")
    before = tag_of(tmp_path, folder)
    (folder / "apt.txt").write_text("# compiled\ngcc\n\nlibc6-dev  # its headers\n")
    text = dockerfile_of(tmp_path, folder)
    assert "apt-get install -y -qq --no-install-recommends gcc libc6-dev >" in text
    assert text.index("USER root") < text.index("apt-get") < text.index("gym-install") < text.index("USER gym")
    assert tag_of(tmp_path, folder) != before
    (folder / "requirements.txt").unlink()  # packages alone need root as well, and for nothing else
    text = dockerfile_of(tmp_path, folder)
    assert text.index("USER root") < text.index("apt-get") < text.index("USER gym") < text.index("COPY . ./")


@pytest.mark.parametrize("line", ["gcc libc6-dev", "gcc; rm -rf /", "-o=x", "$(id)", "Gcc"])
def test_a_line_that_is_not_a_package_is_refused(tmp_path: Path, line: str) -> None:
    folder = write_folder(tmp_path)
    (folder / "apt.txt").write_text(f"git\n{line}\n")
    with pytest.raises(UserError, match=re.escape(f"{line!r} is not the name of a Debian package")):
        dockerfile_of(tmp_path, folder)


def test_a_folder_without_requirements_says_in_its_project_file_what_it_needs(tmp_path: Path) -> None:
    folder = write_folder(tmp_path)
    (folder / "requirements.txt").unlink()
    (folder / "pyproject.toml").write_text('[project]\nname = "mine"\nversion = "1"\ndependencies = ["six"]\n')
    assert "-r /opt/gym/pyproject.toml" in dockerfile_of(tmp_path, folder)


def test_a_folder_named_by_build_must_have_a_dockerfile(tmp_path: Path) -> None:
    one = service("mcqa", container=ContainerFacts(build=str(tmp_path)))
    with pytest.raises(UserError, match=f"build: {tmp_path} has no Dockerfile"):
        write_images(plan_of(one), tmp_path)


def test_a_prebuilt_image_is_not_built(tmp_path: Path) -> None:
    one = service("judge", launch="image", directory=None, container=ContainerFacts(image="judge:1"))
    images = write_images(plan_of(one), tmp_path)
    assert images.by_instance == {"judge": "judge:1"}
    assert images.targets == ()


def test_the_bases_context_holds_the_sdk_the_locks_and_the_scripts(tmp_path: Path) -> None:
    images = write_images(plan_of(), tmp_path)
    context = Path(images.base_target.context)
    names = {path.relative_to(context).as_posix() for path in context.rglob("*") if path.is_file()}
    assert {"Dockerfile.base", "requirements/sdk.txt", "requirements/server.txt", "compose/base/gym-healthy"} <= names
    assert any(name.startswith("dist/compose_gym-") and name.endswith(".whl") for name in names)
    assert write_images(plan_of(), tmp_path).base == images.base


@pytest.mark.parametrize("name", ["tests", "a/__pycache__", ".venv", "deep/down/x.pyc", "data/train_big.jsonl"])
def test_what_no_server_runs_from_is_ignored(name: str) -> None:
    assert is_ignored(name)


@pytest.mark.parametrize("name", ["app.py", "data/example.jsonl", "lib/tests", "testsuite", "prompts/train.txt"])
def test_what_a_server_may_run_from_is_not(name: str) -> None:
    assert not is_ignored(name)


def test_a_link_to_a_folder_is_not_followed(tmp_path: Path) -> None:
    folder = write_folder(tmp_path)
    (folder / "loop").symlink_to(folder)
    assert all("loop" not in line for line in digest_tree(folder))


def test_whose_it_is_may_be_distinguished(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("GYM_OWNER", raising=False)
    assert owner().isdigit()
    monkeypatch.setenv("GYM_OWNER", "ada")
    assert owner() == "ada"


def test_a_stack_that_reports_spans_has_the_packages_in_each_image(tmp_path: Path) -> None:
    folder = write_folder(tmp_path)
    plain = write_images(plan_of(service("mcqa", directory=folder)), tmp_path / "plain")
    traced = write_images(plan_of(service("mcqa", directory=folder, extras=("otel",))), tmp_path / "traced")
    assert traced.by_instance != plain.by_instance
    [target] = traced.targets
    lines = (Path(target.contexts["portable"]) / "requirements.txt").read_text().splitlines()
    assert lines[-2:] == list(EXTRA_LINES["otel"])
    assert "requirements.txt" in Path(target.dockerfile).read_text()
