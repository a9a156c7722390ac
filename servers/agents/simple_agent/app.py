"""The reference agent: ask the model, run its tool calls, verify. Its loop is `gym.server.Agent.respond`."""

from gym.server import Agent, AgentConfig


class SimpleAgent(Agent):
    config: AgentConfig


app = SimpleAgent.app()
