"""Who may ask: requests that name this machine, from people who know the token where one is needed."""

import hmac
import ipaddress
import os
import re
import secrets
import socket
from collections.abc import Mapping
from dataclasses import dataclass

from evokernel.errors import ConfigError

TOKEN_VARIABLE = "EVOKERNEL_SERVE_TOKEN"
_TOKEN = re.compile(r"[A-Za-z0-9_.~-]{16,200}")
_HOST = re.compile(r"(?:\[([0-9A-Fa-f:.]{2,45})\]|([A-Za-z0-9._-]{1,253}))(?::[0-9]{1,5})?")


@dataclass(frozen=True, slots=True)
class AccessPolicy:
    """The names by which this server may be addressed, and the token; an empty one is asked of nobody.

    A page of a stranger that has its own name point here (DNS rebinding) comes with that name, and is refused. An
    address of numbers cannot be pointed anywhere: beyond loopback any of them is `numbers`, and good.
    """

    names: frozenset[str]
    numbers: bool
    token: str

    def addresses_us(self, hosts: list[str]) -> bool:
        """Whether the Host headers of a request, of which there must be one, name this server."""
        found = _HOST.fullmatch(hosts[0]) if len(hosts) == 1 else None
        if found is None:
            return False
        name = (found[1] or found[2]).lower().removesuffix(".")
        try:
            address = ipaddress.ip_address(name)
        except ValueError:
            return not found[1] and name in self.names
        return self.numbers or address.is_loopback

    def admits(self, given: str | None) -> bool:
        """Whether this is the token, found out in a time that says nothing of where it differs."""
        return not self.token or hmac.compare_digest(_bytes(given or ""), _bytes(self.token))


def access_for(host: str, address: str, *, environment: Mapping[str, str] = os.environ) -> AccessPolicy:
    """Return who may ask a server that listens at an address, as which a host was resolved.

    Beyond loopback a token is needed: that of the environment, or one made at random.

    Raises:
        ConfigError: the token of the environment can be guessed, or does not fit into an address.
    """
    token = environment.get(TOKEN_VARIABLE, "")
    if token and not _TOKEN.fullmatch(token):
        raise ConfigError(
            f"{TOKEN_VARIABLE} must have 16 to 200 letters, digits or _ . ~ -; "
            'make one with: python3 -c "import secrets; print(secrets.token_urlsafe())"'
        )
    if ipaddress.ip_address(address.partition("%")[0]).is_loopback:
        return AccessPolicy(frozenset({"localhost", host.lower()}), numbers=False, token=token)
    names = frozenset({"localhost", host.lower(), socket.gethostname().lower()})
    return AccessPolicy(names, numbers=True, token=token or secrets.token_urlsafe(24))


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")
