"""The Compose runtime: a plan becomes containers, and only what differs is touched. Every verb is safe to repeat."""

from __future__ import annotations

import difflib
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal

from gym import labels
from gym.config import search_roots
from gym.errors import InfraError, StartFailed, UserError
from gym.plan import diff
from gym.plan.model import Change, Observed, Plan, RouterPlan
from gym.render.compose import ROUTER_IMAGE, TOKEN, reach_host, rewrite_urls
from gym.runtime.base import OnStatus, ReplicaStatus, StackStatus
from gym.runtime.compose.build import build_missing, pull_missing, push_images
from gym.runtime.compose.containers import Container, observed, publisher_of, replica_id
from gym.runtime.compose.converge import Converger, containers_of
from gym.runtime.compose.engine import connect, engine_host, require_engine
from gym.runtime.compose.images import Images, plan_images
from gym.runtime.compose.layout import Layout, State, forget_secrets, write_compose, write_stack
from gym.runtime.compose.lock import Lock, check_lock, image_ids, make_lock, read_lock, write_lock
from gym.runtime.compose.logs import follow_logs, keep_logs, read_logs
from gym.runtime.compose.sealing import Sealed, named_in, seal
from gym.runtime.compose.settings import write_build_secrets
from gym.runtime.compose.teardown import GRACE_SECONDS, remove_all, remove_stack
from gym.runtime.compose.wait import Watch
from gym.runtime.local.home import one_command, prepare_home
from gym.runtime.local.listeners import listen_for_router
from gym.runtime.sandbox import remove_leftovers, with_docker
from gym.runtime.signals import deaf

if TYPE_CHECKING:
    import docker

QUIET_SECONDS: Final = 1.0
HASTE_SECONDS: Final = 2.0  # what never was up has nothing to finish


