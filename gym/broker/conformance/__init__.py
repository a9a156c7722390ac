"""What any provider of sandboxes must show, one small behaviour at a time. `run_suite` is the way in."""

from gym.broker.conformance.harness import DirectSandbox, Harness, SandboxUnderTest, Skipped, make_factory
from gym.broker.conformance.suite import BEHAVIOURS, Behaviour, BehaviourResult, run_suite

__all__ = [
    "BEHAVIOURS",
    "Behaviour",
    "Harness",
    "BehaviourResult",
    "DirectSandbox",
    "Skipped",
    "SandboxUnderTest",
    "make_factory",
    "run_suite",
]
