"""The Compose runtime: a plan becomes containers, and only what differs is touched. Every verb is safe to repeat."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

from gym import labels
from gym.config.assets import search_roots
from gym.engine import connect, docker_environ, engine_host, find_engine, require_engine
from gym.errors import InfraError, NotUp, UserError
from gym.plan import diff
from gym.plan.model import Change, Observed, Plan, RouterPlan
from gym.plan.plan_diff import router_change
from gym.plan.shared_processes import running_processes
from gym.render.override_changes import check_override, named_instances, override_changes, with_stale
from gym.runtime.compose.catalog_copies import write_catalog, writing_catalog
from gym.runtime.compose.choice import check_instances, choose, choose_running
from gym.runtime.compose.compose_lock import wait_for_compose
from gym.runtime.compose.container_logs import follow_logs, read_logs
from gym.runtime.compose.containers import Container, observed, replica_id
from gym.runtime.compose.converge import Converger, containers_of
from gym.runtime.compose.free_port import with_free_port
from gym.runtime.compose.host_facts import read_host_facts
from gym.runtime.compose.layout import (
    Layout,
    State,
    forget_other_secrets,
    override_texts,
    prepare_folders,
    restore,
    state_of,
    write_compose,
    write_compose_files,
    write_first_routes,
    write_stack,
)
from gym.runtime.compose.making import data_roots, make_images
from gym.runtime.compose.prepare import SharingFacts, prepare, token_secret
from gym.runtime.compose.reload import refuse_synced, reload_synced, switched
from gym.runtime.compose.secrets import secret_names
from gym.runtime.compose.server_builds import push_images
from gym.runtime.compose.stack_lock import (
    Lock,
    make_lock,
    read_lock,
    write_lock,
)
from gym.runtime.compose.stack_removal import down, engine_alone, remove
from gym.runtime.compose.stack_status import read_status
from gym.runtime.compose.synced_sources import find_synced, forget_synced, sync_sources
from gym.runtime.compose.teardown import remove_all
from gym.runtime.compose.wait import StackHealth, retry_now
from gym.runtime.compose.work import working
from gym.runtime.gpus import check_gpus, count_engine_gpus, count_gpus
from gym.runtime.lateness import start_seconds
from gym.runtime.local.home import one_command, prepare_home
from gym.runtime.protocol import ExecCommand, Prepared
from gym.runtime.runtime_names import RuntimeName
from gym.runtime.signals import ignore_interrupts
from gym.runtime.status import OnStatus, StackStatus
from gym.venvs import cache_dir
from gym.wire.stack_names import project_name

if TYPE_CHECKING:
    import docker

QUIET_SECONDS: Final = 1.0
HASTY_SECONDS: Final = 2.0  # what never was up has nothing to finish
SHELL: Final = ("sh", "-c", "if command -v bash >/dev/null; then exec bash; else exec sh; fi")


class ComposeRuntime:
    """`overrides` are Compose files of the user's own, merged over ours; `cache` keeps what builds are made from.

    `locked` is a file of `gym lock`: a stack that differs from it is refused. `live`: servers that can do so read their
    sources from copies of their folders, which `reload` renews.
    """

    name: RuntimeName = "compose"

    def __init__(
        self,
        overrides: tuple[Path, ...] = (),
        cache: Path | None = None,
        locked: Path | None = None,
        *,
        live: bool = False,
    ) -> None:
        self.live = live
        self.locked = locked
        self.overrides = tuple(str(path.resolve()) for path in overrides)
        self.cache = cache or cache_dir(os.environ)

    def observe(self, home: Path) -> Observed:
        with engine_alone() as client:
            return observed(containers_of(client, Layout(home.resolve())))

    def prepare(self, home: Path, plan: Plan, secrets: Mapping[str, str]) -> Prepared:
        texts = dict(zip(self.overrides, override_texts(self.overrides), strict=True))
        project, layout = project_name(plan.stack, home.resolve()), Layout(home.resolve())
        apart = named_instances(texts.values(), plan, project)
        sharing = SharingFacts(apart=frozenset(apart), running=_running_processes(layout))
        facts = read_host_facts(plan, layout.build, self.cache, sharing)
        prepared = prepare(plan, {**secrets, labels.ENV_TOKEN: _given_token(secrets)}, facts)
        check_override(texts, prepared.plan, project)
        return prepared.model_copy(update={"live": find_synced(plan, facts.sources)}) if self.live else prepared

    def changes(self, home: Path, prepared: Prepared) -> tuple[Change, ...]:
        """Also for an image or an override file that changed: the latter in words, by what it was at the last `up`."""
        layout = Layout(home.resolve())
        with engine_alone() as client:
            containers = containers_of(client, layout)
            earlier, texts = layout.read_state(), override_texts(self.overrides)
            state = earlier.model_copy(update={"overrides": self.overrides, "override_texts": texts})
            images = prepared.images.by_instance if prepared.images else {}
            seats = [seat for one in containers for seat in one.seats]
            stale = {one.instance for one in seats if images.get(one.instance, one.image) != one.image}
            if containers and layout.compose.is_file() and (state != earlier or self.overrides):
                to = Converger(client, engine_host(), layout, lambda _: None, 0.0)
                stale |= {name for one in to.find_stale(state, containers) for name in one.instances}
        found = diff(prepared.plan, observed(containers))
        by_files = override_changes(earlier.override_texts, texts, prepared.plan, state.project) if containers else ()
        moved = switched(earlier.synced, prepared.live) if containers else ()
        changes = with_stale(found, stale | {one.service for one in moved}, (*moved, *by_files))
        return (*changes, *router_change(earlier.plan if containers else None, prepared.plan))

    def up(self, home: Path, prepared: Prepared, on_status: OnStatus, *, timeout: float | None) -> StackStatus:
        engine = require_engine()
        place = prepare_home(home)
        layout = Layout(place.path)
        with one_command(place), connect(engine.host) as client:
            check_gpus(prepared.plan, _engine_gpus(client, engine.host), "the container engine")
            wait_for_compose(layout.compose_lock, layout.read_state().project)
            before = containers_of(client, layout)
            converger = Converger(
                client, engine.host, layout, on_status, _start_timeout(client, prepared.plan, timeout)
            )
            retry_now(client, before)
            with _removed_unless_started(converger, before):
                plan = with_free_port(client, prepared.plan, layout.read_plan(), before)
                self._build(converger, prepared)
                return _converge(converger, plan, prepared.secrets, state_of(layout.home, prepared, self.overrides))

    def write(self, home: Path, prepared: Prepared) -> None:
        """All of a stack's folder but its images: what `docker compose up` in it starts."""
        layout = Layout(prepare_home(home).path)
        write_stack(layout, prepared.plan, prepared.secrets, state_of(layout.home, prepared, self.overrides))
        write_catalog(layout.catalog, search_roots(Path.cwd(), os.environ))
        write_first_routes(layout, prepared.plan)
        write_compose_files(layout)

    def build(self, home: Path, prepared: Prepared, on_status: OnStatus, *, push: str = "") -> tuple[str, ...]:
        """Build what is missing and start nothing. What was built; with `push`, what all of it is called there."""
        engine = require_engine()
        place = prepare_home(home)
        with one_command(place), connect(engine.host) as client:
            to = Converger(client, engine.host, Layout(place.path), on_status, 0.0)
            built = self._build(to, prepared)
        images = prepared.images
        assert images is not None
        return push_images([images.base, *(one.tag for one in images.targets)], push, engine.host) if push else built

    def _build(self, to: Converger, prepared: Prepared) -> tuple[str, ...]:
        return make_images(to, prepared, self.cache, read_lock(self.locked) if self.locked else None)

    def start(
        self,
        home: Path,
        secrets: Mapping[str, str],
        on_status: OnStatus,
        *,
        timeout: float | None,
        router: RouterPlan | None = None,
    ) -> StackStatus:
        """Bring up what `load_stack_file` put into `home`: nothing is built. `secrets` go by the names it asks for."""
        with self._running(home, on_status, timeout) as (to, saved):
            before = containers_of(to.client, to.layout)
            wanted_plan = saved.model_copy(update={"router": router or saved.router})
            plan = with_free_port(to.client, wanted_plan, saved, before)
            wanted = secret_names(plan.model_dump_json())
            if missing := [name for name in wanted if not secrets.get(name)]:
                raise UserError(
                    f"The stack asks for secrets that were not given: {', '.join(missing)}.", "One file each."
                )
            values = {name: secrets[name] for name in wanted} | token_secret(plan.router, _given_token(secrets))
            with _removed_unless_started(to, before):
                return _converge(to, plan, values, to.layout.read_state())

    def lock(self, home: Path, target: Path, on_unhashed: Callable[[str, str], None] = lambda *_: None) -> Lock:
        """Write down what the stack in `home` is made of; `on_unhashed(instance, why)`: its hashes cannot be had."""
        engine = require_engine()
        layout = Layout(home.resolve())
        plan, state = layout.read_plan(), layout.read_state()
        refuse_synced(layout, state, "a lock")
        if plan is None or not state.images:
            raise UserError(f"There is no built stack in {home}.", "Build one first: gym up NAMES")
        with connect(engine.host) as client:
            lock = make_lock(client, engine.host, plan, state.images, data_roots(), self.cache, on_unhashed)
        write_lock(target, lock)
        return lock

    def down(self, home: Path) -> bool:
        return down(home)

    def sweep(self) -> tuple[str, ...]:
        """Remove what is left of every stack of this user, wherever it was started; their homes."""
        with engine_alone() as client:
            return remove_all(client)

    def status(self, home: Path) -> StackStatus | None:
        return read_status(home)

    def exec_command(self, home: Path, name: str, words: tuple[str, ...], *, terminal: bool) -> ExecCommand:
        layout = Layout(home.resolve())
        plan = layout.read_plan()
        with engine_alone() as client:
            one = choose_running(containers_of(client, layout), plan, name)
        return exec_in_container(one.id, replica_id(one, plan), words, terminal=terminal)

    def logs(self, home: Path, names: tuple[str, ...], *, follow: bool, tail: int) -> Iterator[str]:
        layout = Layout(home.resolve())
        plan = layout.read_plan()
        with engine_alone() as client:

            def find() -> list[Container]:
                return choose(containers_of(client, layout), layout.read_plan(), names)

            read = client.api.logs
            yield from follow_logs(read, plan, find, tail) if follow else read_logs(read, plan, find(), tail)

    def restart(self, home: Path, names: tuple[str, ...], on_status: OnStatus, *, timeout: float | None) -> StackStatus:
        with self._running(home, on_status, timeout) as (to, plan):
            chosen = choose(containers_of(to.client, to.layout), plan, names)
            return to.restart(_watch(to.client, to.layout, plan), chosen)

    def reload(
        self, home: Path, prepared: Prepared, names: tuple[str, ...], on_status: OnStatus, *, timeout: float | None
    ) -> StackStatus:
        """Those that read no copy, or did not when they were started, get new images."""
        if not {*names} <= {*prepared.live} & {*Layout(home.resolve()).read_state().synced}:
            return self.up(home, prepared, on_status, timeout=timeout)
        with self._running(home, on_status, timeout) as (to, plan):
            return reload_synced(to, _watch(to.client, to.layout, plan), prepared.plan, names)

    def scale(
        self, home: Path, replicas: Mapping[str, int], on_status: OnStatus, *, timeout: float | None
    ) -> StackStatus:
        with self._running(home, on_status, timeout, sum(replicas.values())) as (to, plan):
            check_instances(plan, replicas)
            services = tuple(
                one.model_copy(update={"replicas": replicas.get(one.name, one.replicas)}) for one in plan.services
            )
            scaled = plan.model_copy(update={"services": services})
            prepare_folders(to.layout, to.layout.read_state())
            rewritten = write_compose(to.layout, scaled)
            return to.converge(scaled, to.layout.read_state(), rewritten=rewritten, asked=replicas)

    @contextmanager
    def _running(
        self, home: Path, on_status: OnStatus, timeout: float | None, more: int = 0
    ) -> Iterator[tuple[Converger, Plan]]:
        engine = require_engine()
        layout = Layout(home.resolve())
        plan = layout.read_plan()
        if plan is None:
            raise UserError(f"There is no stack in {home}.", "Start one: gym up NAMES")
        with one_command(prepare_home(home)), connect(engine.host) as client, working(layout.wanted) as work:
            wait_for_compose(layout.compose_lock, layout.read_state().project)
            seconds = _start_timeout(client, plan, timeout, more)
            yield Converger(client, engine.host, layout, on_status, seconds, work), plan


