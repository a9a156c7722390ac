"""From a plan to a job that serves, and back to none: what the commands of the Slurm runtime do on the login node."""

from __future__ import annotations

import os
import secrets as random_secrets
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from gym import labels
from gym.errors import InfraError, NotUp, UserError
from gym.files import write_atomically
from gym.plan.model import Plan
from gym.render.slurm import STACK_SCRIPT, stack_script
from gym.render.slurm_placement import NodeRequest, node_request, place
from gym.render.slurm_settings import read_slurm_settings
from gym.runtime.local.home import Home, one_command, prepare_home
from gym.runtime.local.pid_file import remove_published
from gym.runtime.local.process_logs import begin_logs
from gym.runtime.local.sandbox_provider import SandboxFacts, choose_provider
from gym.runtime.local.sidecar_folders import check_sidecars, forget_folders
from gym.runtime.local.stack_order import StackOrder
from gym.runtime.local.starting import check_startable, is_text
from gym.runtime.protocol import Prepared
from gym.runtime.results_folder import folder_of
from gym.runtime.sandbox_access import keep_tokens, write_config
from gym.runtime.sandbox_leftovers import TOKENS, config_path
from gym.runtime.signals import end_as_by_ctrl_c, ignore_interrupts
from gym.runtime.slurm.job_waits import wait_settled
from gym.runtime.slurm.shared_folder import TOKEN, JobNote, SharedFolder, WantedJob
from gym.runtime.slurm.slurm_programs import JobFacts, cancel, job_facts, submit
from gym.runtime.status import OnStatus, StackStatus
from gym.runtime.upstream_folders import forget_upstreams, prepare_upstreams

EVERYWHERE: Final = "0.0.0.0"  # noqa: S104 (callers are on other nodes; a token is asked for)
LOOK_EVERY: Final = 0.3
UNWIND_SECONDS: Final = 15.0


def prepare_job(home: Path, plan: Plan, secrets: Mapping[str, str], *, bubblewrap: bool) -> Prepared:
    """A router that listens for other nodes, behind the token that was given, that is kept, or that is made now."""
    settings = read_slurm_settings(plan.settings)
    node_request(plan, settings, place(plan, settings.nodes))
    given = secrets.get(labels.ENV_TOKEN, "").strip()
    token = given or _kept_token(home) or random_secrets.token_hex(32)
    router = plan.router.model_copy(update={"host": EVERYWHERE, "needs_token": True})
    wide = plan.model_copy(update={"router": router})
    notices: tuple[str, ...] = ()
    if plan.sandbox is not None:
        facts = SandboxFacts(engine_error="a job's nodes have no engine of yours.", bubblewrap=bubblewrap)
        provider, notice = choose_provider(plan.sandbox, facts)
        wide = wide.model_copy(update={"sandbox": plan.sandbox.model_copy(update={"provider": provider})})
        notices = (notice,)
    if not given:
        where = os.path.relpath(home / TOKEN)
        notices += (f"callers send the token of {where}: --token-file {where}, or export GYM_TOKEN=$(cat {where})",)
    return Prepared(plan=wide, secrets={**secrets, labels.ENV_TOKEN: token}, notices=notices)


def start_job(home: Path, prepared: Prepared, on_status: OnStatus, *, timeout: float | None) -> StackStatus:
    plan = prepared.plan
    check_startable(plan)
    check_sidecars(plan)
    place_ = prepare_home(home)
    shared = SharedFolder(place_.path)
    shared.prepare()
    with one_command(place_), end_as_by_ctrl_c():
        job = shared.job()
        if job is not None and job_facts(job.id).alive:
            prepare_upstreams(place_.path, plan)
            return change_job(shared, job, _wanted(place_, prepared, shared.wanted()), on_status, timeout)
        _begin(place_, shared, plan)
        wanted = _wanted(place_, prepared, None)
        try:
            note = _submit(place_, shared, wanted)
            return wait_settled(shared, note, wanted, on_status, timeout)
        except NotUp:  # the others serve meanwhile, and the nodes go on with those that are late
            raise
        except BaseException:
            with ignore_interrupts():
                end_job(place_, shared)
            raise


