"""Rendered Dockerfiles: short, requirements in a layer of their own, nothing secret in a layer."""

from __future__ import annotations

import json
from itertools import product

import pytest

from gym.files import asset_dir
from gym.plan import Service
from gym.render.bake import BuildTarget, render_bake
from gym.render.server_dockerfile import render_dockerfile, render_ignore
from tests.support.compose_plans import golden, service

TEMPLATE = (asset_dir("compose") / "server" / "Dockerfile.j2").read_text()


FILES = {
    "": ("", ""),
    "-with-requirements": ("requirements.txt", ""),
    "-with-overrides": ("requirements.txt", "overrides.txt"),
}


def dockerfile(launch: str, requirements: str, overrides: str = "") -> str:
    one: Service = service("mcqa", launch=launch)
    base = "gym-base:0123456789ab"
    return render_dockerfile(TEMPLATE, one, base=base, requirements=requirements, overrides=overrides)


@pytest.mark.parametrize(("launch", "files"), list(product(["sdk", "script"], FILES)))
def test_a_dockerfile_has_at_most_ten_lines(launch: str, files: str) -> None:
    text = dockerfile(launch, *FILES[files])
    assert len(text.splitlines()) <= 10
    assert "\n\n" not in text
    golden(f"{launch}{files}.Dockerfile", text)


def test_requirements_are_installed_before_the_code_is_copied() -> None:
    lines = dockerfile("sdk", "requirements.txt").splitlines()
    installs = next(number for number, line in enumerate(lines) if "gym-install" in line)
    assert installs < lines.index("COPY . ./")


def test_a_server_ends_as_the_user_without_rights() -> None:
    users = [line for line in dockerfile("sdk", "requirements.txt").splitlines() if line.startswith("USER")]
    assert users[-1] == "USER gym"


def test_a_foreign_server_gets_an_environment_of_its_own_without_our_constraints() -> None:
    text = dockerfile("script", "requirements.txt")
    assert "/opt/server" in text
    assert "gym-install" not in text
    assert text.splitlines()[-1] == (
        'CMD ["gym-with-secrets", "python", "/usr/local/bin/gym-script", "resources_servers.mcqa", "app.py"]'
    )


@pytest.mark.parametrize("launch", ["sdk", "script"])
def test_overrides_lie_beside_the_requirements_and_go_to_the_resolver(launch: str) -> None:
    text = dockerfile(launch, "requirements.txt", "overrides.txt")
    assert "COPY requirements.txt overrides.txt /opt/gym/\n" in text
    assert "--override /opt/gym/overrides.txt -r /opt/gym/requirements.txt\n" in text
    assert "override" not in dockerfile(launch, "requirements.txt")


def test_a_folder_that_is_a_package_is_asked_what_it_needs() -> None:
    text = dockerfile("sdk", "pyproject.toml")
    assert "COPY pyproject.toml /opt/gym/pyproject.toml\n" in text
    assert "-r /opt/gym/pyproject.toml\n" in text


def test_tests_caches_and_whole_data_sets_stay_out_of_an_image() -> None:
    patterns = render_ignore().splitlines()
    assert {"tests", "**/__pycache__", "data/train*"} <= set(patterns)


def test_a_bake_document_builds_all_targets_with_the_secrets_of_the_host() -> None:
    targets = [
        BuildTarget(name=name, context=f"/src/{name}", dockerfile=f"/b/{name}.Dockerfile", tag=f"gym-{name}:1")
        for name in ("a", "b")
    ]
    document = json.loads(render_bake(targets, {"index": "/b/index", "ca": "/etc/ca.pem"}))
    assert document["group"]["default"]["targets"] == ["a", "b"]
    assert document["target"]["a"] == {
        "context": "/src/a",
        "dockerfile": "/b/a.Dockerfile",
        "tags": ["gym-a:1"],
        "secret": ["id=ca,src=/etc/ca.pem", "id=index,src=/b/index"],
    }
