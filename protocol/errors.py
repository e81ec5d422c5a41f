"""Every error this project raises on purpose, and the exit code each kind ends with.

Three kinds: ours (`LocalError`), theirs (`PeerError`, with the sender and the evidence)
and try-again (`Unavailable`). A message names party and round and never a private number.
`EXIT_CODES.md` is the page for people; a test holds the two together.
"""


class SottoError(Exception):
    """The root. `exit_code` is what the command ends with."""

    exit_code = 1


class LocalError(SottoError):
    """Something on this machine is wrong, and the person in front of it can mend it."""


class BadCommand(LocalError):
    """The command asks for something that does not go together, or would overwrite a file."""

    exit_code = 2


class BadAgreement(LocalError):
    """The agreement file cannot be read or contradicts itself."""

    exit_code = 3


class BadData(LocalError):
    """The private data set cannot be used with this agreement."""

    exit_code = 4


class BadKey(LocalError):
    """A key file is missing, readable by others, or not the one in the agreement."""

    exit_code = 5


class BadLedger(LocalError):
    """The ledger is in use, damaged, or an old copy that would release a round twice."""

    exit_code = 6


class BudgetExceeded(LocalError):
    """The session would pass the privacy budget that the party has set for itself."""

    exit_code = 7


class InternalError(LocalError):
    """A promise of this program to itself does not hold: a defect, please report it."""

    exit_code = 8


class BadTranscript(LocalError):
    """A transcript does not verify against its agreement."""

    exit_code = 9


class FileLimitTooLow(LocalError):
    """This system lets a process hold fewer files open than a session of this size needs."""

    exit_code = 31


class NoSolver(LocalError):
    """The process of the solver cannot be started, or ends before it has read the model."""

    exit_code = 32


class UnsafeLibrary(LocalError):
    """A library on this machine has a known flaw on which the masks of a session would rest."""

    exit_code = 33


class PeerError(SottoError):
    """Another party did something that the protocol does not allow.

    `evidence` holds the signed messages that show it, as they came.
    """

    exit_code = 10

    def __init__(self, text: str, *, sender: str = "", evidence: tuple[bytes, ...] = ()) -> None:
        super().__init__(text)
        self.sender = sender
        self.evidence = evidence


class BadMessage(PeerError):
    """Bytes that are not a message of this session. They are dropped, never obeyed."""


class Malformed(BadMessage):
    """What a member has signed, and still is not a message of this session."""


class Equivocation(PeerError):
    """A party signed two different messages for the same round."""

    exit_code = 11


class DifferentAgreement(PeerError):
    """The others hold another agreement."""

    exit_code = 12


class DifferentPrices(PeerError):
    """A party got other prices from the same releases."""

    exit_code = 13


class Diverged(PeerError):
    """A party stands elsewhere than this one, and nobody has proved why. Not final."""

    exit_code = 14


class ImpossibleTotal(PeerError):
    """Masked releases add up to what all members together cannot have said; nobody knows whose."""

    exit_code = 15


class Abandoned(LocalError):
    """The operator has given up this session here, for good."""

    exit_code = 15


class Unavailable(SottoError):
    """Nothing is wrong, but somebody is missing. The same command goes on later."""

    exit_code = 20


class Unsealed(Unavailable):
    """All rounds are closed and the outcome is there, but seals of members are missing."""

    exit_code = 21


class Incomplete(Unavailable):
    """A transcript verifies as far as it goes, which is not to the end of its session."""

    exit_code = 22


class QuotaTooSmall(LocalError):
    """The session is sealed and its files are written, but the quota allows this company no plan.

    That says something about its data: for the operator only, as is the exit code.
    """

    exit_code = 30
