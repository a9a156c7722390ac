"""The provider `kubernetes` over the wire: every behaviour of a sandbox, and every way in which a pod can fail."""

from __future__ import annotations

import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from gym.broker.conformance import BEHAVIOURS, Behaviour, make_factory, run_suite
from gym.broker.providers.kubernetes.kubernetes_provider import Kubernetes
from tests.support.fake_kubernetes import NAMESPACE, FakeKubernetes, fake_kubernetes

pytestmark = pytest.mark.skipif(shutil.which("bwrap") is None, reason="bubblewrap is not installed")


@asynccontextmanager
async def provided(folder: Path, **options: Any) -> AsyncIterator[tuple[FakeKubernetes, Kubernetes]]:
    async with fake_kubernetes(folder) as fake:
        account: dict[str, Any] = {"server": fake.url, "account": str(fake.account)}
        provider = Kubernetes(helper_image="registry.example.org/gym-base:1", **account, **options)
        await provider.open()
        try:
            yield fake, provider
        finally:
            await provider.close()


@pytest.mark.parametrize("behaviour", BEHAVIOURS, ids=lambda one: one.run.__name__)
async def test_a_pod_shows(tmp_path: Path, behaviour: Behaviour) -> None:
    async with provided(tmp_path) as (fake, provider):
        factory = make_factory(provider, "stack")
        (outcome,) = await run_suite(factory, provider.abilities, behaviours=[behaviour], flood=100_000_000)
        assert not fake.pods
    if outcome.state == "skipped":
        pytest.skip(outcome.why)
    assert outcome.state == "passed", outcome.why


def test_the_namespace_is_the_service_accounts_own(tmp_path: Path) -> None:
    account = tmp_path / "account"
    account.mkdir()
    (account / "namespace").write_text(NAMESPACE)
    provider = Kubernetes(server="https://10.0.0.1", account=str(account))
    assert provider.api.cluster.namespace == NAMESPACE
