"""Rendered Dockerfiles: short, requirements in a layer of their own, nothing secret in a layer."""

from __future__ import annotations

import json
from itertools import product

import pytest

from gym.config import asset_dir
from gym.plan import Service
from gym.render.bake import BuildTarget, render_bake
from gym.render.dockerfile import render_dockerfile, render_ignore
from tests.support.compose_plans import golden, service

TEMPLATE = (asset_dir("compose") / "server" / "Dockerfile.j2").read_text()


def dockerfile(launch: str, requirements: str) -> str:
    one: Service = service("mcqa", launch=launch)
    return render_dockerfile(TEMPLATE, one, base="gym-base:0123456789ab", requirements=requirements)


@pytest.mark.parametrize(("launch", "requirements"), list(product(["sdk", "script"], ["", "requirements.txt"])))
def test_a_dockerfile_has_at_most_ten_lines(launch: str, requirements: str) -> None:
    text = dockerfile(launch, requirements)
    assert len(text.splitlines()) <= 10
    assert "\n\n" not in text
    golden(f"{launch}{'-with-requirements' if requirements else ''}.Dockerfile", text)


def test_requirements_are_installed_before_the_code_is_copied() -> None:
    lines = dockerfile("sdk", "requirements.txt").splitlines()
    installs = next(number for number, line in enumerate(lines) if "uv pip install" in line)
    assert installs < lines.index("COPY . ./")


def test_a_server_ends_as_the_user_without_rights() -> None:
    users = [line for line in dockerfile("sdk", "requirements.txt").splitlines() if line.startswith("USER")]
    assert users[-1] == "USER gym"


def test_a_foreign_server_gets_an_environment_of_its_own_without_our_constraints() -> None:
    text = dockerfile("script", "requirements.txt")
    assert "/opt/server" in text
    assert "server.txt" not in text
    assert text.splitlines()[-1] == 'CMD ["gym-with-secrets", "python", "app.py"]'


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
