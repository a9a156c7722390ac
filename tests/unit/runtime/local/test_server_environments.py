from __future__ import annotations

import hashlib
import os
import sys
import threading
from pathlib import Path

import pytest

from gym.errors import StartFailed, UserError
from gym.plan.model import Service
from gym.programs import run_program
from gym.runtime.local import server_environments
from gym.runtime.local.server_environments import describe_environment, prepare_environment, prepare_environments
from gym.venvs import cache_dir
from tests.support.stacks import make_service, make_stack
from tests.support.wheels import write_wheel


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    return tmp_path / "cache"


def needing(folder: Path, name: str, requirements: str) -> Service:
    """A server whose requirements are these; one that was not written for our SDK, which would need an index."""
    service = make_service(folder, name, script=True)
    assert service.directory is not None
    (service.directory / "requirements.txt").write_text(requirements)
    return service.model_copy(update={"requirements_digest": hashlib.sha256(requirements.encode()).hexdigest()})


def test_a_server_without_requirements_of_its_own_runs_in_this_python(tmp_path: Path, cache: Path) -> None:
    service = make_service(tmp_path, "plain")

    assert prepare_environment(service, cache) == Path(sys.executable)
    assert prepare_environments(make_stack(service), cache, lambda detail: None) == {}
    assert not cache.exists()


def test_requirements_are_installed_once_and_shared_by_all_that_have_the_same(tmp_path: Path, cache: Path) -> None:
    wheel = write_wheel(tmp_path, "tiny_thing", "VALUE = 42")
    services = [needing(tmp_path, name, f"tiny_thing @ file://{wheel}\n") for name in ("a", "b")]
    reports: list[dict[str, str]] = []
    first = prepare_environments(make_stack(*services), cache, lambda detail: reports.append(dict(detail)))
    second = prepare_environments(make_stack(*services), cache, lambda detail: reports.append(dict(detail)))

    assert first["a"] == first["b"] == second["a"]
    assert run_program([str(first["a"]), "-I", "-c", "import tiny_thing; print(tiny_thing.VALUE)"]) == "42\n"
    assert reports == [{"a": "making its environment", "b": "making its environment"}]
    assert len(list((cache / "envs").glob("*/.complete"))) == 1


def test_other_requirements_are_another_environment(tmp_path: Path, cache: Path) -> None:
    names = [
        describe_environment(needing(tmp_path, "a", text), cache).digest for text in ("x==1\n", "x==2\n", "x==1\n")
    ]

    assert names[0] == names[2] != names[1]


def test_paths_in_requirements_are_meant_from_the_servers_folder(tmp_path: Path, cache: Path) -> None:
    service = needing(tmp_path, "a", "./tiny_thing-1.0-py3-none-any.whl\n")
    assert service.directory is not None
    write_wheel(service.directory, "tiny_thing", "VALUE = 42")
    python = prepare_environment(service, cache)

    assert run_program([str(python), "-I", "-c", "import tiny_thing; print(tiny_thing.VALUE)"]) == "42\n"


def test_a_half_made_environment_is_made_again(tmp_path: Path, cache: Path) -> None:
    service = needing(tmp_path, "a", f"tiny_thing @ file://{write_wheel(tmp_path, 'tiny_thing', 'VALUE = 1')}\n")
    half = cache / "envs" / describe_environment(service, cache).digest
    (half / "bin").mkdir(parents=True)
    (half / "bin" / "python").write_text("not a program")
    python = prepare_environment(service, cache)

    assert python.parent.parent == half
    assert run_program([str(python), "-c", "import tiny_thing; print(tiny_thing.VALUE)"]) == "1\n"


