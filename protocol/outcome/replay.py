"""Replays a transcript: computes every price and chain hash again and compares.

Uses the step function of live sessions (`protocol.rounds`). Never here: signatures, which are
verified when a transcript is read (`protocol.wire.transcript`).
"""

from collections.abc import Iterator

from protocol.agreement.model import Agreement
from protocol.errors import BadCommitment, BadTranscript, ImpossibleTotal
from protocol.rounds import RoundEngine, RoundState, commitments_in, mask_keys, numbers
from protocol.wire.messages import Commitment, MaskKey, Release, Seal, Signed
from protocol.wire.transcript import Transcript

_NAMES: dict[type, str] = {
    MaskKey: "the mask keys",
    Commitment: "the commitments",
    Seal: "the seals",
}
"""How an error names an exchange that is no round; `transcript.load` does so too."""


def round_states(agreement: Agreement, transcript: Transcript) -> Iterator[RoundState]:
    """Every round state from the opening on, with each price and chain hash recomputed.

    Guarantee: each member that signed for a round signed the chain hash of the state yielded for
    it. The last state is yielded only if commitments and seals fit it too. It is the one after
    the commitments, if there are any. Raises `BadTranscript` with the
    first round and member that do not fit.
    """
    engine = RoundEngine(agreement)
    state = engine.opening
    if transcript.keys:
        for signed in transcript.keys:
            _check(signed, state, MaskKey)
        state = engine.pair(state, mask_keys(transcript.keys))
    for releases in transcript.rounds:
        if state.unpaired:
            raise BadTranscript(
                "it has rounds, but the mask keys that must come before them are missing"
            )
        if state.over:
            raise BadTranscript(
                f"it has {len(transcript.rounds)} rounds, but the session ended after {state.round}"
            )
        for signed in releases:
            _check(signed, state, Release)
        yield state
        try:
            state = engine.advance(state, numbers(releases))
        except ImpossibleTotal as error:
            raise BadTranscript(str(error)) from None
    if transcript.commitments:
        if not state.uncommitted:
            raise BadTranscript(f"commitments after {state.round} of {agreement.rounds} rounds")
        for signed in transcript.commitments:
            _check(signed, state, Commitment)
        try:
            state = engine.commit(state, commitments_in(transcript.commitments))
        except BadCommitment as error:
            raise BadTranscript(str(error)) from None
    for signed in transcript.seals:
        if state.uncommitted:
            raise BadTranscript("it has seals, but the commitments before them are missing")
        if not state.over:
            raise BadTranscript(f"sealed after {state.round} of {agreement.rounds} rounds")
        _check(signed, state, Seal)
    yield state


def _check(signed: Signed, state: RoundState, kind: type) -> None:
    message = signed.message
    where = f"{_NAMES.get(kind, f'round {state.round + 1}')}, member {message.sender!r}"
    if not isinstance(message, kind) or message.round != state.step:
        raise BadTranscript(f"{where}: the message is of another kind or round")
    if message.chain_hash != state.chain_hash:
        raise BadTranscript(f"{where}: its chain hash is not that of the rounds before it")
