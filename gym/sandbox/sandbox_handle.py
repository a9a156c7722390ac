"""One sandbox as a server holds it. Every method is one request to the broker."""

from __future__ import annotations

import asyncio
import errno
import secrets
import tarfile
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import aclosing
from pathlib import Path
from typing import Any, BinaryIO, Self
from urllib.parse import urlencode

import orjson
from pydantic import TypeAdapter

from gym.http.streams import Incoming
from gym.sandbox.processes import MARGIN, SandboxClient, SandboxJob, Shell
from gym.sandbox.sandbox_errors import FileProblem, failure
from gym.wire.failures import RolloutError
from gym.wire.sandbox import ExecRequest, ExecResult, FileInfo, JobInfo, SandboxInfo, to_bytes

OnOutput = Callable[[int, bytes], None]
PIECE = 1 << 20
MAX_BYTES = 1 << 30  # bytes that are taken out of a sandbox at once
MAX_FILE_BYTES = 16 << 20  # of a file that is read into memory, unless the caller allows more
FILES = TypeAdapter(tuple[FileInfo, ...])


class Sandbox:
    """`async with` removes it at the end."""

    def __init__(self, client: SandboxClient, info: SandboxInfo, key: str = "") -> None:
        self._client = client
        self.info = info
        self.id = info.id
        self.route_id = f"{info.id}~{key}" if key else info.id  # as the broker's paths name it
        self._path = f"/sandboxes/{self.route_id}"

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.delete()

    async def exec(
        self,
        command: str | Sequence[str] | ExecRequest,
        *,
        on_output: OnOutput | None = None,
        margin: float = MARGIN,
        **options: Any,
    ) -> ExecResult:
        """A str is a line for /bin/sh, a sequence an argv; options are those of `ExecRequest`. Runs once."""
        request = to_request(command, options)
        seconds = request.timeout + margin
        if on_output is not None:
            return await self._stream(request, on_output, seconds)
        body, path = request.model_dump(mode="json", exclude_unset=True), f"{self._path}/exec"
        request_id = request.id or secrets.token_hex(12)
        try:
            reply = await self._client.call("POST", path, body, timeout=seconds, request_id=request_id)
        except asyncio.CancelledError:
            if request.id is None:  # its result can no longer be fetched
                self._client.later(self._client.call("DELETE", f"{path}/{request_id}", timeout=10.0))
            raise
        return ExecResult.model_validate_json(reply.body)

    async def start_job(self, command: str | Sequence[str] | ExecRequest, **options: Any) -> SandboxJob:
        body = to_request(command, options).model_dump(mode="json", exclude_unset=True)
        reply = await self._client.call("POST", f"{self._path}/jobs", body, request_id=secrets.token_hex(12))
        return SandboxJob(self._client, self._path, JobInfo.model_validate_json(reply.body))

    async def shell(
        self,
        *,
        path: str = "/bin/sh",
        cwd: str | None = None,
        env: Mapping[str, str] | None = None,
        user: str | None = None,
    ) -> Shell:
        """Directory, variables and functions stay from one command to the next."""
        body = {"path": path, "cwd": cwd, "env": dict(env or {}), "user": user}
        reply = await self._client.call("POST", f"{self._path}/shells", body)
        return Shell(self._client, f"{self._path}/shells/{orjson.loads(reply.body)['id']}")

    # Files. `user` is the user whose rights apply, where the provider has users.

    async def put(
        self,
        path: str,
        data: bytes | str | Path | AsyncIterator[bytes],
        *,
        mode: int | None = None,
        append: bool = False,
        user: str | None = None,
    ) -> None:
        """Text, bytes, a file of this machine, or pieces as they come: never whole in memory unless it is already."""
        given = {"mode": None if mode is None else f"{mode:o}", "append": "1" if append else None}
        content = data.encode() if isinstance(data, str) else read_file(data) if isinstance(data, Path) else data
        async with self._client.streaming("PUT", self._at("files", path, user, given), body=content) as incoming:
            await incoming.whole()

    async def get(
        self,
        path: str,
        *,
        offset: int = 0,
        length: int | None = None,
        user: str | None = None,
        max_bytes: int = MAX_FILE_BYTES,
    ) -> bytes:
        """Of a regular file: `length` bytes, or all of it. More than `max_bytes` is a `FileProblem` (EFBIG): it may be
        taken by parts."""
        asked = max_bytes + 1 if length is None else length
        given = {"offset": str(offset) if offset else None, "length": str(asked)}
        async with self._client.streaming("GET", self._at("files", path, user, given)) as incoming:
            data = await incoming.whole(asked)
        if length is None and len(data) > max_bytes:
            raise FileProblem(f"{path} is larger than {max_bytes} bytes", errno.EFBIG, path, 413)
        return data

    async def put_tree(self, path: str, source: Path | bytes, *, user: str | None = None) -> None:
        """A directory of this machine, or a tar (gzip or not; bytes, or a file of this machine), below `path`."""
        if isinstance(source, bytes) or await asyncio.to_thread(source.is_file):
            await self._put_tar(path, source if isinstance(source, bytes) else read_file(source), user)
            return
        with tempfile.TemporaryFile() as packed:
            await asyncio.to_thread(pack, source, packed)
            packed.seek(0)
            await self._put_tar(path, read_open(packed), user)

    async def get_tar(self, path: str, *, user: str | None = None, max_bytes: int = MAX_BYTES) -> bytes:
        """A tree as `put_tree` takes it. At most `max_bytes`: a file with holes is small only there."""
        async with self._client.streaming("GET", self._at("tree", path, user)) as incoming:
            return await incoming.whole(max_bytes)

    async def get_tar_to(self, path: str, target: Path, *, user: str | None = None, max_bytes: int = MAX_BYTES) -> None:
        async with self._client.streaming("GET", self._at("tree", path, user)) as incoming:
            await write_pieces(incoming, target, max_bytes)

    async def stat(self, path: str, *, user: str | None = None) -> FileInfo:
        return FileInfo.model_validate_json((await self._client.call("GET", self._at("stat", path, user))).body)

    async def list(self, path: str, *, recursive: bool = False, user: str | None = None) -> tuple[FileInfo, ...]:
        given = {"recursive": "1" if recursive else None}
        fields = orjson.loads((await self._client.call("GET", self._at("list", path, user, given))).body)
        return FILES.validate_python(fields["entries"])

    async def make_dir(self, path: str, *, mode: int | None = None, user: str | None = None) -> None:
        await self._client.call("POST", self._at("dirs", path, user, {"mode": None if mode is None else f"{mode:o}"}))

    async def remove(self, path: str, *, recursive: bool = False, user: str | None = None) -> None:
        await self._client.call("DELETE", self._at("files", path, user, {"recursive": "1" if recursive else None}))

    # The sandbox as a whole.

    async def fork(self, *, rollout: str = "", timeout: float = 300.0) -> Sandbox:
        """Another one with these files; owned by the same process."""
        made: Sandbox = await self._client.fork(self.id, rollout=rollout, timeout=timeout)
        return made

    async def seal(self) -> None:
        """The setup is over: from here on the network is what the run may have."""
        await self._change("seal")

    async def extend(self, seconds: float) -> None:
        """It expires `seconds` from now."""
        await self._change("ttl", {"seconds": seconds})

    async def extend_if_due(self, seconds: float) -> None:
        """For one that a session works in for hours: once less than half of `seconds` is left, all of it again."""
        if self.info.expires - time.time() < seconds / 2:
            await self.extend(seconds)

    def share(self) -> dict[str, str]:
        """What another instance opens it by (`Sandboxes.visit`), for commands and files; it cannot remove it."""
        return {"id": self.id, "provider": self.info.provider, "key": self._client.key_of(self.id)}

    async def inspect(self) -> SandboxInfo:
        reply = await self._client.call("GET", self._path)
        self.info = SandboxInfo.model_validate_json(reply.body)
        return self.info

    async def delete(self) -> None:
        """Idempotent; goes on when the caller is cancelled."""
        await asyncio.shield(asyncio.ensure_future(self._client.remove(self.id)))

    async def _change(self, verb: str, body: Any = None) -> None:
        reply = await self._client.call("POST", f"{self._path}/{verb}", body, request_id=secrets.token_hex(12))
        self.info = SandboxInfo.model_validate_json(reply.body)

    async def _stream(self, request: ExecRequest, on_output: OnOutput, seconds: float) -> ExecResult:
        body = request.model_copy(update={"stream": True, "id": None}).model_dump(mode="json", exclude_unset=True)
        content = orjson.dumps(body)
        try:
            async with (
                asyncio.timeout(seconds),
                aclosing(self._client.ndjson(f"{self._path}/exec", content, seconds=seconds)) as lines,
            ):
                async for line in lines:
                    if "result" in line:
                        return ExecResult.model_validate(line["result"])
                    if "error" in line:
                        raise failure(500, orjson.dumps(line))
                    on_output(int(line["stream"]), to_bytes(line["data"]))
        except TimeoutError:
            late = f"the command's result did not come in {seconds:g} s"
            raise RolloutError("timeout", late, server="sandbox") from None
        raise RolloutError("sandbox", "the broker's reply broke off before the result", server="sandbox")

    async def _put_tar(self, path: str, tar: bytes | AsyncIterator[bytes], user: str | None) -> None:
        async with self._client.streaming("PUT", self._at("tree", path, user), body=tar) as incoming:
            await incoming.whole()

    def _at(self, verb: str, path: str, user: str | None, more: Mapping[str, str | None] | None = None) -> str:
        query = {"path": path, "user": user, **(more or {})}
        return f"{self._path}/{verb}?" + urlencode({key: value for key, value in query.items() if value is not None})


def to_request(command: str | Sequence[str] | ExecRequest, options: Mapping[str, Any]) -> ExecRequest:
    if isinstance(command, ExecRequest):
        return command.model_copy(update=dict(options)) if options else command
    words = {"shell": command} if isinstance(command, str) else {"argv": tuple(command)}
    return ExecRequest.model_validate({**words, **options})


async def write_pieces(incoming: Incoming, target: Path, max_bytes: int) -> None:
    with target.open("wb") as file:
        async for piece in incoming.pieces(max_bytes):
            await asyncio.to_thread(file.write, piece)


async def read_file(path: Path) -> AsyncIterator[bytes]:
    with path.open("rb") as file:
        async for piece in read_open(file):
            yield piece


async def read_open(file: BinaryIO) -> AsyncIterator[bytes]:
    while piece := await asyncio.to_thread(file.read, PIECE):
        yield piece


def pack(source: Path, target: BinaryIO) -> None:
    with tarfile.open(fileobj=target, mode="w", format=tarfile.PAX_FORMAT) as tar:
        tar.add(source, arcname=".")
