"""The real gates of all members in one process, and a session of nothing but gates."""

from party.gate import Gate
from party.noise import Noise
from party.subproblem import Subproblem
from protocol.agreement import Agreement
from protocol.course import Course, Position, numbers
from protocol.messages import Message, Signed
from protocol.wire import pack
from tests.kit.ledgers import in_memory


def gates(agreement: Agreement, problems: list[Subproblem], noise: Noise) -> list[Gate]:
    """A real gate for each member; only the signatures are left out."""

    def gate(index: int) -> Gate:
        member = agreement.members[index]

        def unsigned(message: Message) -> Signed:
            return pack(message, key=member.signing_key, sign=lambda _: bytes(64))

        return Gate(
            agreement,
            member.name,
            subproblem=problems[index],
            noise=noise,
            ledger=in_memory(agreement, member.name),
            pack=unsigned,
        )

    return [gate(k) for k in range(len(agreement.members))]


def play(agreement: Agreement, problems: list[Subproblem], noise: Noise) -> list[Position]:
    """The positions of rounds 0 … T of a whole session."""
    course, doors = Course(agreement), gates(agreement, problems, noise)
    path = [course.opening]
    while path[-1].round < agreement.rounds:
        releases = tuple(door.release(path[-1]) for door in doors)
        path.append(course.advance(path[-1], numbers(releases)))
    return path
