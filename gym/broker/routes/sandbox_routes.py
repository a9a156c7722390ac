"""The routes about sandboxes as a whole: made, listed, kept, forked, sealed, removed; leases, images, status."""

from __future__ import annotations

import asyncio
from typing import Annotated

import orjson
from pydantic import Field

from gym.broker.errors import Lost, RequestRefused
from gym.broker.grant_check import explain_extra
from gym.broker.registry import SandboxEntry, id_of_request
from gym.broker.routes.request import Handler, Request, RequestBody, json_answer, model_answer, parse_body
from gym.broker.service import Broker
from gym.server.asgi import Answer
from gym.wire.failures import RolloutError
from gym.wire.sandbox import SandboxSpec

LONGEST_OWNER = 200
Short = Annotated[str, Field(max_length=LONGEST_OWNER)]
REMOVE_SECONDS = 30.0  # how long a DELETE waits before it says that the removal goes on without it


class CreateRequest(SandboxSpec):
    rollout: Short = ""
    owner: Short = ""

    def spec(self) -> SandboxSpec:
        values = {name: getattr(self, name) for name in SandboxSpec.model_fields}
        return SandboxSpec.model_construct(_fields_set=self.model_fields_set - {"rollout", "owner"}, **values)


class ForkRequest(RequestBody):
    rollout: Short = ""
    owner: Short = ""
    ttl: float | None = Field(default=None, gt=0)
    labels: dict[str, str] | None = None


class SecondsRequest(RequestBody):
    seconds: float = Field(gt=0)


class LeaseRequest(RequestBody):
    seconds: float | None = Field(default=None, gt=0)


async def create(request: Request) -> Answer:
    """Makes a sandbox. A request that is resent with its id makes no second one."""
    body = await request.body()
    asked = parse_create(body)
    request_id = request.request_id()
    fixed = id_of_request(request.caller.instance, request_id) if request_id else ""
    requester = request.requester(asked.rollout, asked.owner, fixed)

    async def work() -> bytes:
        if fixed and (made := request.broker.registry.made_for(fixed, request.caller)):
            return info_json(made)  # it was asked of a broker that has ended since
        return info_json(in_time(request, await request.broker.create(requester, asked.spec())))

    return Answer(await request.run_once("", request_id, body, work), 201)


def parse_create(body: bytes) -> CreateRequest:
    try:
        return parse_body(CreateRequest, body)
    except RequestRefused as error:
        try:
            reason = explain_extra(orjson.loads(body))
        except orjson.JSONDecodeError:
            raise error from None
        if reason is None:
            raise
        raise RequestRefused(reason) from None


async def list_all(request: Request) -> Answer:
    """The sandboxes that the caller may see."""
    wanted = {key: request.query[key] for key in ("instance", "rollout", "owner") if key in request.query}
    found = [
        entry.info().model_dump(mode="json")
        for entry in request.broker.registry
        if request.caller.may_see(entry.instance) and wanted.items() <= entry.tags._asdict().items()
    ]
    return json_answer({"sandboxes": found})


async def inspect(request: Request) -> Answer:
    """One of them."""
    return model_answer(request.entry().info())


async def remove(request: Request) -> Answer:
    """Idempotent: succeeds also when the sandbox is already removed."""
    try:
        entry = request.own_entry()
    except Lost:
        return json_answer({"id": request.parts[1], "removed": True})
    task = request.broker.remove(entry, f"{request.caller.instance} asked for it")
    done, _ = await asyncio.wait(
        [task], timeout=min(REMOVE_SECONDS, request.deadline - asyncio.get_running_loop().time())
    )
    return json_answer({"id": entry.id, "removed": bool(done)}, 200 if done else 202)


