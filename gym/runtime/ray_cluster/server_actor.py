"""One replica as a Ray actor: it has the resources, and a process in an environment of its own does the work.

Runs in Ray's own Python, into which it is sent by value: the standard library and Ray are all that it may import.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

HOST_MODULE = "gym.runtime.ray_cluster.replica_host"
BACKOFF_FIRST, MAX_BACKOFF = 1.0, 30.0
MAX_LOG = 1024 * 1024  # bytes of one look into a log


class ServerActor:
    """Made again by Ray where its node or its worker is lost; the server in it restarts with a back-off of its own."""

    def __init__(self, order: dict[str, Any], tools: dict[str, Any]) -> None:
        self._order = order
        self._tools = tools
        self._seen: dict[str, Any] = {"state": "starting", "detail": "making the environment of its node"}
        self._seen_at = time.monotonic()
        self._state: dict[str, Any] | None = None  # of the stack, as the keeper sent it last
        self._process: subprocess.Popen[str] | None = None
        self._lock = threading.Lock()
        self._ending = False
        self._node = self._where()
        self._log = tools["logs_folder"]() / f"{order['namespace']}-{order['id']}.log"
        threading.Thread(target=self._run, daemon=True).start()

    def status(self) -> dict[str, Any]:
        """`generation`: of the stack's state that it was sent last."""
        generation = self._state["generation"] if self._state else 0
        uptime = self._seen.get("uptime_seconds", 0.0) + time.monotonic() - self._seen_at
        return {
            **self._seen,
            "uptime_seconds": round(uptime, 1) if self._seen.get("pid") else 0.0,
            "digest": self._order["digest"],
            "ip": self._node["ip"],
            "node": self._node["node"],
            "generation": generation,
            "logged": self._logged(),
        }

    def tell(self, state: dict[str, Any]) -> None:
        with self._lock:
            if self._state is None or state["generation"] > self._state["generation"]:
                self._state = state
                self._say({"state": state})

    def restart(self) -> None:
        with self._lock:
            self._say({"restart": True})

    def drain(self) -> None:
        """Returns when its server has answered what was in flight and ended."""
        with self._lock:
            self._ending = True
            self._say({"retire": True})
        if self._process is not None:
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(self._order["drain_seconds"] + 8)
            self._process.kill()
        self._seen = {**self._seen, "state": "exited"}

    def read_log(self, offset: int, tail: int) -> tuple[int, str]:
        """Where the next look begins, and the text from `offset`; below 0: the last `tail` lines."""
        try:
            with self._log.open("rb") as file:
                size = file.seek(0, os.SEEK_END)
                begin = offset if 0 <= offset <= size else max(0, size - MAX_LOG) if offset < 0 else 0
                file.seek(begin)
                data = file.read(MAX_LOG)
        except OSError:
            return 0, ""
        whole = data[: data.rfind(b"\n") + 1]
        text = whole.decode("utf-8", "replace")
        lines = text.splitlines(keepends=True)
        return begin + len(whole), "".join(lines[-tail:] if tail else []) if offset < 0 else text

    def take_log(self, replica: str, text: str, fresh: bool) -> None:  # noqa: FBT001 (Ray sends it by place)
        """The console's: what another replica has logged since the last time, or as far as it is of interest."""
        with self._lock:
            self._say({"log": {"replica": replica, "text": text, "fresh": fresh}})

    def _logged(self) -> int:
        """The bytes in its log."""
        try:
            size: int = self._log.stat().st_size
        except OSError:
            return 0
        return size

    def run(self, words: list[str]) -> tuple[int, bytes]:
        """A command beside the server: its folder, its variables, its environment."""
        spec = self._seen.get("spec")
        if not spec:
            return 1, b"the server has not started yet\n"
        try:
            ended = subprocess.run(
                words,
                cwd=spec["cwd"],
                env=spec["env"],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                check=False,
            )
        except OSError as error:
            return 127, f"cannot start {words[0]}: {error.strerror}\n".encode()
        return ended.returncode, ended.stdout

    # The life of its process

    def _run(self) -> None:
        pause = BACKOFF_FIRST
        while not self._ending:
            began = time.monotonic()
            why = self._run_once()
            if self._ending:
                return
            self._seen = {**self._seen, "state": "restarting", "detail": why}
            with contextlib.suppress(OSError), self._log.open("a") as log:
                log.write(f"{time.strftime('%Y-%m-%d %H:%M:%S')} {why}\n")
            pause = BACKOFF_FIRST if time.monotonic() - began > 60 else min(pause * 2, MAX_BACKOFF)
            time.sleep(pause)

    def _run_once(self) -> str:
        try:
            self._process = process = self._start()
        except Exception as error:  # noqa: BLE001 (whatever it is, the stack's status shows it)
            return f"{type(error).__name__}: {error}"
        assert process.stdout is not None
        for line in process.stdout:
            with contextlib.suppress(ValueError):
                self._seen, self._seen_at = json.loads(line), time.monotonic()
        code = process.wait()
        ended = f"the process beside it ended with exit code {code}"
        return str(self._seen["detail"]) if self._seen["state"] == "unhealthy" and not code else ended

    def _start(self) -> subprocess.Popen[str]:
        tools, order = self._tools, self._order
        cache = tools["node_cache"]()
        python = tools["make_toolkit"](cache, order["toolkit"], self._fetch)
        run = {**order["run"], "namespace": order["namespace"], "ip": self._node["ip"], "log": str(self._log)}
        if order["pack"]:
            run["folder"] = str(tools["unpack"](cache, order["pack"], self._fetch) / order["folder"])
        run["home"] = str(Path(self._node["session"]) / "gym" / order["namespace"] / order["id"])
        environ = {key: value for key, value in os.environ.items() if not key.startswith(("RAY_", "PYTHON"))}
        environ.pop("VIRTUAL_ENV", None)
        if not order["options"].get("num_gpus"):
            environ["CUDA_VISIBLE_DEVICES"] = ""  # as in a container that was given none; Ray leaves all to be seen
        with self._log.open("ab") as log:
            process = subprocess.Popen(
                [str(python), "-P", "-m", HOST_MODULE],
                env=environ,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                start_new_session=True,
            )
        with self._lock:
            self._process = process
            self._say(run)
            if self._state is not None:
                self._say({"state": self._state})
        return process

    def _say(self, message: Mapping[str, Any]) -> None:
        process = self._process
        if process is None or process.stdin is None:
            return
        with contextlib.suppress(OSError, ValueError):
            process.stdin.write(json.dumps(message) + "\n")
            process.stdin.flush()

    def _fetch(self, key: str) -> bytes:
        from ray.experimental.internal_kv import _internal_kv_get  # noqa: PLC0415 (Ray's Python alone has it)

        data = _internal_kv_get(f"pack:{key}".encode(), namespace=self._order["namespace"].encode())
        if data is None:
            raise FileNotFoundError(f"Ray's store has no pack {key[:12]} any more: `gym up` brings it again")
        return bytes(data)

    def _where(self) -> dict[str, str]:
        import ray  # noqa: PLC0415 (as above)
        from ray._private import worker  # noqa: PLC0415

        node = worker._global_node
        return {
            "ip": node.node_ip_address,
            "node": ray.get_runtime_context().get_node_id(),
            "session": node.get_session_dir_path(),
        }
