"""`services:` of an instance: what it may say, where `${service:…}` may stand, and every mistake with its place."""

from __future__ import annotations

import pytest

from gym.config import collect_secrets
from gym.config.model import SidecarHealth
from tests.support.config_tree import ConfigTree, instance

WHOLE = """
store:
  resources_servers:
    mcqa:
      db: ${service:redis}
      url: redis://${service:redis.host}:${service:redis.port}/0
      env: {DB: "redis://${service:redis}"}
  services:
    redis:
      build: redis
      command: sh ./redis/start.sh --port ${port} --dir ${folder}
      arguments: [--port, 7000]
      port: 6379
      health: redis-cli -p ${port} ping
      env: {REDIS_PASSWORD: "${oc.env:PASSWORD}", LOUD: true}
      volumes: ["data:/data", "./redis:/etc/redis:ro"]
      cpus: 0.5
      memory: 512m
"""


def test_everything_that_a_service_may_say(tree: ConfigTree) -> None:
    tree.server("servers/resources/mcqa")
    folder = tree.write("conf/redis/Dockerfile", "FROM scratch\n").parent
    tree.write("conf/redis/start.sh", "")
    tree.write("conf/a.yaml", WHOLE)
    tree.environ["PASSWORD"] = "hunter2hunter2"
    stack = tree.load(files=("conf/a.yaml",))
    found = instance(stack, "store")
    (redis,) = found.sidecars
    assert found.fields["db"] == "${service:redis}"
    assert found.fields["url"] == "redis://${service:redis.host}:${service:redis.port}/0"
    assert (redis.name, redis.port, redis.build) == ("redis", 6379, str(folder))
    assert redis.command == ("sh", str(folder / "start.sh"), "--port", "${port}", "--dir", "${folder}")
    assert redis.arguments == ("--port", "7000")
    assert redis.health == SidecarHealth(kind="command", command=("redis-cli", "-p", "${port}", "ping"))
    assert redis.env == {"REDIS_PASSWORD": "hunter2hunter2", "LOUD": "true"}
    assert redis.volumes == ("data:/data", f"{folder}:/etc/redis:ro")
    assert (redis.cpus, redis.memory) == (0.5, "512m")
    assert collect_secrets(stack)["store.services.redis.env.REDIS_PASSWORD"] == "hunter2hunter2"


@pytest.mark.parametrize(
    ("written", "kind", "path"),
    [("tcp", "tcp", "/"), ("http", "http", "/"), ("/ready", "http", "/ready"), ("none", "none", "/")],
)
def test_a_health_check_has_short_forms(tree: ConfigTree, written: str, kind: str, path: str) -> None:
    tree.server("servers/resources/mcqa")
    tree.write(
        "a.yaml",
        f"m: {{resources_servers: {{mcqa: {{}}}}, services: {{db: {{image: d, port: 1, health: {written}}}}}}}",
    )
    (db,) = instance(tree.load(files=("a.yaml",)), "m").sidecars
    assert (db.health.kind, db.health.path) == (kind, path)


@pytest.mark.parametrize(
    ("service", "said"),
    [
        ("{image: r}", "m.services.db: has no `port`"),
        ("{port: 1}", "has nothing to run: no `image`, no `build`, no `command`"),
        ("{image: r, build: b, port: 1}", "has both `image` and `build`"),
        ("{image: r, port: 0}", "m.services.db.port: must be a number from 1 to 65535; found `0`"),
        ("{image: r, port: 1, imag: x}", "m.services.db.imag: is not a key of a service"),
        ("{image: r, port: 1, networks: [x]}", "is not a key of a service"),
        ("{build: nowhere, port: 1}", "there is no Dockerfile in `nowhere`"),
        ("{image: r, port: 1, volumes: [data]}", "must be a list of NAME:/path or ./path:/path:ro"),
        ("{image: r, port: 1, command: 'a \"b'}", "m.services.db.command: must be a command line"),
        ("{image: r, port: 1, memory: lots}", "m.services.db.memory: must be a size"),
        ("{command: [db, --pass, hunter2], port: 1, env: {DB_PASSWORD: hunter2}}", "the secret DB_PASSWORD"),
        ("{command: 'db ${service:db}', port: 1}", "services do not reach each other"),
        ("redis:7", "m.services.db: must be a mapping; found text"),
    ],
)
def test_a_service_that_cannot_be_is_reported(tree: ConfigTree, service: str, said: str) -> None:
    tree.server("servers/resources/mcqa")
    problems = tree.problems(f"m:\n  resources_servers: {{mcqa: {{}}}}\n  services:\n    db: {service}\n")
    assert [said in problem for problem in problems] == [True]
    assert "hunter2" not in problems[0]


def test_an_unknown_key_of_an_instance_or_a_service_is_answered_with_those_it_knows(tree: ConfigTree) -> None:
    tree.server("servers/resources/mcqa")
    (instance_problem,) = tree.problems("m: {resources_servers: {mcqa: {}}, zzz: 1}")
    assert "knows: build, cpus, env, gpus, image, launch, memory, placement, python_version, ray," in instance_problem
    assert " ray, replicas, sandbox, secrets, services, share." in instance_problem
    (problem,) = tree.problems("m: {resources_servers: {mcqa: {}}, services: {db: {image: d, port: 1, zzz: 1}}}")
    assert "It knows: image, build, arguments, command, port, health, env, volumes, cpus, memory" in problem


@pytest.mark.parametrize(
    ("reference", "said"),
    [
        ("${service:redi}", "m declares no service `redi`"),
        ("${service:redis.url}", "a service has no `url`"),
    ],
)
def test_a_reference_to_no_service_is_reported(tree: ConfigTree, reference: str, said: str) -> None:
    tree.server("servers/resources/mcqa")
    text = f'm: {{resources_servers: {{mcqa: {{db: "{reference}"}}}}, services: {{redis: {{image: r, port: 1}}}}}}'
    (problem,) = tree.problems(text)
    assert said in problem


def test_no_other_instance_and_no_setting_may_name_a_service(tree: ConfigTree) -> None:
    tree.server("servers/resources/mcqa")
    first = "a: {resources_servers: {mcqa: {}}, services: {redis: {image: r, port: 1}}}"
    text = first + "\nb: {resources_servers: {mcqa: {db: '${service:redis}'}}}\n"
    (problem,) = tree.problems(text)
    assert "b declares no service `redis`" in problem
    (problem,) = tree.problems("db: ${service:redis}\nm: {resources_servers: {mcqa: {}}}\n")
    assert "stands outside of an instance" in problem


@pytest.mark.parametrize("gpus", ["two", "-1", "1.5", "true"])
def test_a_number_of_gpus_that_cannot_be_is_reported(tree: ConfigTree, gpus: str) -> None:
    tree.server("servers/resources/mcqa")
    (problem,) = tree.problems(f"m: {{resources_servers: {{mcqa: {{gpus: {gpus}}}}}}}")
    assert "m.gpus: must be a number, or `all`" in problem


def test_a_port_of_the_configuration_is_still_one(tree: ConfigTree) -> None:
    tree.server("servers/resources/mcqa")
    tree.write("a.yaml", "port: 7\nm: {resources_servers: {mcqa: {x: '${port}', services_at: ['${port}']}}}")
    assert instance(tree.load(files=("a.yaml",)), "m").fields["x"] == 7
