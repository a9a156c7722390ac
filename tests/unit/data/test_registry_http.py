"""One request to a registry: what is sent on to where it redirects, and what a failure says. Real sockets."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from gym.data.registries.registry_http import NotSuccess, open_reply, read_up_to
from gym.data.registries.rest import RegistryRefused, Rest
from gym.data.registries.transfer import Remote, Retries, fetch_file
from gym.errors import InfraError, UserError
from tests.support.ranged import Faults, Handler, serving


class Redirecting(Handler):
    """Sends /old on to /new of the same host; /busy asks to wait."""

    def do_GET(self) -> None:
        self.body()
        path = self.path.partition("?")[0]
        if path == "/old":
            self.send(302, b"", {"Location": "/new"})
        elif path == "/busy":
            self.send(503, b"x" * 100_000, {"Retry-After": "7"})
        elif path == "/cut":
            self.send(200, b"", {"Content-Length": "10"})
            self.wfile.write(b"half")
            self.close_connection = True
        else:
            self.send_json({"method": self.command, "encoding": self.headers["Accept-Encoding"]})

    do_POST = do_PUT = do_DELETE = do_GET


@pytest.fixture
def faults() -> Faults:
    return Faults()


@pytest.fixture
def url(faults: Faults) -> Iterator[str]:
    with serving(type("Server", (Redirecting,), {"faults": faults})) as port:
        yield f"http://127.0.0.1:{port}"


def test_a_token_is_not_sent_on_within_the_same_host_either(url: str, faults: Faults) -> None:
    assert Rest(url, "t0ken").ask("GET", "/old") == {"method": "GET", "encoding": "identity"}
    assert [(one.path, one.authorized) for one in faults.seen] == [("/old", True), ("/new", False)]


@pytest.mark.parametrize("method", ["PUT", "DELETE"])
def test_an_upload_or_a_removal_is_not_sent_on(url: str, faults: Faults, tmp_path: Path, method: str) -> None:
    """It would arrive as a GET, and its success would be taken for that of the change."""
    source = tmp_path / "rows"
    source.write_bytes(b"rows")
    rest = Rest(url, "")
    arguments = (f"{url}/old", source) if method == "PUT" else (f"{url}/old",)
    with pytest.raises(RegistryRefused) as caught:
        getattr(rest, method.lower())(*arguments)
    assert caught.value.status == 302
    assert [one.path for one in faults.seen] == ["/old"]


def test_a_refusal_has_its_status_the_wait_and_the_first_of_its_body(url: str) -> None:
    with pytest.raises(NotSuccess) as caught, open_reply("GET", f"{url}/busy", {}):
        pytest.fail("503 is not a success")
    assert (caught.value.status, caught.value.retry_after, len(caught.value.body)) == (503, "7", 1 << 16)


def test_a_body_is_read_up_to_a_size(url: str) -> None:
    with open_reply("GET", f"{url}/new", {}) as reply:
        assert read_up_to(reply, 5) == b'{"met'


def test_a_connection_that_ends_while_the_body_is_read_is_a_connection_error(url: str, tmp_path: Path) -> None:
    with pytest.raises(ConnectionError), open_reply("GET", f"{url}/cut", {}) as reply:
        read_up_to(reply, 100)
    remote = Remote(f"{url}/cut", "the file", lambda status: UserError(str(status)))
    with pytest.raises(InfraError, match="could not be fetched") as caught:
        fetch_file(remote, tmp_path / "file", Retries(waits=()))
    assert "4 bytes are here" in caught.value.hint


def test_an_address_that_cannot_be_one_is_refused_in_one_sentence() -> None:
    with pytest.raises(InfraError, match="cannot be reached"):
        Rest("http://127.0.0.1:port", "").ask("GET", "/x")


def test_a_proxy_that_needs_one_package_more_is_an_error_that_names_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ALL_PROXY", "socks5://127.0.0.1:1")
    with pytest.raises(InfraError, match="SOCKS"):
        Rest("http://registry.example.org", "").ask("GET", "/x")


def test_a_command_that_asks_no_registry_does_not_load_httpx() -> None:
    script = "import sys, gym.data.registries.mlflow; raise SystemExit('httpx' in sys.modules)"
    subprocess.run([sys.executable, "-c", script], check=True)
