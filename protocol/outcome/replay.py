"""Replays a transcript: every price and chain hash, computed again and compared.

Uses the same step function as a live session (`protocol.rounds`). Signatures are verified when a
transcript is read (`protocol.wire.transcript`), not here.
"""

from collections import deque
from collections.abc import Iterator

from protocol.agreement.model import Agreement
from protocol.errors import BadTranscript, ImpossibleTotal
from protocol.rounds import RoundEngine, RoundState, mask_keys, numbers
from protocol.wire.messages import MaskKey, Release, Seal, Signed
from protocol.wire.transcript import Transcript


def positions(agreement: Agreement, transcript: Transcript) -> Iterator[RoundState]:
    """Every position from the opening on, each price and head recomputed.

    Guarantee: a position that is given is one at which every member that signed for its round
    stood, and with the last one the seals fit too. Raises `BadTranscript` at the first round
    and member that do not.
    """
    engine = RoundEngine(agreement)
    state = engine.opening
    if transcript.keys:
        for signed in transcript.keys:
            _check(signed, state, MaskKey)
        state = engine.pair(state, mask_keys(transcript.keys))
    for releases in transcript.rounds:
        if state.unpaired:
            raise BadTranscript("there are rounds, but not the mask keys that come before them")
        if state.over:
            raise BadTranscript(
                f"{len(transcript.rounds)} rounds of releases, but the session was over after "
                f"{state.round}"
            )
        for signed in releases:
            _check(signed, state, Release)
        yield state
        try:
            state = engine.advance(state, numbers(releases))
        except ImpossibleTotal as error:
            raise BadTranscript(str(error)) from None
    for signed in transcript.seals:
        if not state.over:
            raise BadTranscript(f"sealed after {state.round} of {agreement.rounds} rounds")
        _check(signed, state, Seal)
    yield state


def replay(agreement: Agreement, transcript: Transcript) -> RoundState:
    """The last of the positions, all of which are verified on the way."""
    return deque(positions(agreement, transcript), maxlen=1)[0]


def _check(signed: Signed, state: RoundState, kind: type) -> None:
    message = signed.message
    where = f"round {state.round}, member {message.sender!r}"
    if not isinstance(message, kind) or message.round != state.round:
        raise BadTranscript(f"{where}: a message of another kind or round stands here")
    if message.chain_hash != state.chain_hash:
        raise BadTranscript(f"{where}: it stands on another head than the rounds before it give")
