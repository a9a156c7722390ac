"""Arithmetic whose functions do something else than their names say: the tools must be used, and their values found."""

from grading import read_truth, score
from pydantic import BaseModel
from universe import evaluate

from gym.server import ResourcesConfig, ResourcesServer, Score, VerifyRequest, tool
from gym.wire.failures import RolloutError


class CalculationsConfig(ResourcesConfig):
    strict: bool = False


class CalculationsTask(VerifyRequest):
    ground_truth: str | list[float]
    id: int | str | None = None
    depth: int | str | None = None
    breadth: int | str | None = None


class Solution(BaseModel):
    solution: float


class MathAdvancedCalculations(ResourcesServer[None]):
    reverify_mode = "stateless"
    config: CalculationsConfig

    @tool
    async def add(self, a: float, b: float) -> Solution:
        """Add two numbers."""
        return solve("add", a=a, b=b)

    @tool
    async def subtract(self, a: float, b: float) -> Solution:
        """Subtract b from a."""
        return solve("subtract", a=a, b=b)

    @tool
    async def multiply(self, a: float, b: float) -> Solution:
        """Multiply two numbers."""
        return solve("multiply", a=a, b=b)

    @tool
    async def divide(self, a: float, b: float) -> Solution:
        """Divide a by b."""
        return solve("divide", a=a, b=b)

    @tool
    async def sin(self, radians: float) -> Solution:
        """The sine of an angle in radians."""
        return solve("sin", radians=radians)

    @tool
    async def cos(self, radians: float) -> Solution:
        """The cosine of an angle in radians."""
        return solve("cos", radians=radians)

    @tool
    async def power(self, a: float, b: float) -> Solution:
        """Raise a to the power of b."""
        return solve("power", a=a, b=b)

    @tool
    async def log(self, a: float, base: float) -> Solution:
        """The logarithm of a to a base."""
        return solve("log", a=a, base=base)

    @tool
    async def pi(self) -> Solution:
        """The value of pi in this universe."""
        return solve("pi")

    @tool
    async def negate(self, a: float) -> Solution:
        """Turn the sign of a number."""
        return solve("negate", a=a)

    @tool
    async def return_constant(self, a: float) -> Solution:
        """Give a number back as it is."""
        return solve("return_constant", a=a)

    async def verify(self, rollout: CalculationsTask) -> Score:
        """1.0 when every wanted value is among those that the tools gave."""
        reward, reason = score(rollout.response.output, read_truth(rollout.ground_truth), strict=self.config.strict)
        return Score(reward=reward, reason=reason)


def solve(name: str, **arguments: float) -> Solution:
    try:
        return Solution(solution=evaluate(name, arguments))
    except (ValueError, ArithmeticError) as error:
        raise RolloutError("row", f"{name}: {error}") from None  # the model reads it, and may ask for something else


app = MathAdvancedCalculations.app()
