"""The local runtime with real processes: what it starts answers, and nothing it started is ever left behind."""

from __future__ import annotations

import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest

from gym import labels
from gym.errors import NotUp, UserError
from gym.plan.model import Plan, RouterPlan
from gym.runtime.local import LocalRuntime
from gym.wire.discovery import Discovery
from tests.support.router import eventually
from tests.support.stacks import (
    TIMEOUT,
    all_gone,
    answers,
    call,
    files_below,
    identity_of,
    kill_owners,
    make_service,
    make_stack,
    pids,
    recorded,
    replica,
    start,
    until,
)


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Home of one stack for the tests that only say which servers it has: supervisor, console and router stay."""
    path = tmp_path_factory.mktemp("shared") / ".gym" / "test"
    yield path
    LocalRuntime().down(path)


def read_discovery(home: Path) -> Discovery:
    return Discovery.model_validate_json((home / "discovery.json").read_bytes())


def test_up_returns_when_every_server_answers_at_its_own_address_and_by_the_router(
    shared: Path, tmp_path: Path
) -> None:
    status = start(shared, make_stack(make_service(tmp_path, "ours"), make_service(tmp_path, "theirs", script=True)))

    assert status.healthy
    assert call(replica(status, "ours-1").url)["replica"] == "ours-1"
    assert call(f"{status.router}/s/ours")["cwd"] == str(tmp_path / "servers" / "ours")
    assert call(f"{status.router}/s/theirs", "/x")["pid"] == replica(status, "theirs-1").pid
    discovery = read_discovery(shared)
    assert discovery.router == status.router
    assert [one.healthy for view in discovery.instances.values() for one in view.replicas] == [True, True]
    assert LocalRuntime().status(shared) is not None


def test_down_leaves_no_process_and_no_discovery_and_may_be_repeated(home: Path, tmp_path: Path) -> None:
    start(home, make_stack(make_service(tmp_path, "one"), make_service(tmp_path, "two", script=True)))
    running = recorded(home)

    assert LocalRuntime().down(home)
    assert len(running) == 5
    assert all_gone(running)
    assert not (home / "discovery.json").exists()
    assert LocalRuntime().status(home) is None
    assert not LocalRuntime().down(home)


def test_a_foreign_server_gets_the_addresses_of_the_others(shared: Path, tmp_path: Path) -> None:
    asking = make_service(tmp_path, "asking", script=True, needs=("one", "many"))
    plan = make_stack(make_service(tmp_path, "one"), make_service(tmp_path, "many", replicas=2), asking)
    status = start(shared, plan)

    config = call(replica(status, "asking-1").url, "/config")["config"]
    one = config["one"]["resources_servers"]["test"]
    assert f"http://{one['host']}:{one['port']}" == replica(status, "one-1").url
    many = config["many"]["resources_servers"]["test"]
    assert call(f"http://{many['host']}:{many['port']}")["replica"] in ("many-1", "many-2")


def test_the_same_plan_again_starts_nothing_and_a_changed_server_is_the_only_one_replaced(
    shared: Path, tmp_path: Path
) -> None:
    same = make_service(tmp_path, "same")
    before = start(shared, make_stack(same, make_service(tmp_path, "other", color="red")))
    again = start(shared, make_stack(same, make_service(tmp_path, "other", color="red")))
    after = start(shared, make_stack(same, make_service(tmp_path, "other", color="blue")))

    assert pids(again) == pids(before)
    assert replica(after, "same-1").pid == replica(before, "same-1").pid
    assert replica(after, "router").pid == replica(before, "router").pid
    assert replica(after, "other-1").pid != replica(before, "other-1").pid
    assert call(replica(before, "other-1").url)["fields"]["color"] == "blue"


def test_a_server_that_is_no_longer_in_the_plan_ends_and_a_new_one_starts(shared: Path, tmp_path: Path) -> None:
    old = replica(start(shared, make_stack(make_service(tmp_path, "old"))), "old-1")
    leaving = identity_of(old.pid)
    status = start(shared, make_stack(make_service(tmp_path, "new")))

    assert [one.replica for one in status.replicas] == ["new-1", "console", "router"]
    assert all_gone([leaving])
    assert list(read_discovery(shared).instances) == ["new"]


def test_scale_adds_and_drops_replicas_and_touches_no_other(shared: Path, tmp_path: Path) -> None:
    before = start(shared, make_stack(make_service(tmp_path, "some")))
    more = LocalRuntime().scale(shared, {"some": 3}, lambda status: None, timeout=TIMEOUT)
    third = identity_of(replica(more, "some-3").pid)
    less = LocalRuntime().scale(shared, {"some": 2}, lambda status: None, timeout=TIMEOUT)

    assert more.healthy
    assert len(more.replicas) == 5
    assert pids(less) == {name: pid for name, pid in pids(more).items() if name != "some-3"}
    assert replica(less, "some-1").pid == replica(before, "some-1").pid
    assert all_gone([third])
    assert [one.id for one in read_discovery(shared).instances["some"].replicas] == ["some-1", "some-2"]


def test_restart_under_load_loses_no_request(shared: Path, tmp_path: Path) -> None:
    status = start(shared, make_stack(make_service(tmp_path, "busy")))
    before, url = replica(status, "busy-1").pid, replica(status, "busy-1").url
    seen: set[int] = set()
    errors: list[str] = []
    over = threading.Event()

    def ask_on() -> None:
        while not over.is_set():
            try:
                seen.add(call(url, "/slow")["pid"])
            except (OSError, ValueError) as error:
                errors.append(repr(error))

    callers = [threading.Thread(target=ask_on) for _ in range(8)]
    for caller in callers:
        caller.start()
    until(lambda: before in seen)
    after = replica(LocalRuntime().restart(shared, ("busy",), lambda status: None, timeout=TIMEOUT), "busy-1").pid
    until(lambda: after in seen)
    over.set()
    for caller in callers:
        caller.join()

    assert errors == []
    assert seen == {before, after}


def test_a_killed_replica_comes_back_at_the_same_address(shared: Path, tmp_path: Path) -> None:
    plan = make_stack(make_service(tmp_path, "one"), make_service(tmp_path, "two", script=True))
    before = start(shared, plan)
    for name in ("one-1", "two-1"):
        pid = replica(before, name).pid
        assert pid is not None
        os.kill(pid, signal.SIGKILL)

    def is_back() -> bool:
        now = LocalRuntime().status(shared)
        return now is not None and now.healthy and all(replica(now, name).restarts for name in ("one-1", "two-1"))

    until(is_back)
    assert call(replica(before, "one-1").url)["pid"] != replica(before, "one-1").pid
    assert call(replica(before, "two-1").url, "/x")["pid"] != replica(before, "two-1").pid
    assert "ended by SIGKILL" in (shared / "logs" / "supervisor.log").read_text()


def test_what_a_server_started_ends_with_it(shared: Path, tmp_path: Path) -> None:
    status = start(shared, make_stack(make_service(tmp_path, "parent", child=True)))
    child = identity_of(call(replica(status, "parent-1").url)["child"])
    parent = replica(status, "parent-1").pid
    assert parent is not None
    os.kill(parent, signal.SIGKILL)

    until(lambda: all_gone([child]))


def test_down_ends_what_a_killed_supervisor_and_its_warden_left(home: Path, tmp_path: Path) -> None:
    start(home, make_stack(make_service(tmp_path, "stubborn", stubborn=True)))
    running = recorded(home)
    kill_owners(home)

    assert LocalRuntime().down(home)
    assert all_gone(running)
    assert LocalRuntime().status(home) is None


def test_a_stubborn_server_is_killed_once_its_drain_time_is_over(home: Path, tmp_path: Path) -> None:
    start(home, make_stack(make_service(tmp_path, "stubborn", stubborn=True), drain_seconds=0.2))
    running = recorded(home)

    assert LocalRuntime().down(home)
    assert all_gone(running)


COMMAND = """
import signal, sys
from pathlib import Path
signal.signal(signal.SIGTERM, signal.SIG_DFL)  # what measures coverage has a handler of its own
from gym.plan.model import Plan, RouterPlan
from gym.runtime.local import LocalRuntime
plan = Plan.model_validate_json(Path(sys.argv[2]).read_bytes())
runtime = LocalRuntime()
runtime.up(Path(sys.argv[1]), runtime.prepare(Path(sys.argv[1]), plan, {}), lambda status: None, timeout=60)
"""


def command_up(home: Path, plan: Plan, tmp_path: Path) -> subprocess.Popen[bytes]:
    """`up` as a process of its own, for a plan that never becomes healthy."""
    (tmp_path / "plan.json").write_text(plan.model_dump_json())
    argv = [sys.executable, "-c", COMMAND, str(home), str(tmp_path / "plan.json")]
    return subprocess.Popen(argv, stderr=subprocess.DEVNULL)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_up_takes_down_what_it_started(home: Path, tmp_path: Path, number: signal.Signals) -> None:
    with command_up(home, make_stack(make_service(tmp_path, "unhealthy", unhealthy=True)), tmp_path) as process:
        until(lambda: len(recorded(home)) == 4)
        running = recorded(home)
        process.send_signal(number)
        until(lambda: process.poll() is not None)

    until(lambda: all_gone(running))
    assert LocalRuntime().status(home) is None


def test_a_killed_up_leaves_a_stack_that_down_ends(home: Path, tmp_path: Path) -> None:
    with command_up(home, make_stack(make_service(tmp_path, "unhealthy", unhealthy=True)), tmp_path) as process:
        until(lambda: len(recorded(home)) == 4)
        process.kill()
    running = recorded(home)

    assert LocalRuntime().down(home)
    assert all_gone(running)


def test_two_commands_never_work_on_one_stack_at_once_but_down_always_may(home: Path, tmp_path: Path) -> None:
    plan = make_stack(make_service(tmp_path, "unhealthy", unhealthy=True))
    with command_up(home, plan, tmp_path) as process:
        until(lambda: len(recorded(home)) == 4)
        with pytest.raises(UserError, match=f"another gym command \\(pid {process.pid}\\)"):
            start(home, plan)
        assert LocalRuntime().down(home)
        until(lambda: process.poll() is not None)
        assert process.returncode == 1


def test_a_server_that_ends_at_its_start_is_reported_at_once_with_its_last_words_and_the_others_stay_up(
    home: Path, tmp_path: Path
) -> None:
    fine = make_service(tmp_path, "fine")
    with pytest.raises(NotUp) as failure:  # long before the deadline
        start(home, make_stack(fine, make_service(tmp_path, "broken", crash=True)), timeout=3600)

    assert failure.value.server == "broken-1"
    assert re.match(r"broken-1: ended ([3-9]|\d\d) times while it started \(exit code 3\)", failure.value.what)
    assert failure.value.log == "the last words of a crash"
    assert "gym logs broken-1 --stack test" in failure.value.hint
    now = LocalRuntime().status(home)
    assert now is not None
    assert replica(now, "broken-1").state in ("restarting", "starting")
    until(lambda: answers(f"{now.router}/s/fine", "fine-1"))
    fixed = start(home, make_stack(fine, make_service(tmp_path, "broken")))
    assert fixed.healthy
    assert replica(fixed, "fine-1").pid == replica(now, "fine-1").pid


def test_all_that_end_at_each_start_are_named_and_a_scale_of_another_one_does_not_wait_for_them(
    home: Path, tmp_path: Path
) -> None:
    broken = [make_service(tmp_path, name, crash=True) for name in ("broken", "worse")]
    with pytest.raises(NotUp) as failure:
        start(home, make_stack(make_service(tmp_path, "fine"), *broken), timeout=3600)
    assert {"broken-1", "worse-1"} <= {*re.findall(r"^([a-z]+-1): ended", str(failure.value), re.MULTILINE)}
    assert failure.value.log.endswith("its last lines:\nthe last words of a crash")
    scaled = LocalRuntime().scale(home, {"fine": 2}, lambda status: None, timeout=TIMEOUT)
    assert replica(scaled, "fine-2").state == "healthy"
    with pytest.raises(NotUp, match="broken-1: ended"):
        LocalRuntime().scale(home, {"broken": 2}, lambda status: None, timeout=TIMEOUT)


def test_a_server_that_is_late_is_named_the_others_stay_up_and_it_is_routed_once_it_is_healthy(
    shared: Path, tmp_path: Path
) -> None:
    (tmp_path / "slow").touch()
    late = make_service(tmp_path, "late", unhealthy_while=str(tmp_path / "slow"))
    fine = make_service(tmp_path, "fine")
    start(shared, make_stack(fine))  # first, and so a few seconds for the other are enough on any machine
    with pytest.raises(NotUp) as failure:
        start(shared, make_stack(fine, late), timeout=5)

    assert "late-1: not healthy after 5 s (status 503 on /healthz); its last line:" in failure.value.what
    assert "--timeout" in failure.value.hint
    now = LocalRuntime().status(shared)
    assert now is not None
    assert replica(now, "late-1").state == "starting"
    until(lambda: answers(f"{now.router}/s/fine", "fine-1"))
    (tmp_path / "slow").unlink()
    until(lambda: answers(f"{now.router}/s/late", "late-1"))


def test_a_failed_change_leaves_the_rest_of_a_running_stack_alone(shared: Path, tmp_path: Path) -> None:
    fine = make_service(tmp_path, "fine")
    before = start(shared, make_stack(fine, make_service(tmp_path, "other")))
    with pytest.raises(NotUp, match=r"other-1: ended ([3-9]|\d\d) times while it started"):
        start(shared, make_stack(fine, make_service(tmp_path, "other", crash=True)))
    now = LocalRuntime().status(shared)

    assert replica(now, "fine-1").pid == replica(before, "fine-1").pid
    assert replica(now, "other-1").state in ("restarting", "starting")
    assert start(shared, make_stack(fine, make_service(tmp_path, "other"))).healthy


def test_a_port_in_use_is_reported_with_its_holder_and_nothing_is_started(home: Path, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as held:
        port = held.getsockname()[1]
        with pytest.raises(
            UserError, match=rf"port {port} on 127.0.0.1 is in use: held by pid {os.getpid()} \("
        ) as said:
            start(home, make_stack(make_service(tmp_path, "one"), port=port))

    assert "--port" in said.value.hint
    assert recorded(home) == []


def test_a_port_held_by_another_stack_is_reported_with_its_folder(shared: Path, tmp_path: Path) -> None:
    first = start(shared, make_stack(make_service(tmp_path, "one")))
    port = int(first.router.rpartition(":")[2])
    with pytest.raises(UserError, match=rf"port {port} on 127.0.0.1 is in use") as said:
        start(tmp_path / "other", make_stack(make_service(tmp_path, "one"), port=port))

    if sys.platform == "linux":
        assert f"(the stack in {shared})" in said.value.what


def port_beside_the_kernels_choice() -> int:
    """A free port that no process is given by chance meanwhile: below those that kernels hand out."""
    for port in range(15000 + os.getpid() % 10000, 30000):
        try:
            socket.create_server(("127.0.0.1", port)).close()
        except OSError:
            continue
        return port
    raise AssertionError("no port is free")


def test_the_router_moves_to_another_port_and_the_servers_stay(shared: Path, tmp_path: Path) -> None:
    service = make_service(tmp_path, "one")
    before = start(shared, make_stack(service))
    port = port_beside_the_kernels_choice()
    after = start(shared, make_stack(service, port=port))

    assert after.router == f"http://127.0.0.1:{port}"
    assert call(f"{after.router}/s/one")["pid"] == replica(before, "one-1").pid


def test_a_folder_that_cannot_be_made_is_the_users_to_fix(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match="the stack's state cannot be written to"):
        start(tmp_path / "file" / "home", make_stack(make_service(tmp_path, "one")))


def test_a_stack_whose_folder_is_removed_ends(home: Path, tmp_path: Path) -> None:
    start(home, make_stack(make_service(tmp_path, "one")))
    running = recorded(home)
    shutil.rmtree(home)

    until(lambda: all_gone(running))


def test_a_configuration_too_long_for_the_environment_arrives_and_lies_on_no_disk(shared: Path, tmp_path: Path) -> None:
    secret = "canary-" * 20_000
    status = start(shared, make_stack(make_service(tmp_path, "one", api_key=secret)))

    assert call(replica(status, "one-1").url)["fields"]["api_key"] == secret
    texts = files_below(shared)
    assert len(texts) > 8
    assert not [path for path, text in texts.items() if b"canary" in text]


def test_secrets_are_in_no_file_and_on_no_command_line(shared: Path, tmp_path: Path) -> None:
    service = make_service(tmp_path, "one", api_key="canary-4711-4711")
    status = start(
        shared, make_stack(service, hf_token="canary-0815-0815"), secrets={"one.api_key": "canary-4711-4711"}
    )

    assert call(replica(status, "one-1").url)["fields"]["api_key"] == "canary-4711-4711"
    files = [path for path, text in files_below(shared).items() if b"canary" in text]
    lines = (
        [Path(f"/proc/{one.pid}/cmdline").read_bytes() for one in recorded(shared)] if Path("/proc").is_dir() else []
    )
    assert files == []
    assert not any(b"canary" in line for line in lines)


def test_logs_are_merged_followed_across_a_restart_and_end_with_the_stack(home: Path, tmp_path: Path) -> None:
    plan = make_stack(make_service(tmp_path, "one"), make_service(tmp_path, "two", script=True))
    url = replica(start(home, plan), "one-1").url
    call(url, "/say?early")
    lines: list[str] = []
    following = LocalRuntime().logs(home, ("one", "two"), follow=True, tail=10)
    reader = threading.Thread(target=lambda: lines.extend(following))
    reader.start()
    until(lambda: "one-1 | early" in lines)
    LocalRuntime().restart(home, ("one",), lambda status: None, timeout=TIMEOUT)
    call(url, "/say?late")
    until(lambda: "one-1 | late" in lines)
    LocalRuntime().down(home)
    reader.join(timeout=TIMEOUT)

    assert not reader.is_alive()
    assert [line for line in lines if line.startswith("two-1 | --- two-1 starts: pid ")]


def test_logs_of_one_replica_have_no_prefix_and_an_unknown_name_gets_the_nearest(shared: Path, tmp_path: Path) -> None:
    start(shared, make_stack(make_service(tmp_path, "weather", replicas=2)))

    def lines() -> list[str]:
        return list(LocalRuntime().logs(shared, ("weather-2",), follow=False, tail=2))

    eventually(lambda: lines()[-1].endswith(" weather is ready"), what="the line")
    assert lines()[0].startswith("--- weather-2 starts: pid ")
    with pytest.raises(UserError, match="no server of this stack is called `wether`") as unknown:
        list(islice(LocalRuntime().logs(shared, ("wether",), follow=False, tail=1), 1))
    assert "weather" in unknown.value.hint


def test_restart_and_scale_name_what_they_do_not_know_and_a_stack_that_does_not_run(home: Path, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="does not run"):
        LocalRuntime().restart(home, (), lambda status: None, timeout=5)
    start(home, make_stack(make_service(tmp_path, "weather")))
    with pytest.raises(UserError, match="no server of this stack is called `wether`"):
        LocalRuntime().restart(home, ("wether",), lambda status: None, timeout=5)
    with pytest.raises(UserError, match="no server of this stack is called `mcqa`"):
        LocalRuntime().scale(home, {"mcqa": 2}, lambda status: None, timeout=5)


def test_a_router_open_to_other_machines_asks_for_the_token(home: Path, tmp_path: Path) -> None:
    plan = make_stack(make_service(tmp_path, "one"))
    plan = plan.model_copy(update={"router": RouterPlan(host="0.0.0.0", port=0, needs_token=True)})
    with pytest.raises(UserError, match="no token protects it"):
        start(home, plan)
    status = start(home, plan, secrets={labels.ENV_TOKEN: "canary-t0ken"})
    asked = f"{status.router}/s/one/"

    with pytest.raises(HTTPError, match="401"):
        urlopen(asked, timeout=60)
    with urlopen(Request(asked, headers={"authorization": "Bearer canary-t0ken"}), timeout=60) as answer:
        assert answer.status == 200
    assert not [path for path, text in files_below(home).items() if b"canary" in text]


def test_a_new_token_holds_at_once_and_the_one_before_no_more(home: Path, tmp_path: Path) -> None:
    plan = make_stack(make_service(tmp_path, "one"))
    start(home, plan)  # on loopback, without a token
    plan = plan.model_copy(update={"router": RouterPlan(host="0.0.0.0", port=0, needs_token=True)})
    for token in ("first-t0ken", "second-t0ken"):
        status = start(home, plan, secrets={labels.ENV_TOKEN: token})
        with urlopen(
            Request(f"{status.router}/s/one/", headers={"authorization": f"Bearer {token}"}), timeout=60
        ) as answer:
            assert answer.status == 200
    with pytest.raises(HTTPError, match="401"):
        urlopen(Request(f"{status.router}/s/one/", headers={"authorization": "Bearer first-t0ken"}), timeout=60)


def test_a_server_the_local_runtime_cannot_run_is_refused_before_anything_starts(home: Path, tmp_path: Path) -> None:
    image = make_service(tmp_path, "one").model_copy(update={"directory": None, "launch": "image"})
    empty = make_service(tmp_path, "two").model_copy(update={"entrypoint": "main.py"})
    with pytest.raises(UserError, match="the local runtime runs folders"):
        start(home, make_stack(image))
    with pytest.raises(UserError, match=r"two: no main\.py in "):
        start(home, make_stack(empty))

    assert not home.exists()


def test_a_server_with_requirements_of_its_own_runs_in_an_environment_of_its_own(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(labels.ENV_CACHE, str(tmp_path / "cache"))
    theirs = make_service(tmp_path, "theirs", script=True)
    assert theirs.directory is not None
    (theirs.directory / "requirements.txt").write_text("# nothing but an environment of its own\n")
    seen: list[str] = []
    runtime = LocalRuntime()
    status = runtime.up(
        home,
        runtime.prepare(home, make_stack(theirs.model_copy(update={"requirements_digest": "its own"})), {}),
        lambda status: seen.extend(one.detail for one in status.replicas),
        timeout=TIMEOUT,
    )

    assert call(replica(status, "theirs-1").url, "/x")["prefix"].startswith(str(tmp_path / "cache" / "envs"))
    assert "making its environment" in seen


def test_two_stacks_live_side_by_side(shared: Path, tmp_path: Path) -> None:
    other = tmp_path / ".gym" / "other"
    first = start(shared, make_stack(make_service(tmp_path, "one")))
    start(other, make_stack(make_service(tmp_path, "one")))
    running = recorded(other)

    assert LocalRuntime().down(other)
    assert all_gone(running)
    assert call(f"{first.router}/s/one")["pid"] == replica(first, "one-1").pid