async def fork(request: Request) -> Answer:
    """Another sandbox with the files of this one."""
    asked, body = await request.parse(ForkRequest)
    entry, request_id = request.own_entry(), request.request_id()
    tags = entry.tags
    fixed = id_of_request(request.caller.instance, f"{entry.id} {request_id}") if request_id else ""
    requester = request.requester(asked.rollout or tags.rollout, asked.owner or tags.owner, fixed)

    async def work() -> bytes:
        if fixed and (made := request.broker.registry.made_for(fixed, request.caller)):
            return info_json(made)
        return info_json(in_time(request, await request.broker.fork(requester, entry, asked.ttl, asked.labels)))

    return Answer(await request.run_once("", f"{entry.id} {request_id}" if request_id else "", body, work), 201)


async def seal(request: Request) -> Answer:
    """Takes away what only the setup may reach."""
    entry = request.own_entry()
    await entry.channel_for()
    if not entry.sealed:
        await entry.sandbox.seal()
        entry.sealed = True
        request.broker.audit.note("seal", sandbox=entry.id, instance=entry.instance, rollout=entry.tags.rollout)
    return model_answer(entry.info())


async def extend(request: Request) -> Answer:
    """Lengthens its life."""
    asked, _ = await request.parse(SecondsRequest)
    entry = request.own_entry()
    await request.broker.extend(request.caller, entry, asked.seconds)
    return model_answer(entry.info())


async def renew_lease(request: Request) -> Answer:
    """Says that an owner lives; what it owns goes once it is silent."""
    asked, _ = await request.parse(LeaseRequest)
    name = request.parts[1]
    if len(name) > LONGEST_OWNER:
        raise RequestRefused(f"an owner's name has at most {LONGEST_OWNER} characters", 422)
    seconds = request.broker.leases.renew((request.caller.instance, name), asked.seconds)
    return json_answer({"owner": name, "seconds": seconds})


async def drop_lease(request: Request) -> Answer:
    """Ends a lease: removes all sandboxes of the owner at once."""
    owner = (request.caller.instance, request.parts[1])
    removing = request.broker.drop_owner(owner, f"its owner {owner[1]} ended")
    if removing:
        await asyncio.wait(removing, timeout=REMOVE_SECONDS)
    return json_answer({"owner": owner[1], "removed": len(removing)})


async def status(request: Request) -> Answer:
    """What the broker has, waits for and was refused."""
    return json_answer(request.broker.status())


async def hand_over(request: Request) -> Answer:
    """The next end of this broker leaves the sandboxes to its successor."""
    if not request.caller.operator:
        raise RequestRefused("only the stack's operator may hand the broker over")
    handed = request.broker.leave_to_next()
    return json_answer({"hand_over": handed, "sandboxes": len(request.broker.registry)})


def gauges(broker: Broker) -> list[tuple[str, float]]:
    pools = broker.warm.status()
    return [
        ("alive", len(broker.registry)),
        ("warm_ready", sum(pool["ready"] for pool in pools)),
        ("removals_pending", len(broker.removals.ids())),
        ("breaker_open", float(broker.breaker.state != "closed")),
        ("engine_ping_seconds", broker.engine_seconds),
        ("create_waiting", broker.creates.status()["waiting"]),
        ("create_limit", broker.creates.status()["limit"]),
    ]


def in_time(request: Request, entry: SandboxEntry) -> SandboxEntry:
    """Removes a sandbox that was made after the deadline: its caller has already got a failure."""
    if request.has_deadline and asyncio.get_running_loop().time() > request.deadline:
        request.broker.remove(entry, "it was made after the deadline of its request")
        raise RolloutError("timeout", f"{request.name} was not done when the deadline passed", server="sandbox")
    return entry


def info_json(entry: SandboxEntry) -> bytes:
    return entry.info().model_dump_json().encode()


ROUTES: dict[str, Handler] = {
    "POST /sandboxes": create,
    "GET /sandboxes": list_all,
    "GET /sandboxes/*": inspect,
    "DELETE /sandboxes/*": remove,
    "POST /sandboxes/*/fork": fork,
    "POST /sandboxes/*/seal": seal,
    "POST /sandboxes/*/ttl": extend,
    "POST /leases/*": renew_lease,
    "DELETE /leases/*": drop_lease,
    "GET /status": status,
    "POST /handover": hand_over,
}
