"""Which interpreter a server gets, and what is said when there is none or when it is too old."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from gym.errors import UserError
from gym.runtime.interpreters import explain_python, find_python, wanted_python
from tests.support.compose_plans import service

NOTHING = {"UV_PYTHON_DOWNLOADS": "never", "UV_OFFLINE": "1", "PATH": "/nowhere"}
# uv 0.9 to 0.13 in their own words, as they came.
TOO_OLD = """error: No solution found when resolving dependencies
  cause: Because the current Python version (3.11.7) does not satisfy Python>=3.12 and nemo-gym[dev]==0.3.1 was yanked (reason: wrong version number), we can conclude that nemo-gym[dev]<=0.4.0 cannot be used.
         And because the current Python version (3.11.7) does not satisfy Python>=3.13.14 and you require nemo-gym[dev], we can conclude that your requirements are unsatisfiable."""  # noqa: E501
PINNED = """  cause: Because the current Python version (3.13) does not satisfy Python>=3.13.14
         and nemo-gym==0.7.0 depends on Python>=3.13.14, we can conclude that nemo-gym==0.7.0 cannot be used."""
NO_INDEX = "Because nemo-gym==3.0 requires Python >=3.99 and you require nemo-gym==3.0, we can conclude"
NO_PYTHON = "error: No interpreter found for Python 3.12.9 in managed installations or search path"
NO_DOWNLOAD = "error: Failed to download `https://x.example/y/cpython-3.12.16%2B2026-x86_64.tar.gz`\n  cause: dns error"


@pytest.fixture
def pyenv(tmp_path: Path) -> dict[str, str]:
    """Versions that are pyenv's; the newest has the greatest number, not the last name."""
    for version in ("3.98.2", "3.98.10", "3.97.0", "3.99-dev"):
        (tmp_path / "versions" / version / "bin").mkdir(parents=True)
        (tmp_path / "versions" / version / "bin" / "python").symlink_to(sys.executable)
    return {**NOTHING, "PYENV_ROOT": str(tmp_path)}


def test_ours_will_do_where_it_fits_or_nothing_was_asked(pyenv: dict[str, str]) -> None:
    own = f"{sys.version_info.major}.{sys.version_info.minor}"
    for request in ("", own, f">={own}", f"=={own}.{sys.version_info.micro}"):
        assert find_python(request, server="x", environ=pyenv) == sys.executable


@pytest.mark.parametrize(("request_", "version"), [("3.98", "3.98.10"), ("3.98.2", "3.98.2"), (">=3.97", "3.98.10")])
def test_the_newest_of_pyenv_that_fits_is_found_without_its_shims(
    pyenv: dict[str, str], request_: str, version: str
) -> None:
    found = find_python(request_, server="x", environ=pyenv)
    assert Path(found).parts[-3:] == (version, "bin", "python")


def test_a_python_that_is_not_there_is_named(pyenv: dict[str, str]) -> None:
    with pytest.raises(UserError, match=r"letters: there is no Python 3\.96\.1 here.*cannot fetch") as error:
        find_python("3.96.1", server="letters", environ=pyenv)
    assert "python_version: /path" in error.value.hint


def test_an_interpreter_may_be_given_by_its_path(tmp_path: Path) -> None:
    assert find_python(sys.executable, server="x", environ={}) == sys.executable
    with pytest.raises(UserError, match=r"x: python_version: .*/none is not a program"):
        find_python(str(tmp_path / "none"), server="x", environ={})


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (TOO_OLD, "letters: nemo-gym[dev] needs Python >=3.12, and its environment has 3.11.7."),
        (PINNED, "letters: nemo-gym==0.7.0 needs Python >=3.13.14, and its environment has 3.13."),
        (NO_INDEX, "letters: nemo-gym==3.0 needs Python >=3.99, and its environment has another."),
        (NO_PYTHON, "letters: there is no Python 3.12.9 here."),
        (NO_DOWNLOAD, "letters: there is no Python 3.12.16 here."),
    ],
)
def test_an_error_of_uv_is_one_sentence(words: str, sentence: str) -> None:
    error = explain_python(words, server="letters")
    assert error is not None
    assert error.what == sentence


def test_other_words_of_uv_are_left_alone() -> None:
    assert explain_python("error: Because x was not found in the package registry", server="x") is None


def test_a_server_written_against_nemo_gym_wants_what_its_package_takes_unless_it_says_more() -> None:
    theirs = service("a", launch="script", requirements_digest="0")
    assert wanted_python(theirs) == ">=3.12"
    assert wanted_python(theirs.model_copy(update={"python": "3.13"})) == "3.13"
    assert wanted_python(service("b", requirements_digest="0")) == ""
