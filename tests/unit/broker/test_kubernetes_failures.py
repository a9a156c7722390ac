"""Whatever a cluster does to a sandbox is told apart: the row's fault, the policy's doing, or the cluster's."""

from __future__ import annotations

import asyncio
import shutil
from pathlib import Path
from typing import Any

import pytest

from gym.broker.egress.gate import RelayEgressGate
from gym.broker.errors import Busy
from gym.broker.providers.docker.errors import BadSpec, ImageDenied, ImageMissing
from gym.broker.providers.kubernetes import kubernetes_sandbox
from gym.broker.providers.kubernetes.api_client import ApiRefused, ApiSilent
from gym.broker.providers.kubernetes.attach_stream import read_status
from gym.broker.providers.kubernetes.kubernetes_provider import Kubernetes
from gym.errors import InfraError, UserError
from gym.sandbox.relay import ADDRESS, PROXY_PORT
from gym.wire.failures import RolloutError
from gym.wire.sandbox import ExecRequest, SandboxSpec
from tests.support.fake_kubernetes import Fault, container_state
from tests.support.sandbox_local import tags
from tests.unit.broker.test_kubernetes_provider import provided

pytestmark = pytest.mark.skipif(shutil.which("bwrap") is None, reason="bubblewrap is not installed")
SPEC = SandboxSpec(image="docker.io/library/python:3.13-slim")
OWN_DISK = "Pod ephemeral local storage usage exceeds the total limit of containers 1Gi."
CODE_137 = b'{"status":"Failure","message":"m","details":{"causes":[{"reason":"ExitCode","message":"137"}]}}'
TRUE = ExecRequest(argv=("true",))


def waiting(reason: str, message: str = "") -> dict[str, Any]:
    state = {"waiting": {"reason": reason, "message": message}}
    placed = [{"type": "PodScheduled", "status": "True"}]
    pending = {"phase": "Pending", "conditions": placed, **container_state(state)}
    return {"spec": {"nodeName": "node-1"}, "status": pending}


@pytest.mark.parametrize(
    ("stays", "wanted", "words"),
    [
        (waiting("ErrImagePull", "manifest unknown"), ImageMissing, "There is no image"),
        (waiting("ImagePullBackOff", "unauthorized: authentication required"), ImageDenied, "without a login"),
        (waiting("InvalidImageName", "couldn't parse image name"), ImageMissing, "couldn't parse"),
        (waiting("CreateContainerConfigError", "runAsNonRoot and root"), BadSpec, "runAsNonRoot"),
        (waiting("RunContainerError", "exec format error"), BadSpec, "exec format error"),
        ({"status": {"phase": "Failed", "reason": "OutOfcpu", "message": "no cpu"}}, InfraError, "OutOfcpu"),
        ({"status": {"phase": "Failed", "reason": "NodeLost", "message": "m"}}, InfraError, "its node is lost"),
    ],
)
async def test_a_pod_that_never_runs_is_explained_and_removed(
    tmp_path: Path, stays: dict[str, Any], wanted: type[Exception], words: str
) -> None:
    async with provided(tmp_path) as (fake, provider):
        fake.stays[str(SPEC.image)] = stays
        with pytest.raises(wanted, match=words):
            await provider.create(SPEC, tags("a1"))
        assert not fake.pods


async def test_a_pod_that_no_node_takes_is_put_off(tmp_path: Path) -> None:
    async with provided(tmp_path, place_seconds=0.2) as (fake, provider):
        unplaced = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/3 nodes"}
        fake.stays[str(SPEC.image)] = {"status": {"phase": "Pending", "conditions": [unplaced]}}
        with pytest.raises(Busy, match="0/3 nodes") as found:
            await provider.create(SPEC, tags("a1"))
        assert (found.value.status, found.value.retryable) == (429, True)
        assert not fake.pods


