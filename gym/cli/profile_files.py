"""`--profile observability`: writes what stands in compose/observability beside a stack, filled in for its runtime."""

from __future__ import annotations

from pathlib import Path

from gym.cli import console
from gym.files import asset_dir, write_atomically
from gym.plan import Plan
from gym.render.observability import (
    COMPOSE_FILE,
    FOLDER,
    GRAFANA_URL,
    PIECES,
    PROMETHEUS_URL,
    Addresses,
    addresses_here,
    addresses_in_containers,
    observability_files,
    with_trace_store,
)

__all__ = ["compose_file", "show_addresses", "with_trace_store", "write_for_containers", "write_for_programs"]


def compose_file(home: Path) -> Path:
    """What is merged over the stack's own file."""
    return home / FOLDER / COMPOSE_FILE


def write_for_containers(home: Path, plan: Plan) -> None:
    _write(home, plan, addresses_in_containers(plan))


def write_for_programs(home: Path, plan: Plan, router: str) -> None:
    """Of a local stack that is up: which programs are there is the user's business, so the commands are shown."""
    folder = home / FOLDER
    _write(home, plan, addresses_here(router, str(folder)))
    console.note(
        f"prometheus --config.file={folder / 'prometheus.yml'} --storage.tsdb.path={folder / 'data'}", style=""
    )
    provisioning = f"cfg:default.paths.provisioning={folder / 'provisioning'}"
    console.note(f"grafana server --homepath /usr/share/grafana {provisioning}", style="")


def show_addresses() -> None:
    console.note(f"grafana {GRAFANA_URL}, prometheus {PROMETHEUS_URL}, spans go to the store `traces`", style="")


def _write(home: Path, plan: Plan, where: Addresses) -> None:
    pieces = asset_dir("compose") / FOLDER
    texts = {name: (pieces / name).read_text("utf-8") for name in PIECES}
    for name, text in observability_files(plan, texts, where).items():
        path = home / FOLDER / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.parent.chmod(0o755)  # read by the users of other containers; the home itself is its owner's alone
        write_atomically(path, text, mode=0o644)