class ComposeRuntime:
    """`overrides` are Compose files of the user's own, merged over ours; `cache` keeps what builds are made from.

    `locked` is a file of `gym lock`: a stack that differs from it is refused.
    """

    name: Literal["local", "compose"] = "compose"

    def __init__(self, overrides: tuple[Path, ...] = (), cache: Path | None = None, locked: Path | None = None) -> None:
        self.locked = locked
        self.overrides = tuple(str(path.resolve()) for path in overrides)
        self.cache = cache or default_cache(os.environ)

    def observe(self, home: Path) -> Observed:
        with _client() as client:
            return observed(containers_of(client, Layout(home.resolve())))

    def foresee(self, home: Path, plan: Plan) -> tuple[Change, ...]:
        """What `up` will do to a stack that runs: also for an image or an override file that is another by now."""
        layout = Layout(home.resolve())
        with _client() as client:
            containers = containers_of(client, layout)
            if not containers:
                return ()
            state = layout.read_state().model_copy(update={"overrides": self.overrides})
            images = plan_images(plan, layout.build, self.cache).by_instance
            stale = {one.instance for one in containers if images.get(one.instance, one.image) != one.image}
            if layout.compose.is_file() and (state != layout.read_state() or self.overrides):
                to = Converger(client, engine_host(), layout, lambda _: None, 0.0)
                stale |= {one.instance for one in to.find_stale(state, containers)}
        return tuple(_replaced(one) if one.service in stale else one for one in diff(plan, observed(containers)))

    def up(
        self, home: Path, plan: Plan, secrets: Mapping[str, str], on_status: OnStatus, *, timeout: float
    ) -> StackStatus:
        engine = require_engine()
        place = prepare_home(home)
        layout = Layout(place.path)
        with one_command(place), connect(engine.host) as client:
            before = containers_of(client, layout)
            converger = Converger(client, engine.host, layout, on_status, timeout)
            with _nothing_half_started(converger, before):
                return self._up(converger, plan, secrets, before)

    def _up(self, to: Converger, plan: Plan, secrets: Mapping[str, str], before: list[Container]) -> StackStatus:
        plan = _with_free_port(to.client, reach_host(with_docker(plan))[0], to.layout.read_plan(), before)
        sealed = seal(plan, {key: rewrite_urls(value) for key, value in secrets.items() if key != labels.ENV_TOKEN})
        images, _ = self._build(to, sealed)
        state = State(
            project=to.layout.project_of(plan),
            overrides=self.overrides,
            images=images.by_instance,
            base_image=images.base,
        )
        return _go(to, sealed.plan, sealed.values | _token(plan, secrets), state)

    def build(
        self, home: Path, plan: Plan, secrets: Mapping[str, str], on_status: OnStatus, *, push: str = ""
    ) -> tuple[str, ...]:
        """Build what is missing and start nothing. What was built; with `push`, what all of it is called there."""
        engine = require_engine()
        place = prepare_home(home)
        layout = Layout(place.path)
        with one_command(place), connect(engine.host) as client:
            to = Converger(client, engine.host, layout, on_status, 0.0)
            images, built = self._build(to, seal(plan, secrets))
            tags = [images.base, *(one.tag for one in images.targets)]
            return push_images(tags, push, engine.host) if push else built

    def _build(self, to: Converger, sealed: Sealed) -> tuple[Images, tuple[str, ...]]:
        plan = sealed.plan
        images = plan_images(plan, to.layout.build, self.cache)
        if self.locked:
            check_lock(read_lock(self.locked), to.client, plan, images.by_instance, _data_roots())
        present = frozenset(image_ids(to.client))
        build_secrets = write_build_secrets(to.layout.build, os.environ)

        def tell(names: tuple[str, ...]) -> None:
            to.on_status(_building(plan, names))

        built = build_missing(
            images, present, host=to.host, folder=to.layout.build, secrets=build_secrets, on_build=tell
        )
        pull_missing(plan, ROUTER_IMAGE, present, to.host)
        return images, built

    def start(
        self,
        home: Path,
        secrets: Mapping[str, str],
        on_status: OnStatus,
        *,
        timeout: float,
        router: RouterPlan | None = None,
    ) -> StackStatus:
        """Bring up what `load_stack_file` put into `home`: nothing is built. `secrets` go by the names it asks for."""
        with self._running(home, on_status, timeout) as (to, saved):
            before = containers_of(to.client, to.layout)
            wanted_plan = saved.model_copy(update={"router": router or saved.router})
            plan = _with_free_port(to.client, wanted_plan, saved, before)
            wanted = named_in(plan.model_dump_json())
            if missing := [name for name in wanted if not secrets.get(name)]:
                raise UserError(
                    f"The stack asks for secrets that were not given: {', '.join(missing)}.", "One file each."
                )
            values = {name: secrets[name] for name in wanted} | _token(plan, secrets)
            with _nothing_half_started(to, before):
                return _go(to, plan, values, to.layout.read_state())

    def lock(self, home: Path, target: Path) -> Lock:
        """Write down what the stack in `home` is made of."""
        engine = require_engine()
        layout = Layout(home.resolve())
        plan, state = layout.read_plan(), layout.read_state()
        if plan is None or not state.images:
            raise UserError(f"There is no built stack in {home}.", "Build one first: gym up NAMES")
        with connect(engine.host) as client:
            lock = make_lock(client, engine.host, plan, state.images, _data_roots())
        write_lock(target, lock)
        return lock

    def down(self, home: Path) -> bool:
        layout = Layout(home.resolve())
        plan = layout.read_plan()
        with _client() as client:
            return _remove(client, layout, grace=GRACE_SECONDS + (plan.drain_seconds if plan else 0.0))

    def sweep(self) -> tuple[str, ...]:
        """Remove what is left of every stack of this user, wherever it was started; their homes."""
        with _client() as client:
            return remove_all(client)

    def status(self, home: Path) -> StackStatus | None:
        layout = Layout(home.resolve())
        plan = layout.read_plan()
        with _client() as client:
            containers = containers_of(client, layout)
            if not containers or plan is None:
                return None
            return _watch(client, layout, plan).status(containers, detailed=True)

    def logs(self, home: Path, names: tuple[str, ...], *, follow: bool, tail: int) -> Iterator[str]:
        layout = Layout(home.resolve())
        plan = layout.read_plan()
        with _client() as client:
            chosen = _choose(containers_of(client, layout), plan, names)
            yield from (follow_logs if follow else read_logs)(client, plan, chosen, tail)

    def restart(self, home: Path, names: tuple[str, ...], on_status: OnStatus, *, timeout: float) -> StackStatus:
        with self._running(home, on_status, timeout) as (to, plan):
            chosen = _choose(containers_of(to.client, to.layout), plan, names)
            return to.restart(_watch(to.client, to.layout, plan), chosen)

    def scale(self, home: Path, replicas: Mapping[str, int], on_status: OnStatus, *, timeout: float) -> StackStatus:
        with self._running(home, on_status, timeout) as (to, plan):
            _known_instances(plan, replicas)
            services = tuple(
                one.model_copy(update={"replicas": replicas.get(one.name, one.replicas)}) for one in plan.services
            )
            scaled = plan.model_copy(update={"services": services})
            rewritten = write_compose(to.layout, scaled)
            return to.converge(scaled, to.layout.read_state(), rewritten=rewritten)

    @contextmanager
    def _running(self, home: Path, on_status: OnStatus, timeout: float) -> Iterator[tuple[Converger, Plan]]:
        engine = require_engine()
        layout = Layout(home.resolve())
        plan = layout.read_plan()
        if plan is None:
            raise UserError(f"There is no stack in {home}.", "Start one: gym up NAMES")
        with one_command(prepare_home(home)), connect(engine.host) as client:
            yield Converger(client, engine.host, layout, on_status, timeout), plan


def _replaced(change: Change) -> Change:
    if change.action not in ("keep", "scale"):
        return change
    why = "its image or an override file changed"
    return Change(action="replace", service=change.service, why=f"{why}, {change.why}" if change.why else why)


def _go(to: Converger, plan: Plan, values: Mapping[str, str], state: State) -> StackStatus:
    earlier = to.layout.read_state()
    rewritten = write_stack(to.layout, plan, values, state) or earlier != state
    try:
        return to.converge(plan, state, rewritten=rewritten)
    except UserError:
        if earlier.images:  # what Compose refused is not what later commands should go on with
            to.layout.write_state(earlier)
        raise