def change_job(
    shared: SharedFolder, job: JobNote, wanted: WantedJob, on_status: OnStatus, timeout: float | None
) -> StackStatus:
    """Of a job that is there: its size stays what it is."""
    plan = wanted.order.plan
    asked = node_request(plan, read_slurm_settings(plan.settings), wanted.placement)
    if not job.asked.holds(asked):
        raise UserError(
            f"this takes {asked.words()}, and job {job.id} has {job.asked.words()}.",
            "A job cannot grow: gym down, then gym up with the new numbers (room for more: slurm.cpus=8).",
        )
    shared.write_wanted(wanted)
    return wait_settled(shared, job, wanted, on_status, timeout)


def end_job(home: Home, shared: SharedFolder) -> bool:
    """Its servers drain, its agents end, and with them the job; what is still there then is cancelled."""
    job, wanted = shared.job(), shared.wanted()
    facts = job_facts(job.id) if job else None
    alive = facts is not None and facts.alive
    if facts is not None and alive:
        _end_alive(shared, facts, wanted)
    remove_published(home)
    shared.clear()
    for path in (home.path / TOKENS, config_path(home.path), home.path / TOKEN):
        path.unlink(missing_ok=True)
    forget_upstreams(home.path)
    forget_folders(home)
    return alive


def _end_alive(shared: SharedFolder, facts: JobFacts, wanted: WantedJob | None) -> None:
    if wanted is not None:
        shared.write_wanted(wanted.model_copy(update={"ending": True, "generation": wanted.generation + 1}))
    drain = wanted.order.plan.drain_seconds if wanted else 0.0
    if facts.waits or not _ends_within(facts.id, drain + UNWIND_SECONDS):
        cancel(facts.id)
        if not _ends_within(facts.id, drain + 4 * UNWIND_SECONDS):
            raise InfraError(
                f"job {facts.id} was cancelled, and Slurm has not ended it yet.", f"squeue --jobs {facts.id}"
            )


def _ends_within(job: str, seconds: float) -> bool:
    deadline = time.monotonic() + seconds
    while job_facts(job).alive:
        if time.monotonic() >= deadline:
            return False
        time.sleep(LOOK_EVERY)
    return True


def _begin(home: Home, shared: SharedFolder, plan: Plan) -> None:
    shared.clear()
    remove_published(home)
    begin_logs(home)
    forget_upstreams(home.path)
    forget_folders(home)
    prepare_upstreams(home.path, plan)


def _wanted(home: Home, prepared: Prepared, former: WantedJob | None) -> WantedJob:
    plan = prepared.plan
    tokens = keep_tokens(home.path, plan.sandbox) if plan.sandbox else None
    if tokens is not None:
        write_config(home.path, plan, tokens, mode=0o600)
    write_atomically(home.path / TOKEN, prepared.secrets[labels.ENV_TOKEN] + "\n", mode=0o600)
    environ = {key: value for key, value in os.environ.items() if is_text(key + value)}
    order = StackOrder(plan=plan, secrets=prepared.secrets, environ=environ, tokens=tokens)
    nodes = read_slurm_settings(plan.settings).nodes
    if former is None:
        return WantedJob(order=order, placement=place(plan, nodes))
    return former.model_copy(
        update={
            "order": order,
            "placement": place(plan, nodes, former.placement),
            "generation": former.generation + 1,
            "not_awaited": (),
        }
    )


def _submit(home: Home, shared: SharedFolder, wanted: WantedJob) -> JobNote:
    plan = wanted.order.plan
    settings = read_slurm_settings(plan.settings)
    asked: NodeRequest = node_request(plan, settings, wanted.placement)
    shared.write_wanted(wanted)
    script = shared.path / STACK_SCRIPT
    write_atomically(script, stack_script(plan.stack, settings, asked, sys.executable), mode=0o600)
    note = JobNote(id=submit(script, folder_of(home.path)), asked=asked)
    shared.write_job(note)
    return note


def _kept_token(home: Path) -> str:
    try:
        return (home / TOKEN).read_text("utf-8").strip()
    except OSError:
        return ""
