"""The routes about images that are built: a server begins one at its start, and `gym up` follows it to its end."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any, Final

import orjson

from gym.broker.errors import RequestRefused
from gym.broker.image_pulls import ImagePulls, PendingImage
from gym.broker.routes.request import Handler, Request, RequestBody, Stream, failure_fields, json_answer
from gym.server.asgi import Answer
from gym.wire.failures import RolloutError
from gym.wire.sandbox import Build, SandboxSpec

LOOK_SECONDS: Final = 0.25
NDJSON: Final = b"application/x-ndjson"


class BeginRequest(RequestBody):
    build: Build


async def begin(request: Request) -> Answer:
    """Begins to build an image; the reply says whether it is there already."""
    asked, _ = await request.parse(BeginRequest)
    spec = request.broker.policy(SandboxSpec(build=asked.build), request.caller.grant)
    coming = request.broker.images.begin(spec, request.caller.instance)
    return json_answer({"ready": coming is None})


async def follow(request: Request) -> Stream:
    """Streams all running builds until none is left. For the operator only: the output may be another instance's."""
    if not request.caller.operator:
        raise RequestRefused("only the stack's operator may follow what is built")
    return Stream(follow_builds(request.broker.images), NDJSON)


async def follow_builds(images: ImagePulls) -> AsyncIterator[bytes]:
    """A line for each change of progress, and one with `done` for each build that has ended."""
    seen: dict[str, PendingImage] = {}
    shown: dict[str, object] = {}
    while seen := {**seen, **images.builds()}:
        for key, one in tuple(seen.items()):
            status = status_of(one)
            if status != shown.get(key):
                shown[key] = status
                yield orjson.dumps(status) + b"\n"
            if status.get("done"):
                del seen[key]
        await asyncio.sleep(LOOK_SECONDS)


def status_of(one: PendingImage) -> dict[str, Any]:
    status: dict[str, Any] = {"instances": sorted(one.instances), "progress": one.line}
    if one.task is None or not one.task.done():
        return status
    status |= {"done": True, "seconds": round(one.ended - one.began, 1)}
    error = None if one.task.cancelled() else one.task.exception()
    return status | ({"error": failure_fields(error)} if isinstance(error, RolloutError) else {})


ROUTES: dict[str, Handler] = {"POST /images/begin": begin, "GET /images/coming": follow}
