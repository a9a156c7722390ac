"""ARC puzzles: the output grid that follows from a few pairs of grids, given as JSON; right when every cell is."""

from typing import Any

from grids import read_grid
from pydantic import Field

from gym.server import ResourcesConfig, ResourcesServer, Score, VerifyRequest


class ArcAgiConfig(ResourcesConfig):
    strict: bool = False


class ArcAgiTask(VerifyRequest):
    train: list[dict[str, Any]] = Field(default_factory=list)
    test_input: list[list[int]] = Field(default_factory=list)
    expected_output: list[list[int]] = Field(min_length=1)
    task_id: str | None = None


class ArcAgiScore(Score):
    predicted_output: list[list[Any]] | None
    extraction_successful: bool


class ArcAgi(ResourcesServer[None]):
    reverify_mode = "stateless"
    config: ArcAgiConfig

    async def verify(self, rollout: ArcAgiTask) -> ArcAgiScore:
        """1.0 for the very grid."""
        grid = read_grid(rollout.joined_text, strict=self.config.strict)
        right = grid == rollout.expected_output
        reason = "" if right else "the answer holds no grid" if grid is None else "the grid is another one"
        found = grid is not None
        return ArcAgiScore(reward=float(right), predicted_output=grid, extraction_successful=found, reason=reason)


app = ArcAgi.app()
