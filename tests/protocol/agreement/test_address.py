"""Addresses: which ones others can connect to, and what the error says about the rest."""

import pytest

from protocol.agreement.address import address, listening, numeric, numeric_address
from protocol.errors import BadAgreement


@pytest.mark.parametrize(
    ("base", "why"),
    [
        ("tcp://*:5555", "it must name one machine"),
        ("tcp://0.0.0.0:5555", "it must name one machine"),
        ("tcp://[::]:5555", "it must name one machine"),
        ("tcp://host:*", "an address of the form 'tcp://host:port'"),
        ("tcp://-host:1", "an address of the form 'tcp://host:port'"),
        ("host:1", "an address of the form 'tcp://host:port'"),
        ("tcp://host:0", "its port from 1 to 65535"),
        ("tcp://host:65536", "its port from 1 to 65535"),
    ],
)
def test_an_address_that_no_peer_can_connect_to_is_refused(base: str, why: str) -> None:
    """The error quotes the address and says what is allowed."""
    with pytest.raises(BadAgreement) as caught:
        address(base)
    assert str(caught.value).startswith(f"{base!r}: ")
    assert why in str(caught.value)


def test_the_offset_raises_the_port() -> None:
    """A relay listens at two ports, and the second must exist."""
    assert address("tcp://host:65534", 1) == "tcp://host:65535"
    with pytest.raises(BadAgreement, match="the port 1 above it is needed too"):
        address("tcp://host:65535", 1)


def test_all_interfaces_and_any_port_are_addresses_to_listen_at() -> None:
    """`*` stands for every interface, and for any free port."""
    assert listening("tcp://*:*") == "tcp://*:*"
    assert listening("tcp://0.0.0.0:5", 1) == "tcp://0.0.0.0:6"


def test_members_announce_ip_addresses_only() -> None:
    """A name, and an address of no single machine, cannot be announced."""
    assert numeric_address("tcp://[2001:db8::1]:7") == "tcp://[2001:db8::1]:7"
    for other in ("tcp://host:7", "tcp://224.0.0.1:7", "tcp://256.1.1.1:7"):
        assert not numeric(other)
        with pytest.raises(BadAgreement, match="its host must be an IP address"):
            numeric_address(other)
    assert not numeric(7)
