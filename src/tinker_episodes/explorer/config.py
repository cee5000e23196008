"""The settings of `tinker-episodes explore`, checked."""

from __future__ import annotations

import ipaddress
import secrets
import socket

import chz

from tinker_episodes.errors import ConfigError
from tinker_episodes.guard import LOOPBACK_NAMES, Names

DEFAULT_PORT = 8765
_TOKEN_BYTES = 24


@chz.chz
class Explore:
    """Show what runs did, as a web page on this machine, while they train."""

    path: str = "."
    """A folder that holds `episodes.db` or runs, a run's log path, a database file, or a database
    URL."""
    index: str | None = None
    """Where the index is, as in `path`, if it is not there."""
    host: str = "127.0.0.1"
    """The address to listen on. Any but this machine's own needs a token, and gets one."""
    port: int | None = None
    """The port to listen on; default: 8765, or a free one where that is taken."""
    token: str | None = None
    """What a browser must present; made anew at each start where it is needed and not given."""


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach an address."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def token_of(config: Explore) -> str | None:
    """The token that requests must carry; None where none is needed.

    Raises:
        ConfigError: a token that a header or a URL can't carry, or that can be guessed.
    """
    if config.token is None:
        return None if is_loopback(config.host) else secrets.token_urlsafe(_TOKEN_BYTES)
    if len(config.token) < 16 or not config.token.replace("-", "").replace("_", "").isalnum():
        raise ConfigError("token: 16 or more letters, digits, - and _ would be right")
    if not config.token.isascii():
        raise ConfigError("token: 16 or more letters, digits, - and _ would be right")
    return config.token


def names_of(config: Explore) -> Names:
    """What the server is called.

    The port is free, since people reach training machines through tunnels.
    """
    if is_loopback(config.host):
        return Names(any_port=True)
    return Names(
        (*LOOPBACK_NAMES, config.host, socket.gethostname()), any_address=True, any_port=True
    )
