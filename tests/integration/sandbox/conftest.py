"""The swe server on a real engine, once for a file."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.sandbox_broker import BrokerProcess, broker_process
from tests.support.swe import GRANT, SWE, Process, fields_for, server


@pytest.fixture(scope="module")
def swe_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    with broker_process(tmp_path_factory.mktemp("swe"), "docker", grant=GRANT) as running:
        yield running


@pytest.fixture(scope="module")
def swe(swe_broker: BrokerProcess) -> Iterator[Process]:
    with server(SWE, swe_broker.folder / "swe.log", fields_for("docker"), name="swe", broker=swe_broker) as running:
        yield running
