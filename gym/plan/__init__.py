"""Stack -> Plan: names, order, replicas, digests; what differs from what runs. Pure."""

from typing import TYPE_CHECKING

from gym.lazy import on_first_use

if TYPE_CHECKING:
    from gym.plan.make import is_loopback, make_plan
    from gym.plan.model import (
        Change,
        Observed,
        ObservedService,
        Plan,
        RouterPlan,
        SandboxPlan,
        Service,
        Sidecar,
    )
    from gym.plan.plan_diff import diff
    from gym.plan.plan_text import changes_to_text, plan_to_text
    from gym.plan.slugs import assign_slugs, path_segment, slugify
    from gym.plan.visible_settings import settings_for
    from gym.wire.stack_names import SANDBOX

__all__ = [
    "SANDBOX",
    "Change",
    "Observed",
    "ObservedService",
    "Plan",
    "RouterPlan",
    "SandboxPlan",
    "Service",
    "Sidecar",
    "assign_slugs",
    "changes_to_text",
    "diff",
    "is_loopback",
    "make_plan",
    "path_segment",
    "plan_to_text",
    "settings_for",
    "slugify",
]

__getattr__ = on_first_use(__name__)
