"""What `gym up` asks of the supervisor of a stack. A command that only asks loads nothing of how it is done."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field

from gym import labels
from gym.plan.model import Plan
from gym.runtime.sandbox_access import BrokerTokens


class StackOrder(BaseModel):
    """What an `up` hands to the supervisor: all it needs to know, values of secrets included."""

    model_config = ConfigDict(frozen=True)

    plan: Plan
    secrets: dict[str, str] = Field(default_factory=dict, repr=False)
    pythons: dict[str, str] = Field(default_factory=dict)  # instance -> the interpreter of its environment
    environ: dict[str, str] = Field(default_factory=dict, repr=False)
    traefik: str = "traefik"
    tokens: BrokerTokens | None = Field(default=None, repr=False)  # of the sandbox broker, where there is one

    @property
    def token(self) -> str:
        """What callers from outside have to send; empty where none is asked for."""
        if not self.plan.router.needs_token:
            return ""
        return (self.secrets.get(labels.ENV_TOKEN) or self.environ.get(labels.ENV_TOKEN, "")).strip()
