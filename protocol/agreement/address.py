"""Addresses of the form tcp://host:port.

They are terms of an agreement, and members announce them. Nothing here opens a socket or looks
up a name.
"""

import re
from ipaddress import AddressValueError, IPv4Address, IPv6Address

from protocol.errors import BadAgreement

LAST_PORT = 65_535


_PLACE = re.compile(r"(tcp://)([^\s:/;@]{1,255}|\[[0-9a-fA-F:.]{2,45}\]):([0-9]{1,5}|\*)", re.ASCII)


_NAME = re.compile(r"[A-Za-z0-9_]([A-Za-z0-9_.-]*[A-Za-z0-9_.])?|\[.*\]")


_ANY_INTERFACE = ("*", "0.0.0.0", "[::]")  # noqa: S104 - nothing is bound here


def address(base: str, offset: int = 0) -> str:
    """`tcp://host:port` with the port moved by `offset`: a place that others can connect to."""
    host, port = _parts(base, offset)
    if host in _ANY_INTERFACE:
        raise BadAgreement(f"{base!r}, which names no machine: say how it is reached")
    if port == "*" or not _NAME.fullmatch(host):
        raise BadAgreement(f"{base!r}, which is not an address of the form tcp://host:port")
    return f"tcp://{host}:{port}"


def listening(base: str, offset: int = 0) -> str:
    """The same for a place to listen at: the host may be `*`, for all interfaces, and so may the
    port, for any that is free."""
    host, port = _parts(base, offset)
    return f"tcp://{host}:{port}"


def numeric_address(base: str) -> str:
    """An address whose host is a number, IPv4 or IPv6 in brackets.

    Members announce no others (SPEC.md §16): a name would have to be looked up by all of them,
    as slowly as the one who chose it likes.
    """
    place = address(base)
    if not numeric(place):
        raise BadAgreement(
            f"{base!r}, whose host is not a numeric address: a name must stand in the agreement"
        )
    return place


def numeric(place: object) -> bool:
    """Whether this is an address that others can connect to without looking up a name."""
    if not isinstance(place, str):
        return False
    try:
        host = host_and_port(address(place))[0]
        number = IPv6Address(host[1:-1]) if host.startswith("[") else IPv4Address(host)
    except (BadAgreement, AddressValueError):
        return False
    return not (number.is_unspecified or number.is_multicast)


def host_and_port(place: str) -> tuple[str, str]:
    """The two parts of an address."""
    host, _, port = place.removeprefix("tcp://").rpartition(":")
    return host, port


def needs_ipv6(place: str) -> bool:
    """Whether a socket must be set to IPv6 for this address."""
    return place.startswith("tcp://[")


def _parts(base: str, offset: int) -> tuple[str, str]:
    found = _PLACE.fullmatch(base)
    if not found:
        raise BadAgreement(f"{base!r}, which is not an address of the form tcp://host:port")
    if found[3] == "*":
        return found[2], "*"
    port = int(found[3])
    if not 0 < port <= LAST_PORT - offset or port + offset < 1:
        also = f", and {offset} above it is needed too" if offset else ""
        raise BadAgreement(f"{base!r}, but a port is a number from 1 to {LAST_PORT}{also}")
    return found[2], str(port + offset)
