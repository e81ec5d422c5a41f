"""How many files a process may hold open: raised where the system allows it, told where not.

Every connection and every ZeroMQ socket is an open file. Who runs out of them in the middle of
a session loses connections without a word, so it is looked at before the first one is made.
"""

import resource

from protocol.agreement.model import Agreement
from protocol.errors import FileLimitTooLow

SPARE = 64
"""Beside the members: standard streams, the ledger, a page, ZeroMQ's own."""

_OF_COORDINATOR, _OF_MESH = 2, 5
"""For each member. At the coordinator: what it says and what it hears, or its connection and room
for one that comes anew; at a party of a mesh both ways, a socket, and two that tell of trouble."""

SOCKETS_OF_MESH = 3
"""ZeroMQ sockets for each peer of a mesh: to hear it, and two that tell of trouble."""


def coordinator_files(agreement: Agreement) -> int:
    """How many files the coordinator of this session may come to hold open."""
    return SPARE + _OF_COORDINATOR * len(agreement.members)


def party_files(agreement: Agreement) -> int:
    """How many files a party of this session may come to hold open."""
    mesh = agreement.transport.topology == "mesh"
    return SPARE + (_OF_MESH * len(agreement.members) if mesh else 0)


def require_files(needed: int, who: str) -> None:
    """Let this process open so many files, or raise `FileLimitTooLow`. `who` is what needs them."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY or soft >= needed:
        return
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (needed, hard))
    except (ValueError, OSError):
        raise FileLimitTooLow(
            f"{who} needs {needed:,} open files, one for each connection and socket, and this "
            f"system allows {soft if hard == resource.RLIM_INFINITY else hard:,}. Raise the hard "
            f"limit (`ulimit -Hn {needed}` as root, `LimitNOFILE={needed}` for systemd, "
            f"`--ulimit nofile={needed}` for Docker) and give the same command again"
        ) from None
