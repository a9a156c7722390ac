from __future__ import annotations

import base64
import hashlib
import os
import sys
import threading
import zipfile
from pathlib import Path

import pytest

from gym.errors import StartFailed, UserError
from gym.plan.model import Service
from gym.runtime.local.environments import cache_dir, describe_environment, prepare_environment, prepare_environments
from gym.runtime.programs import run_program
from tests.support.stacks import make_service, make_stack


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    return tmp_path / "cache"


def write_wheel(folder: Path, name: str, code: str) -> Path:
    """A package of one module, made here so that no index is asked."""
    info = f"{name}-1.0.dist-info"
    files = {
        f"{name}.py": code,
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    record = "".join(f"{path},sha256={digest(text)},{len(text)}\n" for path, text in files.items())
    path = folder / f"{name}-1.0-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as archive:
        for target, text in {**files, f"{info}/RECORD": f"{record}{info}/RECORD,,\n"}.items():
            archive.writestr(target, text)
    return path


def digest(text: str) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).rstrip(b"=").decode()


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


def test_a_half_made_environment_is_made_anew(tmp_path: Path, cache: Path) -> None:
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


def test_what_cannot_be_installed_is_told_in_the_words_of_uv_and_with_the_file_to_mend(
    tmp_path: Path, cache: Path
) -> None:
    service = needing(tmp_path, "a", "./surely-not-there.whl\n")
    with pytest.raises(StartFailed) as failure:
        prepare_environment(service, cache)

    assert failure.value.server == "a"
    assert "surely-not-there" in failure.value.log
    assert str(tmp_path / "servers" / "a" / "requirements.txt") in failure.value.hint
    assert not list(cache.glob("envs/*/.complete"))


def test_a_cache_that_cannot_be_written_is_the_users_to_mend(tmp_path: Path) -> None:
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
