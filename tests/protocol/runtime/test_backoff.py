"""What may happen again only ever more seldom."""

from protocol.runtime.backoff import Backoff


def test_pauses_double_up_to_the_longest() -> None:
    """Asked every second, it says yes at 0, then after 2, 4, 8 and from there on 8 seconds."""
    seldom = Backoff(2.0, 8.0)
    assert [t for t in range(40) if seldom.due("a", float(t))] == [0, 2, 6, 14, 22, 30, 38]


def test_each_key_has_pauses_of_its_own() -> None:
    """One peer that causes much does not silence what is said of another."""
    seldom = Backoff(2.0, 8.0)
    assert seldom.due("a", 0.0)
    assert not seldom.due("a", 1.0)
    assert seldom.due("b", 1.0)
