"""Collection as jobs: one index of the first is one shard, the second joins them. Pure."""

from __future__ import annotations

from typing import Final

from gym.plan.model import Plan
from gym.render.kubernetes.cluster_facts import OUTSIDE_PORT, TOKEN, KubernetesFacts
from gym.render.kubernetes.manifest_parts import (
    Tree,
    confined,
    mounted,
    named,
    pod_metadata,
    pod_spec,
    resources,
    secret_volume,
)
from gym.render.kubernetes.policies import COLLECTOR
from gym.wire.stack_names import ROUTER

RESULTS: Final = "rollouts"
MOUNT: Final = "/results"
ROWS: Final = "/app/rows.jsonl"
STORAGE: Final = "50Gi"
TRIES: Final = 10  # of one shard; each goes on where the one before ended
SHARD: Final = (
    "shard=$((JOB_COMPLETION_INDEX + 1)); "
    f"exec gym rollouts {ROWS} -o {MOUNT}/part-$shard.jsonl --shard $shard/{{shards}} "
    f"--url http://{ROUTER}:{OUTSIDE_PORT} --token-file /run/secrets/{TOKEN} --through-router"
)
MERGE: Final = f"exec gym merge {MOUNT}/all.jsonl {MOUNT}/part-*.jsonl"


def collector_image(facts: KubernetesFacts) -> str:
    """Beside the base in its registry: the same SDK with the command line, and the rows."""
    return facts.base_image.replace("gym-base:", "gym-collector:")


def collector_dockerfile(facts: KubernetesFacts) -> str:
    return (
        f"# docker build -t {collector_image(facts)} . && docker push {collector_image(facts)}\n"
        f"FROM {facts.base_image}\n"
        "USER root\n"
        'RUN uv pip install --no-cache "compose-gym[cli]"\n'
        f"COPY rows.jsonl {ROWS}\n"
        "USER gym\n"
    )


def claim_manifest(plan: Plan, facts: KubernetesFacts) -> Tree:
    """Shards on several nodes write to it, each a file of its own."""
    found = named("PersistentVolumeClaim", RESULTS, plan, facts.namespace, COLLECTOR)
    found["spec"] = {"accessModes": ["ReadWriteMany"], "resources": {"requests": {"storage": STORAGE}}}
    return found


def collect_job(plan: Plan, facts: KubernetesFacts) -> Tree:
    found = _job(plan, facts, "collect", SHARD.format(shards=facts.shards))
    found["spec"] |= {
        "completionMode": "Indexed",
        "completions": facts.shards,
        "parallelism": facts.shards,
        "backoffLimitPerIndex": TRIES,
        "maxFailedIndexes": facts.shards,
        "podFailurePolicy": {  # a node that is emptied costs no try
            "rules": [{"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]}]
        },
    }
    return found


def merge_job(plan: Plan, facts: KubernetesFacts) -> Tree:
    found = _job(plan, facts, "merge", MERGE)
    found["spec"]["backoffLimit"] = 2
    return found


def _job(plan: Plan, facts: KubernetesFacts, name: str, line: str) -> Tree:
    container: Tree = {
        "name": COLLECTOR,
        "image": collector_image(facts),
        "command": ["sh", "-c", line],
        "resources": resources(1, "2g"),
        "securityContext": confined(),
        "volumeMounts": [
            mounted("tmp", "/tmp", writable=True),
            mounted(RESULTS, MOUNT, writable=True),
            mounted("secrets", "/run/secrets"),
        ],
    }
    claim = {"name": RESULTS, "persistentVolumeClaim": {"claimName": RESULTS}}
    pod = pod_spec(container, grace=60, volumes=[claim, secret_volume((TOKEN,))]) | {"restartPolicy": "Never"}
    found = named("Job", name, plan, facts.namespace, COLLECTOR, "batch/v1")
    template = {"metadata": pod_metadata(plan, COLLECTOR, COLLECTOR, {}), "spec": pod}
    found["spec"] = {"template": template, "ttlSecondsAfterFinished": 86400}
    return found
