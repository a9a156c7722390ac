"""ARC puzzles: the output grid that follows from a few pairs of grids, given as JSON; right when every cell is."""

from typing import Any

from grids import read_grid
from pydantic import Field

from gym.server import ResourcesConfig, ResourcesServer, VerifyRequest
from gym.server.config import Settings


class ArcAgiConfig(ResourcesConfig):
    strict: bool = False


class ArcAgiTask(VerifyRequest):
    train: list[dict[str, Any]] = Field(default_factory=list)
    test_input: list[list[int]] = Field(default_factory=list)
    expected_output: list[list[int]] = Field(min_length=1)
    task_id: str | None = None


class ArcAgi(ResourcesServer[None]):
    reverify_mode = "stateless"
    config: ArcAgiConfig

    def __init__(self, config: ArcAgiConfig, settings: Settings) -> None:
        super().__init__(config, settings)
        self.strict = config.strict

    async def verify(self, rollout: ArcAgiTask) -> dict[str, Any]:
        """1.0 for the very grid."""
        grid = read_grid(rollout.joined_text, strict=self.strict)
        right = grid == rollout.expected_output
        fields = {"reward": float(right), "predicted_output": grid, "extraction_successful": grid is not None}
        if right:
            return fields
        return {**fields, "reason": "the answer holds no grid" if grid is None else "the grid is another one"}


app = ArcAgi.app()
