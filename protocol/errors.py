"""Every error that this project raises on purpose, and the exit code of each kind.

There are three branches. `LocalError`: something here is wrong, and you can correct it.
`PeerError`: another party broke the protocol. `Unavailable`: nothing is wrong, but something is
missing; try again later. A message names party and round, and never a private number.
`docs/EXIT_CODES.md` is the page for operators; a test compares the two.
"""


class SottoError(Exception):
    """The root of the tree. Report an error that has no kind of its own."""

    #: What the command ends with.
    exit_code = 1


class LocalError(SottoError):
    """Something on this machine is wrong. Correct what the message names, and try again."""


class BadCommand(LocalError):
    """Options contradict each other, or a file or port cannot be used. See `--help`."""

    exit_code = 2


class BadAgreement(LocalError):
    """The agreement is unreadable or contradicts itself. Correct the field that is named."""

    exit_code = 3


class BadData(LocalError):
    """The company's model cannot be used with this agreement. Correct it; `party check` helps."""

    exit_code = 4


class Unsolved(BadData):
    """The solver finds neither a plan nor proof that there is none: scale the model."""

    exit_code = 34


class BadKey(LocalError):
    """A key file is missing, readable by others, or not the one in the agreement. Use that one."""

    exit_code = 5


class BadLedger(LocalError):
    """The ledger is in use, damaged, or an old copy. Restore the newest; never start empty."""

    exit_code = 6


class LedgerInUse(BadLedger):
    """Another process has the ledger open. End that process first."""


class BudgetExceeded(LocalError):
    """The session would exceed your limit on privacy spent. Raise the limit, or do not join."""

    exit_code = 7


class InternalError(LocalError):
    """A defect of this program. Report it."""

    exit_code = 8


class BadTranscript(LocalError):
    """A transcript does not verify against its agreement. Ask for another copy."""

    exit_code = 9


class Abandoned(LocalError):
    """You gave up this session here, for good. Agree on a new session."""

    exit_code = 15


class QuotaTooSmall(LocalError):
    """The session is sealed, but no plan of this company fits its quota. See your report.

    The exit code says something about private data: it is for the operator only.
    """

    exit_code = 30


class FileLimitTooLow(LocalError):
    """A process may open too few files for this session. Raise the hard limit."""

    exit_code = 31


class NoSolver(LocalError):
    """The solver process does not start, or ends before it has read the model. Free resources."""

    exit_code = 32


class UnsafeLibrary(LocalError):
    """A library here has a known flaw that would make masks unsafe. Install a newer one."""

    exit_code = 33


class PeerError(SottoError):
    """Another party broke the protocol. Ask the member that is named."""

    exit_code = 10

    def __init__(self, text: str, *, sender: str = "", evidence: tuple[bytes, ...] = ()) -> None:
        super().__init__(text)
        #: The member that broke the protocol; empty if that cannot be known.
        self.sender = sender
        #: The signed messages that prove it, unchanged.
        self.evidence = evidence


class BadMessage(PeerError):
    """Bytes that are not a message of this session. They are dropped, and the session continues."""


class Malformed(BadMessage):
    """A member signed these bytes, but they are not a message of this session. They are dropped."""


class BadCommitment(BadMessage):
    """Commitments whose proof does not hold. They are dropped, and their senders are named."""

    def __init__(self, senders: tuple[str, ...]) -> None:
        names = ", ".join(map(repr, senders))
        super().__init__(
            f"the proof in the commitments of {names} does not hold", sender=senders[0]
        )
        #: All members with such a proof, in roster order.
        self.senders = senders


class Equivocation(PeerError):
    """A party signed two different messages for one round. This is final; keep the evidence."""

    exit_code = 11


class DifferentAgreement(PeerError):
    """Peers use another agreement. Compare the two digests, and use one file."""

    exit_code = 12


class DifferentPrices(PeerError):
    """A party computed other prices from the same releases. This is final; compare versions."""

    exit_code = 13


class Diverged(PeerError):
    """A party has another history, with no proof why. Not final: run the same command again."""

    exit_code = 14


class ImpossibleTotal(PeerError):
    """Masked releases add up to an impossible total. Masks hide who did it; compare versions."""

    exit_code = 15


class Unbound(PeerError):
    """Sealed, but commitments do not add up: claims prove nothing. Masks hide who did it."""

    exit_code = 16


class BadApproval(PeerError):
    """An approval is not signed by its member, or for other terms. Ask for a new one."""

    exit_code = 18


class BadClaim(PeerError):
    """A claim is false, for another session or recipient, or given twice. Ask for a new one."""

    exit_code = 17


class Unavailable(SottoError):
    """Nothing is wrong, but a party or the coordinator is missing. Run the same command later."""

    exit_code = 20


class Unsealed(Unavailable):
    """The outcome is final, but seals are missing. Run the same command when members are back."""

    exit_code = 21


class Incomplete(Unavailable):
    """A transcript verifies, but its session had not ended. Ask for a later copy."""

    exit_code = 22


class MissingApprovals(Unavailable):
    """Approvals of members are missing. Ask the members that are named to run `party sign`."""

    exit_code = 26


class MissingClaims(Unavailable):
    """Claims of members are missing, so payments or quotas are incomplete. Ask for them."""

    exit_code = 25


class NoTrade(Unavailable):
    """The session ended without trade: every member keeps its endowment. The report says why.

    It follows from public numbers, so every member ends with this code.
    """

    exit_code = 23


class Inconsistent(Unavailable):
    """A transcript verifies, but answers in it contradict each other. Ask the member named."""

    exit_code = 24