def _converge(to: Converger, plan: Plan, values: Mapping[str, str], state: State) -> StackStatus:
    earlier = to.layout.read_state()
    with nullcontext(to.work) if to.work else working(to.layout.wanted) as work:
        rewritten = write_stack(to.layout, plan, values, state) or earlier.of_plan(None) != state.of_plan(None)
        try:
            if state.synced:
                sync_sources(to.layout.synced, plan, state.synced)
            with writing_catalog(to.layout.catalog, search_roots(Path.cwd(), os.environ)):
                status = replace(to, work=work).converge(plan, state, rewritten=rewritten)
        except UserError:
            if earlier.images:
                restore(to.layout, earlier)
            raise
    forget_other_secrets(to.layout, plan, values)
    if not state.synced:
        forget_synced(to.layout.synced)
    return status


@contextmanager
def _removed_unless_started(to: Converger, before: list[Container]) -> Iterator[None]:
    """What was not there before is not there after, however often Ctrl-C is pressed. A server that is late, or ends at
    each start, stays: the others serve meanwhile, and it is routed once it is healthy."""
    try:
        yield
    except NotUp:
        raise
    except BaseException as error:
        if before:
            raise
        with ignore_interrupts():
            quiet = 0.0 if isinstance(error, Exception) else QUIET_SECONDS
            remove(to.client, to.layout, grace=HASTY_SECONDS, quiet=quiet)
        raise