async def test_a_registry_that_is_slow_or_busy_is_the_infrastructures_failure(tmp_path: Path) -> None:
    async with provided(tmp_path, start_seconds=0.2) as (fake, provider):
        fake.stays[str(SPEC.image)] = waiting("ErrImagePull", "toomanyrequests: rate limit")
        with pytest.raises(InfraError, match="refuses more pulls"):
            await provider.create(SPEC, tags("a1"))
        assert not fake.pods


@pytest.mark.parametrize(
    ("status", "words", "own_doing"),
    [
        (container_state({"terminated": {"exitCode": 137, "reason": "OOMKilled"}}), "ended for memory", True),
        ({"phase": "Failed", "reason": "Evicted", "message": OWN_DISK}, "put it out", True),
        ({"phase": "Failed", "reason": "Evicted", "message": "The node was low on resource: memory."}, "low on", False),
        ({"phase": "Failed", "reason": "NodeLost", "message": "m"}, "its node is lost", False),
        ({"phase": "Failed", "reason": "DeadlineExceeded"}, "past its TTL", False),
        ({"conditions": [{"type": "DisruptionTarget", "status": "True"}]}, "emptied", False),
    ],
)  # fmt: skip
async def test_who_ended_a_running_sandbox_is_reported(
    tmp_path: Path, status: dict[str, Any], words: str, own_doing: bool
) -> None:
    async with provided(tmp_path) as (fake, provider):
        sandbox = await provider.create(SPEC, tags("a1"))
        await fake.set_status(sandbox.name, **status)
        await fake.processes[sandbox.name].kill()
        await sandbox.channel.wait_closed()
        assert words in await sandbox.why_lost()
        assert sandbox.own_doing is own_doing
        await sandbox.remove()
        assert not fake.pods


async def test_a_pod_deleted_by_another_is_not_a_reward(tmp_path: Path) -> None:
    async with provided(tmp_path) as (fake, provider):
        sandbox = await provider.create(SPEC, tags("a1"))
        await fake.vanish(sandbox.name)
        await sandbox.channel.wait_closed()
        assert "deleted by another" in await sandbox.why_lost()
        assert not sandbox.own_doing
        await sandbox.remove()


async def test_a_channel_that_breaks_is_told_apart_from_a_pod_that_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kubernetes_sandbox, "NEWS_SECONDS", 0.1)
    async with provided(tmp_path) as (fake, provider):
        sandbox = await provider.create(SPEC, tags("a1"))
        fake.break_connections()
        await sandbox.channel.wait_closed()
        assert "the pod still runs" in await sandbox.why_lost()
        assert not sandbox.own_doing
        await sandbox.remove()
        assert not fake.pods


async def test_a_creation_is_sent_again_only_where_nothing_was_made(tmp_path: Path) -> None:
    async with provided(tmp_path) as (fake, provider):
        fake.faults.append(Fault("POST", 429, "TooManyRequests", "try again", "retry-after: 0\r\n"))
        await (await provider.create(SPEC, tags("a1"))).remove()
        assert sent(fake.asked, "POST") == 2


@pytest.mark.parametrize("status", [500, 504, 0])
async def test_a_creation_whose_outcome_is_not_known_is_looked_for(tmp_path: Path, status: int) -> None:
    async with provided(tmp_path) as (fake, provider):
        fake.faults.append(Fault("POST", status, "InternalError", "etcd", done=True))
        sandbox = await provider.create(SPEC, tags("a1"))
        assert (await sandbox.channel.exec(TRUE)).ok
        assert sent(fake.asked, "POST") == 1
        await sandbox.remove()


@pytest.mark.parametrize(("status", "wanted"), [(500, ApiRefused), (0, ApiSilent)])
async def test_a_creation_that_was_not_carried_out_is_a_failure(
    tmp_path: Path, status: int, wanted: type[Exception]
) -> None:
    async with provided(tmp_path) as (fake, provider):
        fake.faults.append(Fault("POST", status, "InternalError", "etcd"))
        with pytest.raises(wanted):
            await provider.create(SPEC, tags("a1"))
        assert sent(fake.asked, "POST") == 1
        assert not fake.pods


