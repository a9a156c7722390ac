"""A plan as the texts that a runtime would be given, of a stack that need not run."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from typing import Final, Literal

from gym.plan import Plan, plan_to_text
from gym.render.override_changes import check_override, override_changes
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


def engine_texts(target: str, request: RenderRequest) -> Texts:
    module, _, function = ENGINE_TEXTS[target].partition(":")
    texts: Texts = getattr(import_module(module), function)(request)
    return texts


def render_plan(
    plan: Plan, target: Target, *, secrets: Mapping[str, str], home: Path, overrides: tuple[Path, ...] = ()
) -> str:
    """The texts of a stack of containers, as `gym up --runtime compose` writes them. `overrides` are of the user's own:
    what they say in words, or as Compose reads them."""
    if target == "traefik":
        return _traefik(ComposeRuntime(overrides).prepare(home, plan, secrets).plan, Layout(home.resolve()))
    if target == "compose":
        return _compose(plan, secrets, home.resolve(), overrides)
    return f"{plan_to_text(plan)}{_in_words(plan, home.resolve(), overrides)}"


def _in_words(plan: Plan, home: Path, overrides: tuple[Path, ...]) -> str:
    texts = dict(zip(map(str, overrides), read_overrides(overrides), strict=True))
    project = project_name(plan.stack, home)
    check_override(texts, plan, project)
    said = override_changes((), tuple(texts.values()), plan, project)
    return "".join(f"\n{one.service}  {one.why}" for one in said) + "\n" * bool(said)


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
