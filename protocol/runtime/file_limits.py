"""Raises the limit on open files to what a session needs, or says that it is too low.

Every connection and every ZeroMQ socket is an open file. A process that runs out of them loses
connections silently, so this is checked before the first one is opened.
"""

import resource

from protocol.agreement.model import Agreement
from protocol.errors import FileLimitTooLow

SPARE = 64
"""Files other than those of members: standard streams, the ledger, a page, ZeroMQ's own."""

_OF_COORDINATOR, _OF_MESH = 2, 5
"""Files for each member. A relay has two connections to it; a rendezvous has one, and one more
while the member reconnects. A party of a mesh has two connections, a subscriber and two
connection monitors."""

SOCKETS_OF_MESH = 3
"""ZeroMQ sockets for each peer of a mesh: a subscriber and two connection monitors."""


def coordinator_files(agreement: Agreement) -> int:
    """Return how many files the coordinator of this session may have open."""
    return SPARE + _OF_COORDINATOR * len(agreement.members)


def party_files(agreement: Agreement) -> int:
    """Return how many files a party of this session may have open."""
    mesh = agreement.transport.topology == "mesh"
    return SPARE + (_OF_MESH * len(agreement.members) if mesh else 0)


def require_files(needed: int, who: str) -> None:
    """Let this process open `needed` files, or raise `FileLimitTooLow` for `who`."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY or soft >= needed:
        return
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (needed, hard))
    except (ValueError, OSError):
        raise FileLimitTooLow(
            f"{who} needs {needed:,} open files, one for each connection and socket, but this "
            f"system allows {soft if hard == resource.RLIM_INFINITY else hard:,}. Raise the hard "
            f"limit (`ulimit -Hn {needed}` as root, `LimitNOFILE={needed}` for systemd, "
            f"`--ulimit nofile={needed}` for Docker) and run the same command again"
        ) from None