async def test_a_pod_of_the_same_name_that_another_made_is_left_alone(tmp_path: Path) -> None:
    async with provided(tmp_path) as (fake, provider):
        sandbox = await provider.create(SPEC, tags("a1"))
        with pytest.raises(ApiRefused, match="already exists"):
            await provider.create(SPEC, tags("a1", stack="other"))
        assert (await sandbox.channel.exec(TRUE)).ok
        await sandbox.remove()


@pytest.mark.parametrize(
    ("fault", "wanted", "words"),
    [
        (Fault("POST", 403, "Forbidden", "exceeded quota: pods, used: pods=10"), Busy, "no room"),
        (Fault("POST", 403, "Forbidden", 'violates PodSecurity "restricted"'), InfraError, "level `baseline`"),
        (Fault("POST", 403, "Forbidden", "cannot create resource pods"), InfraError, "Its Role does not allow"),
        (Fault("POST", 403, "Forbidden", 'RuntimeClass "kata" not found'), BadSpec, "no RuntimeClass kata"),
        (Fault("POST", 422, "Invalid", "spec.containers[0].image: required"), BadSpec, "cannot be made so"),
    ],
)
async def test_a_refusal_of_the_api_says_whose_fault_it_is(
    tmp_path: Path, fault: Fault, wanted: type[Exception], words: str
) -> None:
    async with provided(tmp_path) as (fake, provider):
        fake.faults.append(fault)
        with pytest.raises(wanted) as found:
            await provider.create(SPEC, tags("a1"))
        assert words in str(found.value)


async def test_another_token_is_read_as_soon_as_it_is_there(tmp_path: Path) -> None:
    async with provided(tmp_path) as (fake, provider):
        fake.set_token("second-token")
        await (await provider.create(SPEC, tags("a1"))).remove()


async def test_a_watch_that_lost_its_place_begins_again_from_a_list(tmp_path: Path) -> None:
    async with provided(tmp_path) as (fake, provider):
        kept = [await provider.create(SPEC, tags(f"a{at}")) for at in range(3)]  # more than a page has
        await fake.expire()
        another = await provider.create(SPEC, tags("b1"))
        for sandbox in (*kept, another):
            await sandbox.remove()
        assert not fake.pods


async def test_a_node_that_confirms_no_deletion_is_passed_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kubernetes_sandbox, "GONE_SECONDS", 0.1)
    async with provided(tmp_path) as (fake, provider):
        sandbox = await provider.create(SPEC, tags("a1"))
        fake.holds_pods = True
        await sandbox.remove()
        assert not fake.pods


async def test_a_sweep_takes_what_an_earlier_broker_left_of_this_stack_alone(tmp_path: Path) -> None:
    async with provided(tmp_path) as (fake, provider):
        for id, stack in (("a1", "stack"), ("a2", "stack"), ("b1", "other")):
            await provider.create(SPEC, tags(id, stack))
        account: dict[str, Any] = {"server": fake.url, "account": str(fake.account)}
        following = Kubernetes(helper_image="image", **account)
        await following.open()
        assert await following.sweep("stack", frozenset({"a2"})) == 1
        assert sorted(fake.pods) == ["gym-a2", "gym-b1"]
        await following.sweep("stack", frozenset())
        await following.sweep("other", frozenset())
        await following.close()
        assert not fake.pods


