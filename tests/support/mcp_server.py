"""A server written on the `mcp` package, of either major: mcp_server.py stdio | mcp_server.py http PORT."""

import sys
from importlib.metadata import version

MAJOR = int(version("mcp").partition(".")[0])
if MAJOR == 1:
    from mcp.server.fastmcp import FastMCP as Server
else:
    from mcp.server import MCPServer as Server

server = Server("numbers")


@server.tool()
def add(a: int, b: int) -> int:
    """The sum."""
    return a + b


@server.tool()
def divide(a: int, b: int) -> dict[str, float]:
    """The quotient."""
    return {"quotient": a / b}


@server.tool()
def major() -> str:
    """Of the package that the server is written on."""
    return f"mcp {MAJOR}"


def main(arguments: list[str]) -> None:
    if arguments[0] == "stdio":
        server.run()
    elif MAJOR == 1:
        server.settings.port = int(arguments[1])
        server.run(transport="streamable-http")
    else:
        server.run(transport="streamable-http", port=int(arguments[1]))


if __name__ == "__main__":
    main(sys.argv[1:])
