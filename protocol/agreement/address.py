"""Addresses of the form tcp://host:port.

They are terms of an agreement, and members announce them. Nothing here opens a socket or looks
up a name.
"""

import re
from ipaddress import AddressValueError, IPv4Address, IPv6Address

from protocol.agreement.schema import ADDRESS
from protocol.errors import BadAgreement

LAST_PORT = 65_535

_ADDRESS = re.compile(
    r"(tcp://)([^\s:/;@]{1,255}|\[[0-9a-fA-F:.]{2,45}\]):([0-9]{1,5}|\*)", re.ASCII
)
_HOST = re.compile(r"[A-Za-z0-9_]([A-Za-z0-9_.-]*[A-Za-z0-9_.])?|\[.*\]")
_ANY_INTERFACE = ("*", "0.0.0.0", "[::]")  # noqa: S104 - nothing is bound here


def address(base: str, offset: int = 0) -> str:
    """An address that others can connect to, its port raised by `offset`."""
    host, port = _host_and_port(base, offset)
    if host in _ANY_INTERFACE:
        raise BadAgreement(
            f"{base!r}: it must name one machine; give a host name or IP address that others reach"
        )
    if port == "*" or not _HOST.fullmatch(host):
        raise _malformed(base)
    return f"tcp://{host}:{port}"


def listening(base: str, offset: int = 0) -> str:
    """An address to listen at, its port raised by `offset`.

    The host may be `*`, for all interfaces, and the port `*`, for any free one.
    """
    host, port = _host_and_port(base, offset)
    return f"tcp://{host}:{port}"


def numeric_address(base: str) -> str:
    """An address whose host is a number: IPv4, or IPv6 in brackets.

    Members announce no others (SPEC.md §16). All members would have to look up a name, and its
    owner decides how long that takes.
    """
    checked = address(base)
    if not numeric(checked):
        raise BadAgreement(
            f"{base!r}: its host must be an IP address; a name can only be in the agreement"
        )
    return checked


def numeric(value: object) -> bool:
    """Whether this is an address that others can connect to without looking up a name."""
    if not isinstance(value, str):
        return False
    try:
        host = host_and_port(address(value))[0]
        number = IPv6Address(host[1:-1]) if host.startswith("[") else IPv4Address(host)
    except (BadAgreement, AddressValueError):
        return False
    return not (number.is_unspecified or number.is_multicast)


def host_and_port(checked: str) -> tuple[str, str]:
    """Host and port of a valid address."""
    host, _, port = checked.removeprefix("tcp://").rpartition(":")
    return host, port


def needs_ipv6(checked: str) -> bool:
    """Whether a socket must be set to IPv6 for this valid address."""
    return checked.startswith("tcp://[")


def _host_and_port(base: str, offset: int) -> tuple[str, str]:
    match = _ADDRESS.fullmatch(base)
    if not match:
        raise _malformed(base)
    host, port = match[2], match[3]
    if port == "*":
        return host, port
    if not 0 < int(port) <= LAST_PORT:
        raise _malformed(base)
    if not 0 < int(port) + offset <= LAST_PORT:
        raise BadAgreement(
            f"{base!r}: the port {offset} above it is needed too, and the last one is {LAST_PORT}; "
            "choose a lower port"
        )
    return host, str(int(port) + offset)


def _malformed(base: str) -> BadAgreement:
    return BadAgreement(f"{base!r}: it must be {ADDRESS.description}")
