"""What any provider of sandboxes must show, one small behaviour at a time. `run_suite` is the way in."""

from gym.broker.conformance.harness import Lab, ProviderBox, Skipped, Subject, make_factory
from gym.broker.conformance.suite import BEHAVIOURS, Behaviour, Outcome, run_suite

__all__ = [
    "BEHAVIOURS",
    "Behaviour",
    "Lab",
    "Outcome",
    "ProviderBox",
    "Skipped",
    "Subject",
    "make_factory",
    "run_suite",
]