def test_several_that_need_the_same_at_once_make_it_once(tmp_path: Path, cache: Path) -> None:
    service = needing(tmp_path, "a", f"tiny_thing @ file://{write_wheel(tmp_path, 'tiny_thing', 'VALUE = 1')}\n")
    found: list[Path] = []
    threads = [threading.Thread(target=lambda: found.append(prepare_environment(service, cache))) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert len(found) == 3
    assert len(set(found)) == 1


def test_what_cannot_be_installed_is_reported_in_the_words_of_uv_and_with_the_file_to_fix(
    tmp_path: Path, cache: Path
) -> None:
    service = needing(tmp_path, "a", "./surely-not-there.whl\n")
    with pytest.raises(StartFailed) as failure:
        prepare_environment(service, cache)

    assert failure.value.server == "a"
    assert "surely-not-there" in failure.value.log
    assert str(tmp_path / "servers" / "a" / "requirements.txt") in failure.value.hint
    assert not list(cache.glob("envs/*/.complete"))


def test_a_cache_that_cannot_be_written_is_the_users_to_fix(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match="GYM_CACHE_DIR"):
        prepare_environment(needing(tmp_path, "a", "x\n"), tmp_path / "file")


def test_the_cache_is_where_it_is_wanted() -> None:
    assert cache_dir({"GYM_CACHE_DIR": "/a", "XDG_CACHE_HOME": "/b"}) == Path("/a")
    assert cache_dir({"XDG_CACHE_HOME": "/b"}) == Path("/b/compose-gym")
    assert cache_dir({}) == Path(os.path.expanduser("~/.cache/compose-gym"))  # noqa: PTH111 (the other way to say it)


def test_our_sdk_is_part_of_an_environment_of_a_server_of_ours(tmp_path: Path, cache: Path) -> None:
    ours = needing(tmp_path, "a", "x\n").model_copy(update={"launch": "sdk"})
    environment = describe_environment(ours, cache)

    assert environment.wheel is not None
    assert environment.wheel.is_file()
    assert environment.digest != describe_environment(needing(tmp_path, "a", "x\n"), cache).digest


def theirs(folder: Path, requirements: str) -> Service:
    """Written against nemo_gym, for the Python that runs this."""
    own = f"{sys.version_info.major}.{sys.version_info.minor}"
    return needing(folder, "theirs", requirements).model_copy(update={"python": own})


@pytest.fixture
def wheels(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where wheels come from, in place of an index."""
    folder = tmp_path / "wheels"
    folder.mkdir()
    monkeypatch.setenv("UV_NO_INDEX", "1")
    monkeypatch.setenv("UV_FIND_LINKS", str(folder))
    return folder


def test_a_repository_that_is_not_there_gives_the_newest_package_that_this_python_takes(
    tmp_path: Path, cache: Path, wheels: Path
) -> None:
    write_wheel(wheels, "nemo_gym", "V = 1", version="1.0")
    write_wheel(wheels, "nemo_gym", "V = 2", version="2.0")
    write_wheel(wheels, "nemo_gym", "V = 3", version="3.0", python=">=3.99")
    python = prepare_environment(theirs(tmp_path, "-e nemo-gym[dev] @ ../../\n"), cache)

    assert run_program([str(python), "-c", "import nemo_gym; print(nemo_gym.V)"]).strip() == "2"


def test_a_package_that_wants_a_newer_python_is_refused_in_one_sentence(
    tmp_path: Path, cache: Path, wheels: Path
) -> None:
    write_wheel(wheels, "nemo_gym", "V = 3", version="3.0", python=">=3.99")
    with pytest.raises(UserError) as error:
        prepare_environment(theirs(tmp_path, "nemo-gym==3.0\n"), cache)

    assert error.value.what.startswith("theirs: nemo-gym==3.0 needs Python >=3.99, and its environment has ")
    assert 'python_version: "3.99"' in error.value.hint


def test_another_interpreter_is_another_environment(tmp_path: Path, cache: Path) -> None:
    service = theirs(tmp_path, "tiny-thing\n")
    other = tmp_path / "python3"
    other.symlink_to(sys.executable)
    given = service.model_copy(update={"python": str(other)})

    assert describe_environment(given, cache).digest != describe_environment(service, cache).digest
    assert describe_environment(given, cache).python == str(other)


def test_a_server_of_ours_whose_python_is_this_one_needs_no_environment(tmp_path: Path, cache: Path) -> None:
    own = f"{sys.version_info.major}.{sys.version_info.minor}"
    service = make_service(tmp_path, "plain").model_copy(update={"python": own})

    assert prepare_environments(make_stack(service), cache, lambda detail: None) == {}


def test_extras_that_a_stack_asks_for_are_installed_beside_the_requirements(tmp_path: Path, cache: Path) -> None:
    service = needing(tmp_path, "a", "x==1\n")
    traced = describe_environment(service.model_copy(update={"extras": ("otel",)}), cache)
    assert traced.digest != describe_environment(service, cache).digest
    assert any(line.startswith("opentelemetry-sdk") for line in traced.more)


def test_the_package_of_a_state_in_redis_is_installed_where_this_python_has_none(
    tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    service = make_service(tmp_path, "plain").model_copy(update={"extras": ("redis",)})
    for there, needed in ((True, False), (False, True)):
        monkeypatch.setattr(server_environments, "find_spec", lambda _, there=there: there or None)
        assert server_environments._needs_one(service) is needed
    assert "redis>=5.2,<9" in describe_environment(service, cache).more