def _running_processes(layout: Layout) -> dict[str, str]:
    """Nothing runs where there is no engine: a stack is rendered there, too."""
    former = layout.read_plan()
    if former is None or isinstance(engine := find_engine(compose=False), InfraError):
        return {}
    with connect(engine.host) as client:
        return running_processes(former, observed(containers_of(client, layout)))


def exec_in_container(id: str, replica: str, words: tuple[str, ...], *, terminal: bool) -> ExecCommand:
    flags = ("--interactive", *(["--tty"] if terminal else []))
    argv = ("docker", "exec", *flags, id, *(words or SHELL))
    return ExecCommand(replica=replica, argv=argv, env=docker_environ(engine_host()))


def _start_timeout(client: docker.DockerClient, plan: Plan, timeout: float | None, more: int = 0) -> float:
    """What was asked for, else by how many share the engine's cores."""
    if timeout is not None:
        return timeout
    return start_seconds(more + sum(one.replicas for one in plan.services), int(client.info()["NCPU"]))


def _engine_gpus(client: docker.DockerClient, host: str) -> int:
    return count_engine_gpus(client.info(), here=count_gpus(), local=host.startswith("unix:"))


def _watch(client: docker.DockerClient, layout: Layout, plan: Plan) -> StackHealth:
    return StackHealth(client, plan, (f"{labels.STACK_DIR}={layout.home}",), layout.read_token())


def _given_token(secrets: Mapping[str, str]) -> str:
    return secrets.get(labels.ENV_TOKEN) or os.environ.get(labels.ENV_TOKEN, "")