@contextmanager
def _nothing_half_started(to: Converger, before: list[Container]) -> Iterator[None]:
    """What was not there before is not there after, however often Ctrl-C is pressed; its logs stay to be read."""
    try:
        yield
    except BaseException as error:
        if before:
            raise
        with deaf():
            if isinstance(error, StartFailed):
                keep_logs(to.client, to.layout.read_plan(), containers_of(to.client, to.layout), to.layout.logs)
                error.hint = f"The stack is down again; what its servers wrote is in {to.layout.logs}"
            quiet = 0.0 if isinstance(error, Exception) else QUIET_SECONDS
            _remove(to.client, to.layout, grace=HASTE_SECONDS, quiet=quiet)
        raise


def default_cache(environ: Mapping[str, str]) -> Path:
    """`GYM_CACHE_DIR`, else where this user's caches are."""
    if named := environ.get(labels.ENV_CACHE):
        return Path(named)
    return Path(environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "compose-gym"


@contextmanager
def _client() -> Iterator[docker.DockerClient]:
    require_engine()
    with connect(engine_host()) as client:
        yield client


def _watch(client: docker.DockerClient, layout: Layout, plan: Plan) -> Watch:
    return Watch(client, plan, (f"{labels.STACK_DIR}={layout.home}",), layout.read_token())


def _remove(client: docker.DockerClient, layout: Layout, *, grace: float, quiet: float = 0.0) -> bool:
    removed = remove_stack(client, str(layout.home), layout.read_state().project, grace=grace, quiet=quiet)
    remove_leftovers(layout.home)
    forget_secrets(layout)
    return removed


def _with_free_port(client: docker.DockerClient, plan: Plan, earlier: Plan | None, before: list[Container]) -> Plan:
    """A stack that runs keeps its port; one that starts gets the port it asked for, or a free one, or an error."""
    wanted = plan.router
    if before and earlier and wanted.port in (0, earlier.router.port) and wanted.host == earlier.router.host:
        return plan.model_copy(update={"router": earlier.router.model_copy(update={"needs_token": wanted.needs_token})})
    if wanted.port and (other := publisher_of(client, wanted.port)):
        folder = other.labels.get(labels.STACK_DIR, "")
        whose = f" of the stack in {folder}" if folder else ""
        raise UserError(
            f"port {wanted.port} on {wanted.host} is in use by the container {other.name}{whose}.",
            "Stop it (a stack: `gym down` where it was started), or choose another port: gym up ... --port 0",
        )
    with listen_for_router(wanted.host, wanted.port) as listener:
        port = listener.getsockname()[1]
    return plan.model_copy(update={"router": wanted.model_copy(update={"port": port})})


def _token(plan: Plan, secrets: Mapping[str, str]) -> dict[str, str]:
    if not plan.router.needs_token:
        return {}
    token = (secrets.get(labels.ENV_TOKEN) or os.environ.get(labels.ENV_TOKEN, "")).strip()
    if not token:
        raise UserError(
            f"The router would listen on {plan.router.host} without a token.",
            "Give one: `openssl rand -hex 32 > token.txt`, then `--token-file token.txt` (or set GYM_TOKEN).",
        )
    return {TOKEN: token}


def _data_roots() -> tuple[Path, ...]:
    """Paths of data sets are written from where `gym` is typed, or from the checkout that has the server."""
    return search_roots(Path.cwd(), os.environ)


def _building(plan: Plan, names: tuple[str, ...]) -> StackStatus:
    """What `up` shows while images are made: whose they are, and everybody while it is the one below them all."""
    base = "base" in names
    replicas = tuple(
        ReplicaStatus(
            instance=one.name,
            replica=replica,
            type=one.type,
            implementation=one.implementation,
            state="starting",
            detail="building the base image" if base else "building its image",
        )
        for one in plan.services
        if base or one.slug in names
        for replica in one.replica_ids()
    )
    return StackStatus(stack=plan.stack, runtime="compose", router="", replicas=replicas)


def _choose(containers: list[Container], plan: Plan | None, names: tuple[str, ...]) -> list[Container]:
    """Instances, replicas or containers by name; all of them when none is named."""
    if not containers:
        raise InfraError("None of this stack's containers is there.", "Start it: gym up NAMES")
    if not names:
        return containers
    by_name: dict[str, list[Container]] = {}
    for one in containers:
        for name in {one.instance, one.service, one.name, replica_id(one, plan)}:
            by_name.setdefault(name, []).append(one)
    _check_known(names, by_name)
    return list({one.id: one for name in names for one in by_name[name]}.values())


def _known_instances(plan: Plan, replicas: Mapping[str, int]) -> None:
    _check_known(replicas, {one.name: () for one in plan.services})


def _check_known(names: tuple[str, ...] | Mapping[str, int], known: Mapping[str, object]) -> None:
    for name in names:
        if name not in known:
            near = difflib.get_close_matches(name, known, n=3) or sorted(known)
            raise UserError(f"`{name}` is not in this stack.", f"There is {', '.join(near)}.")
