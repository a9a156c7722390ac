"""An MCP server that does on demand what none should do. It needs the standard library alone.

scripted_server.py [--version V] [--silent ""] [--end ""] [--other FILE]: with FILE there, its tools are others.
"""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

NAMES = ("echo", "refuse", "rpc_error", "no_method", "die", "hang", "spawn", "chatter", "grade", "fs.read")


def main(arguments: list[str]) -> None:
    options = dict(zip(arguments[::2], arguments[1::2], strict=True))
    if "--end" in options:
        sys.stderr.write("no licence was found\n")
        raise SystemExit(3)
    for line in sys.stdin:
        message = json.loads(line)
        if "id" in message and "method" in message and "--silent" not in options:
            say({"id": message["id"], **answer(message["method"], message.get("params") or {}, options)})


def answer(method: str, params: dict[str, Any], options: dict[str, str]) -> dict[str, Any]:
    if method == "initialize":
        version = options.get("--version") or params["protocolVersion"]
        return {"result": {"protocolVersion": version, "capabilities": {}, "serverInfo": {"name": "scripted"}}}
    if method == "tools/list":
        return {"result": list_tools(params, options)}
    return call(params["name"], params.get("arguments") or {})


def list_tools(params: dict[str, Any], options: dict[str, str]) -> dict[str, Any]:
    """In two pages."""
    names = NAMES[5:] if params.get("cursor") else NAMES[:5]
    if "--other" in options and Path(options["--other"]).exists():
        names = tuple(name for name in names if name != "echo")
    schema = {"type": "object", "properties": {"text": {"type": "string"}}}
    tools = [{"name": name, "description": f"{name} it", "inputSchema": schema} for name in names]
    return {"tools": tools, **({} if params.get("cursor") else {"nextCursor": "2"})}


def call(name: str, arguments: dict[str, Any]) -> dict[str, Any]:
    if name == "die":
        sys.stderr.write("out of luck\n")
        sys.stderr.flush()
        os._exit(9)
    if name == "hang":
        sys.stdin.read()
    if name == "refuse":
        return {"result": text(f"no {arguments.get('text')}", failed=True)}
    if name in ("rpc_error", "no_method"):
        code = -32602 if name == "rpc_error" else -32601
        return {"error": {"code": code, "message": "these arguments cannot be"}}
    if name == "spawn":
        child = subprocess.Popen(["sleep", "600"], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
        return {"result": text(json.dumps([os.getpid(), child.pid]))}
    if name == "chatter":
        sys.stdout.write("this is not a message\n")
        say({"method": "notifications/tools/list_changed"})
        say({"id": "theirs", "method": "ping"})
        say({"id": "more", "method": "sampling/createMessage", "params": {}})
        replies = [json.loads(sys.stdin.readline()) for _ in range(2)]
        return {"result": text(json.dumps([sorted(one.keys() - {"jsonrpc"}) for one in replies]))}
    if name == "grade":
        return {"result": {**text("graded"), "structuredContent": {"reward": arguments.get("worth")}}}
    return {"result": text(arguments.get("text", str(Path.cwd())))}


def text(said: str, *, failed: bool = False) -> dict[str, Any]:
    return {"content": [{"type": "text", "text": said}], "isError": failed}


def say(message: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main(sys.argv[1:])
