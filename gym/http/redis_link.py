"""How Redis or Valkey is reached: an address without its password, a client that sends nothing twice, errors in words.

The package `redis` is imported by who opens a link, and by no one else.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from gym.errors import InfraError, UserError
from gym.labels import REDACTED

if TYPE_CHECKING:
    from redis.asyncio import Redis

SCHEMES = ("redis", "rediss", "unix")
ANSWER_SECONDS = 10.0


class RedisGone(InfraError):
    """It cannot be reached, or did not answer: what was asked may have been done or not."""


class RedisRefused(InfraError):
    """It answered, and will not do it: a wrong password, a right that is missing, no memory left."""


def show_address(url: str) -> str:
    """The address as a log or a person may see it."""
    scheme, _, rest = url.partition("://")
    place, _, query = rest.partition("?")
    place = f"{REDACTED}@{place.rpartition('@')[2]}" if "@" in place else place
    shown = f"?{REDACTED if '@' in query or 'password' in query else query}" if query else ""
    return f"{scheme}://{place}{shown}"


def check_address(url: str, what: str) -> str:
    """The address as the client takes it; `what` is the option or the key that holds it."""
    if url.startswith(("valkey://", "valkeys://")):
        url = "redis" + url.removeprefix("valkey")
    hint = "write redis://HOST:6379, rediss://HOST:6379 for TLS, or unix:///run/redis.sock"
    try:
        parts = urlsplit(url)
        there = bool(parts.path if parts.scheme == "unix" else parts.hostname) and (parts.port or True)
    except ValueError:
        there, parts = False, urlsplit("")
    if not there or parts.scheme not in SCHEMES:
        raise UserError(f"{what} is {show_address(url)!r}, which is not an address of a Redis", hint)
    if "password" in parts.query:  # nothing would know it for a secret there
        raise UserError(f"{what}: the password of {show_address(url)} is behind the `?`", f"{hint}, with :PASSWORD@")
    database = parts.path.strip("/")
    if parts.scheme != "unix" and database and not database.isdecimal():
        raise UserError(f"{what}: {database!r} in {show_address(url)} is not a number of a database", hint)
    return url


def open_link(url: str, what: str) -> Redis:
    """Nothing is sent twice by itself: what was done before an answer was lost would be done again."""
    url = check_address(url, what)
    try:
        from redis.asyncio import Redis
        from redis.asyncio.retry import Retry
        from redis.backoff import NoBackoff
    except ImportError:
        hint = "pip install 'compose-gym[redis]'"
        raise UserError(f"{what} needs the package `redis`, which is not installed here", hint) from None
    client: Redis = Redis.from_url(
        url,
        socket_timeout=ANSWER_SECONDS,
        socket_connect_timeout=ANSWER_SECONDS,
        retry=Retry(NoBackoff(), 0),
    )
    return client


@contextmanager
def reaching(url: str) -> Iterator[None]:
    """Errors of the package become ours."""
    from redis.exceptions import AuthenticationError, AuthorizationError, RedisError, ResponseError
    from redis.exceptions import ConnectionError as LinkError
    from redis.exceptions import TimeoutError as LateError

    place = show_address(url)
    try:
        yield
    except (AuthenticationError, AuthorizationError) as error:
        hint = "give it as redis://:PASSWORD@HOST:6379, or redis://USER:PASSWORD@HOST:6379"
        raise RedisRefused(f"{place} does not take this user or password: {_brief(error)}", hint) from None
    except (LinkError, LateError, OSError) as error:
        if "CERTIFICATE_VERIFY_FAILED" in str(error):
            hint = "name what it was signed with: rediss://HOST:6379?ssl_ca_certs=FILE"
            raise RedisRefused(f"{place} has a certificate that is not known here: {_brief(error)}", hint) from None
        raise RedisGone(f"{place} does not answer: {_brief(error)}", "is it running, and is this its port?") from None
    except ResponseError as error:
        raise _refusal(place, str(error)) from None
    except RedisError as error:
        raise RedisGone(f"{place} does not answer: {_brief(error)}") from None


def _refusal(place: str, text: str) -> InfraError:
    if text.startswith(("NOAUTH", "WRONGPASS")):
        return RedisRefused(f"{place} wants a password", "give it as redis://:PASSWORD@HOST:6379")
    if text.startswith(("LOADING", "MASTERDOWN", "CLUSTERDOWN", "BUSY ", "READONLY")):
        return RedisGone(f"{place} is not ready: {text[:200]}")
    if text.startswith("OOM"):
        return RedisRefused(f"{place} has no memory left: {text[:200]}", "raise its `maxmemory`")
    return RedisRefused(f"{place} refused: {text[:300]}")


def _brief(error: BaseException) -> str:
    return (str(error) or type(error).__name__)[:200]
