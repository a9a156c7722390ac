"""The folder for a cluster: what belongs together does, nothing is open without need, no secret is shown."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
import yaml

from gym.config.model import ContainerFacts, SidecarSpec
from gym.errors import UserError
from gym.plan.model import Sidecar
from gym.render.kubernetes.cluster_facts import cluster_wanted, host_of, namespace_of
from gym.render.routes import router_text
from gym.wire.discovery import Discovery
from tests.support.cluster_plans import SECRET, Tree, cluster_folder, cluster_plan, manifests_in, of_kind
from tests.support.compose_plans import service

PLAN = cluster_plan()
FOLDER = cluster_folder(PLAN)
ALL = manifests_in(FOLDER)
SETS = of_kind(ALL, "StatefulSet", "Deployment")
POLICIES = {
    (one["metadata"]["namespace"], one["metadata"]["name"]): one for one in ALL if one["kind"] == "NetworkPolicy"
}
BOUND = SidecarSpec(name="db", port=1, image="a", volumes=("./x:/x",))
LABEL = re.compile(r"([A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?")


def pods() -> list[tuple[str, Tree]]:
    made = [one for one in ALL if one["kind"] in ("StatefulSet", "Deployment", "Job")]
    return [(one["metadata"]["name"], one["spec"]["template"]) for one in made]


def test_the_value_of_a_secret_is_in_its_own_file_and_nowhere_else() -> None:
    assert {path.rpartition("/")[0] for path, text in FOLDER.items() if SECRET in text} == {"base/secrets"}
    assert FOLDER["base/.gitignore"] == "secrets/\n"


def test_every_file_is_named_and_every_named_file_is_there() -> None:
    found = yaml.safe_load(FOLDER["base/kustomization.yaml"])
    named = [*found["resources"]]
    for one in (*found["configMapGenerator"], *found["secretGenerator"]):
        named += [file.rpartition("=")[2] for file in one["files"]]
    written = {path.removeprefix("base/") for path in FOLDER if path.startswith("base/")}
    assert sorted(named) == sorted(written - {"kustomization.yaml", ".gitignore"})


def test_whatever_a_pod_mounts_is_made() -> None:
    found = yaml.safe_load(FOLDER["base/kustomization.yaml"])
    made = {one["name"] for one in (*found["configMapGenerator"], *found["secretGenerator"])}
    made |= set(of_kind(ALL, "PersistentVolumeClaim"))
    claims = {one["metadata"]["name"] for each in SETS.values() for one in each["spec"].get("volumeClaimTemplates", ())}
    for name, pod in pods():
        volumes = {one["name"]: one for one in pod["spec"]["volumes"]}
        for mount in pod["spec"]["containers"][0]["volumeMounts"]:
            assert mount["name"] in volumes or mount["name"] in claims, f"{name} mounts {mount['name']}"
        for one in volumes.values():
            source = one.get("configMap", {}).get("name") or one.get("secret", {}).get("secretName")
            source = source or one.get("persistentVolumeClaim", {}).get("claimName")
            assert source is None or source in made, f"{name} mounts {source}"


def test_every_pod_is_confined() -> None:
    for name, pod in pods():
        spec, (container,) = pod["spec"], pod["spec"]["containers"]
        assert spec["securityContext"]["runAsNonRoot"] is True, name
        assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}, name
        assert container["securityContext"]["capabilities"] == {"drop": ["ALL"]}, name
        assert container["securityContext"]["allowPrivilegeEscalation"] is False, name
        assert {"requests", "limits"} <= set(container["resources"]), name
        assert spec["automountServiceAccountToken"] is (name == "sandbox"), name
        assert not {"hostNetwork", "hostPID", "hostIPC"} & set(spec), name


def test_the_broker_may_make_pods_speak_to_them_and_delete_them_in_one_namespace() -> None:
    role = of_kind(ALL, "Role")["sandbox"]
    assert role["metadata"]["namespace"] == "gym-demo-sandboxes"
    assert [(one["resources"], sorted(one["verbs"])) for one in role["rules"]] == [
        (["pods"], ["create", "delete", "get", "list", "watch"]),
        (["pods/attach"], ["create", "get"]),
    ]
    assert not of_kind(ALL, "ClusterRole", "ClusterRoleBinding")


def test_selectors_find_their_own_pods_alone() -> None:
    for name, one in SETS.items():
        wanted = one["spec"]["selector"]["matchLabels"].items()
        found = [other for other, pod in pods() if wanted <= pod["metadata"]["labels"].items()]
        assert found == [name]
        assert all(LABEL.fullmatch(value) for value in one["spec"]["template"]["metadata"]["labels"].values()), name


def test_replicas_are_known_by_the_names_of_their_pods() -> None:
    found = Discovery.model_validate_json(FOLDER["base/discovery.json"])
    for one in PLAN.services:
        name = host_of(one.slug)
        made = SETS[name]["spec"]
        first = made["ordinals"]["start"]
        hosts = [f"{name}-{number}.{made['serviceName']}" for number in range(first, first + made["replicas"])]
        views = found.instances[one.name].replicas
        assert [view.url for view in views] == [f"http://{host}:8000" for host in hosts]
        assert [view.id for view in views] == list(one.replica_ids())
        assert of_kind(ALL, "Service")[name]["spec"]["clusterIP"] == "None"
    assert FOLDER["base/router/stack.yml"] == router_text(cluster_wanted(PLAN), found)


def test_a_name_that_begins_with_a_digit_is_not_a_name_of_a_service() -> None:
    assert all(name[0].isalpha() for name in of_kind(ALL, "Service"))
    assert json.loads(FOLDER["base/settings/s-7b-store.json"])["policy_model"]["responses_api_models"]
    assert namespace_of("Big Stack!") == "gym-big-stack"
    assert namespace_of("…") == "gym"


def peers(rules: list[Tree], key: str) -> set[str]:
    found = [peer for rule in rules for peer in rule.get(key, ())]
    names = [one.get("podSelector", {}).get("matchLabels", {}).get("app.kubernetes.io/name") for one in found]
    return {name for name in names if name}


@pytest.mark.parametrize(
    ("name", "callers", "called"),
    [
        ("mcqa", {"router", "console", "agent"}, {"router"}),
        ("agent", {"router", "console", "collector"}, {"mcqa", "policy-model", "router"}),
        ("s-7b-store", {"router", "console"}, {"policy-model", "s-7b-store-redis", "sandbox", "router"}),
        ("s-7b-store-redis", {"s-7b-store"}, set()),
        ("calendar", {"router", "console"}, {"router"}),
        ("console", {"router"}, {host_of(one.slug) for one in PLAN.services}),
        ("sandbox", {"s-7b-store"}, set()),
        ("collector", set(), {"router", "agent"}),
    ],
)
def test_who_may_talk_to_whom_is_what_the_plan_needs(name: str, callers: set[str], called: set[str]) -> None:
    spec = POLICIES["gym-demo", name]["spec"]
    assert (peers(spec["ingress"], "from"), peers(spec["egress"], "to")) == (callers, called)


def test_what_no_policy_allows_is_refused() -> None:
    for namespace in ("gym-demo", "gym-demo-sandboxes"):
        closed = POLICIES[namespace, "deny-all"]["spec"]
        assert closed == {"podSelector": {}, "policyTypes": ["Ingress", "Egress"]}
    assert {name for space, name in POLICIES if space == "gym-demo-sandboxes"} == {"deny-all", "sandboxes-internet"}
    assert {} in POLICIES["gym-demo", "policy-model"]["spec"]["egress"]  # a model's provider may be anywhere
    assert all({} not in one["spec"].get("egress", []) for (_, name), one in POLICIES.items() if name != "policy-model")


def test_only_who_is_let_in_reaches_the_routers_outside_port() -> None:
    rules = POLICIES["gym-demo", "router"]["spec"]["ingress"]
    (outside,) = [one for one in rules if one["ports"][0]["port"] == 11001]
    assert {"podSelector": {}} not in outside["from"]
    assert {"namespaceSelector": {"matchLabels": {"gym/may-enter": "true"}}} in outside["from"]


def test_a_pod_has_the_time_to_finish_what_it_has() -> None:
    for one in PLAN.services:
        spec = SETS[host_of(one.slug)]["spec"]["template"]["spec"]
        waits = spec["containers"][0].get("lifecycle", {}).get("preStop", {}).get("exec", {}).get("command", ["", "0"])
        assert spec["terminationGracePeriodSeconds"] > PLAN.drain_seconds + int(waits[1])


def test_sizes_and_gpus_are_in_the_clusters_words() -> None:
    found = SETS["mcqa"]["spec"]["template"]["spec"]["containers"][0]["resources"]
    assert found["limits"] == {"cpu": "1500m", "memory": "512Mi", "nvidia.com/gpu": "1"}
    assert found["requests"] == {"cpu": "1500m", "memory": "512Mi"}


def test_a_dollar_sign_stays_one() -> None:
    sidecar = SETS["s-7b-store-redis"]["spec"]["template"]["spec"]["containers"][0]
    assert sidecar["env"] == [{"name": "A", "value": "$$HOME"}]


def test_a_shard_is_an_index_of_a_job() -> None:
    job = of_kind(ALL, "Job")["collect"]["spec"]
    line = job["template"]["spec"]["containers"][0]["command"][-1]
    assert (job["completionMode"], job["completions"], job["parallelism"]) == ("Indexed", 4, 4)
    assert "shard=$((JOB_COMPLETION_INDEX + 1))" in line
    assert "--shard $shard/4" in line
    assert "-o /results/part-$shard.jsonl" in line


def test_a_changed_secret_is_another_pod_and_the_name_of_the_secret_stays() -> None:
    assert SETS["policy-model"]["spec"]["template"]["metadata"]["labels"]["gym.secrets"] == "01234567"
    assert "gym.secrets" not in SETS["mcqa"]["spec"]["template"]["metadata"]["labels"]
    generated = yaml.safe_load(FOLDER["base/kustomization.yaml"])["secretGenerator"]
    assert [(one["name"], one["options"]) for one in generated] == [("gym-secrets", {"disableNameSuffixHash": True})]


def test_a_stack_without_sandboxes_has_neither_broker_nor_a_second_namespace() -> None:
    found = manifests_in(cluster_folder(cluster_plan(services=(service("mcqa"),), sidecars=(), sandbox=None)))
    assert [one["metadata"]["name"] for one in found if one["kind"] == "Namespace"] == ["gym-demo"]
    assert not of_kind(found, "Role", "ServiceAccount")


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"services": (service("mcqa", container=ContainerFacts(gpus="all")),), "sidecars": ()}, "mcqa.gpus=1"),
        ({"sidecars": (Sidecar(instance="mcqa", instance_slug="mcqa", slug="db", spec=BOUND),)}, "a place of this"),
    ],
)
def test_what_no_cluster_has_is_refused(changes: dict[str, Any], words: str) -> None:
    with pytest.raises(UserError, match=words):
        cluster_folder(cluster_plan(**changes))