async def test_who_gives_up_waiting_leaves_no_pod(tmp_path: Path) -> None:
    async with provided(tmp_path) as (fake, provider):
        fake.stays[str(SPEC.image)] = waiting("ContainerCreating")
        making = asyncio.create_task(provider.create(SPEC, tags("a1")))
        while not fake.pods:
            await asyncio.sleep(0.01)
        making.cancel()
        fake.stays.clear()
        await fake.set_status("gym-a1", **waiting("InvalidImageName")["status"])
        with pytest.raises(asyncio.CancelledError):
            await making
        assert not fake.pods


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"user": "postgres"}, "by number"),
        ({"image": None, "build": {"dockerfile": "FROM a"}}, "builds no images"),
        ({"network": {"allow": ["example.org"]}}, "offers none, internet"),
        ({"network": {"access": "none", "setup": "internet"}}, "keeps it"),
    ],
)
async def test_what_a_pod_cannot_be_is_refused_before_one_is_made(
    tmp_path: Path, changes: dict[str, Any], words: str
) -> None:
    async with provided(tmp_path) as (fake, provider):
        spec = SandboxSpec.model_validate({**SPEC.model_dump(), **changes})
        with pytest.raises(RolloutError, match=words) as found:
            await provider.create(spec, tags("a1"))
        assert not found.value.retryable
        assert sent(fake.asked, "POST") == 0


async def test_an_older_cluster_speaks_the_earlier_protocol(tmp_path: Path) -> None:
    async with provided(tmp_path) as (fake, provider):
        fake.protocol = "v4.channel.k8s.io"
        sandbox = await provider.create(SPEC, tags("a1"))
        assert (await sandbox.channel.exec(ExecRequest(argv=("cat",), stdin=b"x" * 100_000))).ok
        await sandbox.remove()


async def test_a_removal_is_asked_for_again_until_it_is_done(tmp_path: Path) -> None:
    async with provided(tmp_path) as (fake, provider):
        sandbox = await provider.create(SPEC, tags("a1"))
        fake.faults += [Fault("DELETE", 503, "ServiceUnavailable", "etcd"), Fault("DELETE", 0)]
        await sandbox.remove()
        assert not fake.pods


async def test_the_last_message_explains_an_end_that_no_event_tells(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kubernetes_sandbox, "NEWS_SECONDS", 0.1)
    async with provided(tmp_path) as (fake, provider):
        sandbox = await provider.create(SPEC, tags("a1"))
        fake.silent = True
        await fake.processes[sandbox.name].kill()
        await sandbox.channel.wait_closed()
        assert await sandbox.why_lost() == "its first process ended with exit code 137"
        fake.silent = False
        await sandbox.remove()


async def test_listed_hosts_are_reached_through_the_brokers_gate_alone(tmp_path: Path) -> None:
    async with provided(tmp_path, gate=RelayEgressGate()) as (fake, provider):
        spec = SandboxSpec.model_validate({**SPEC.model_dump(), "network": {"allow": ["listed.example"]}})
        sandbox = await provider.create(spec, tags("a1"))
        (pod,) = fake.pods.values()
        assert pod["metadata"]["labels"]["gym.network"] == "none"
        line = f"exec 3<>/dev/tcp/{ADDRESS}/{PROXY_PORT}; printf '%s' \"$1\" >&3; head -n 1 <&3"
        asked = "GET http://other.example/ HTTP/1.1\r\nHost: other.example\r\n\r\n"
        found = await sandbox.channel.exec(ExecRequest(argv=("bash", "-c", line, "x", asked)))
        assert " 403 " in found.stdout.text, found
        await sandbox.remove()


def test_the_last_message_says_how_a_process_ended() -> None:
    assert read_status(b'{"metadata":{},"status":"Success"}') == (0, "")
    assert read_status(CODE_137) == (137, "m")
    assert read_status(b'{"status":"Failure","message":"container not found"}') == (None, "container not found")
    assert read_status(b"no json") == (None, "no json")


async def test_a_broker_outside_of_any_pod_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    with pytest.raises(UserError, match="gym render --target kubernetes"):
        Kubernetes(helper_image="image")


def sent(asked: list[Any], method: str) -> int:
    return sum(one.method == method for one in asked)
