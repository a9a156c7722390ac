"""A server written on the `mcp` package, of either major: mcp_server.py stdio | mcp_server.py http PORT."""

import importlib
import sys
from importlib.metadata import version
from typing import Any

MAJOR = int(version("mcp").partition(".")[0])


def add(a: int, b: int) -> int:
    """The sum."""
    return a + b


def divide(a: int, b: int) -> dict[str, float]:
    """The quotient."""
    return {"quotient": a / b}


def major() -> str:
    """Of the package that the server is written on."""
    return f"mcp {MAJOR}"


def main(arguments: list[str]) -> None:
    server = make_server()
    for one in (add, divide, major):
        server.add_tool(one)
    if arguments[0] == "stdio":
        server.run()
    elif MAJOR == 1:
        server.settings.port = int(arguments[1])
        server.run(transport="streamable-http")
    else:
        server.run(transport="streamable-http", port=int(arguments[1]))


def make_server() -> Any:
    if MAJOR == 1:
        return importlib.import_module("mcp.server.fastmcp").FastMCP("numbers")
    return importlib.import_module("mcp.server").MCPServer("numbers")


if __name__ == "__main__":
    main(sys.argv[1:])
