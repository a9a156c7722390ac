"""What `tools: auto` stands for in rows that the console collects: it knows the stack, and asks the replicas itself."""

from __future__ import annotations

import os
from collections.abc import Collection

from gym.collect.row_tools import TOOLS_SECONDS, RowTools, read_tools
from gym.collect.stack_settings import StackSettings
from gym.console.discovery_sources import DiscoverySources
from gym.console.views import settings_view
from gym.http.pool import HttpClient, Reply
from gym.server.peer_token import peer_headers


async def own_tools(agents: Collection[str], sources: DiscoverySources, http: HttpClient) -> RowTools:
    found = await sources.discovery()

    async def ask(server: str) -> Reply | None:
        """Any replica knows; the next one is asked where one cannot be reached."""
        instance = found.instances.get(server)
        for replica in sorted(instance.replicas if instance else (), key=lambda one: not one.healthy):
            try:
                url, greeting = f"{replica.url}/tools", peer_headers(os.environ)
                return await http.request("GET", url, headers=greeting, timeout=TOOLS_SECONDS)
            except (OSError, TimeoutError):
                continue
        return None

    return await read_tools(agents, StackSettings(settings_view(sources.config())["instances"]), ask, logs=True)
