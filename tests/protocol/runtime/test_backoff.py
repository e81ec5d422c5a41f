"""Reports that become rarer each time."""

from protocol.runtime.backoff import Backoff


def test_pauses_double_up_to_the_longest() -> None:
    """Asked every second, it allows a report at 0 s, then after 2, 4, 8, 8, ... seconds."""
    backoff = Backoff(2.0, 8.0)
    assert [t for t in range(40) if backoff.due("a", float(t))] == [0, 2, 6, 14, 22, 30, 38]


def test_each_key_has_its_own_pauses() -> None:
    """A peer that causes many reports does not silence reports about another."""
    backoff = Backoff(2.0, 8.0)
    assert backoff.due("a", 0.0)
    assert not backoff.due("a", 1.0)
    assert backoff.due("b", 1.0)
