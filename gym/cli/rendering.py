"""A plan as the texts that a runtime would be given, of a stack that need not run."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from typing import Final, Literal

from gym.cli.stack_session import make_runtime
from gym.plan import Plan, plan_to_text
from gym.render.override_changes import override_changes
from gym.render.override_file import adapt_override
from gym.render.render_request import RenderRequest
from gym.render.routes import router_text
from gym.render.wanted_stack import discovery_of, sights_of
from gym.runtime.compose import ComposeRuntime
from gym.runtime.compose.layout import Layout, compose_text, read_overrides, state_of, static_text, wanted_in
from gym.wire.stack_names import project_name

Target = Literal["plan", "traefik", "compose", "ray", "slurm", "swarm", "kubernetes"]
Texts = Mapping[str, str]  # by path below the folder that `-o` names
ENGINE_TEXTS: Final[Mapping[str, str]] = {
    "ray": "gym.render.ray_texts:ray_texts",
    "slurm": "gym.render.slurm:slurm_texts",
    "swarm": "gym.runtime.swarm.swarm_texts:swarm_texts",
    "kubernetes": "gym.runtime.kubernetes_manifests:kubernetes_texts",
}  # module:function, which is given a RenderRequest and returns Texts


def engine_texts(target: Target, request: RenderRequest, home: Path) -> Texts:
    """Of the plan as that engine's runtime prepares it; the functions of the others prepare it themselves."""
    module, _, function = ENGINE_TEXTS[target].partition(":")
    if target == "ray" or target == "slurm":
        prepared = make_runtime(target).prepare(home, request.plan, request.secrets)
        request = request._replace(plan=prepared.plan)
    texts: Texts = getattr(import_module(module), function)(request)
    return texts


def plan_text(plan: Plan, home: Path, overrides: tuple[Path, ...]) -> str:
    """A plan as its runtime prepared it, and what `overrides`, Compose files of the user's own, change in words."""
    said = override_changes((), tuple(read_overrides(overrides)), plan, project_name(plan.stack, home.resolve()))
    return plan_to_text(plan) + "".join(f"\n{one.service}  {one.why}" for one in said) + "\n" * bool(said)


def compose_texts(
    plan: Plan, target: Target, *, secrets: Mapping[str, str], home: Path, overrides: tuple[Path, ...] = ()
) -> str:
    """The texts of a stack of containers, as `gym up --runtime compose` writes them, and `overrides` as Compose
    reads them."""
    if target == "traefik":
        return _traefik(ComposeRuntime(overrides).prepare(home, plan, secrets).plan, Layout(home.resolve()))
    return _compose(plan, secrets, home.resolve(), overrides)


def _traefik(plan: Plan, layout: Layout) -> str:
    """Both files, as two YAML documents; the second one as it is once every replica is healthy."""
    wanted = wanted_in(layout, plan)
    found = discovery_of(wanted, {one.name: sights_of(wanted, one, healthy=True) for one in wanted.services})
    return f"# static.yml\n{static_text(plan)}---\n# dynamic/stack.yml\n{router_text(wanted, found)}"


def _compose(plan: Plan, secrets: Mapping[str, str], home: Path, overrides: tuple[Path, ...]) -> str:
    """`gym up` may take another port, where this one is in use."""
    texts, project = read_overrides(overrides), project_name(plan.stack, home)
    prepared = ComposeRuntime(overrides).prepare(home, plan, secrets)
    over = (
        f"---\n# -f {path}, which Compose merges over it\n{adapt_override(text, plan, project) or text}"
        for path, text in zip(overrides, texts, strict=True)
    )
    return f"{compose_text(home, prepared.plan, state_of(home, prepared))}{''.join(over)}"
