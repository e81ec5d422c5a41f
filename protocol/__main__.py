"""The `protocol` command: what anybody can know with public files alone."""

import argparse
import json
import math
from pathlib import Path

import numpy as np

from protocol import privacy
from protocol.agreement import TICKS, Agreement
from protocol.caps import first_caps
from protocol.command import add_command, command_line, read_agreement, run
from protocol.errors import BadTranscript
from protocol.transcript import Course, load, replay
from protocol.wire import release_bytes


def main() -> None:
    parser, commands = command_line("protocol", "Plan and audit sessions from public files.")
    plan = add_command(
        commands,
        "plan",
        _plan,
        "what an agreement means before anybody joins",
        "Say how much noise an agreement asks for, what the theorem promises, how much is sent,\n"
        "and whether the noise will drown what it hides. Needs no private data.",
    )
    plan.add_argument("agreement", type=Path, metavar="AGREEMENT")
    plan.add_argument("--json", action="store_true", help="print the figures as JSON")
    audit = add_command(
        commands,
        "audit",
        _audit,
        "verify the transcript of a session",
        "Check every signature, recompute every price and head, and print the privacy\n"
        "statement. A single changed byte is found and located (exit code 9).",
    )
    audit.add_argument("transcript", type=Path, metavar="TRANSCRIPT")
    audit.add_argument("--agreement", type=Path, required=True, metavar="FILE")
    audit.add_argument("--json", action="store_true", help="print the figures as JSON")
    run(parser)


def _plan(options: argparse.Namespace) -> None:
    agreement = read_agreement(options.agreement)
    figures = plan_figures(agreement)
    if options.json:
        print(json.dumps(figures, indent=2))
        return
    _print_terms(agreement)
    print("noise (standard deviation, as a multiple of the capacity)")
    print(f"  one release of one party       {figures['party_release']:.4g}")
    print(f"  its average over all rounds    {figures['party_average']:.4g}")
    print(f"  one round's total of all       {figures['total_release']:.4g}")
    print(f"  its average over all rounds    {figures['total_average']:.4g}")
    if figures["theorem_gap"] is not None:
        print(f"expected gap of the best round   at most {figures['theorem_gap']:.4g} (theorem)")
        print(f"  with the step                  {figures['theorem_step']:.4g}")
    print(
        f"each party sends {figures['messages_per_party']} messages of "
        f"{figures['release_bytes']} bytes and receives {figures['messages_received']}"
    )
    print(f"\n{figures['verdict']}")


def plan_figures(agreement: Agreement) -> dict[str, float | int | str | None]:
    """The figures of `protocol plan`. Noise is that of the noisiest party and resource."""
    noise = privacy.NoisePlan(agreement)
    m, T = len(agreement.resources), agreement.rounds
    sigma = noise.scales(first_caps(agreement))[:, :m] / TICKS
    party = float(sigma.max())
    total = float(np.sqrt((sigma**2).sum(axis=0)).max())
    share = float((sigma / np.maximum(agreement.share, 1e-12)).max())
    gap = step = None
    if agreement.worth is not None and agreement.mode != "clipped":
        M, B = privacy.prices_distance(agreement), privacy.gradient_bound(noise)
        gap = privacy.convergence_gap(M=M, B=B, T=T)
        step = privacy.convergence_step(M=M, B=B, T=T) if M else None
    return {
        "digest": agreement.digest.hex(),
        "party_release": party,
        "party_average": party / math.sqrt(T),
        "total_release": total,
        "total_average": total / math.sqrt(T),
        "party_average_over_share": share / math.sqrt(T),
        "theorem_gap": gap,
        "theorem_step": step,
        "release_bytes": release_bytes(agreement),
        "messages_per_party": T,
        "messages_received": T * (len(agreement.members) - 1),
        "verdict": _verdict(agreement, total / math.sqrt(T), share / math.sqrt(T)),
    }


def _verdict(agreement: Agreement, total: float, share: float) -> str:
    """In plain words: does the noise drown the data?"""
    if agreement.privacy is None:
        return (
            "Verdict: no noise and no privacy guarantee. The releases show each company's demand "
            "at every price; choose mode 'private' if that must stay hidden."
        )
    if total > 1.0:
        return (
            f"Verdict: the noise drowns the data. Averaged over all {agreement.rounds} rounds, the "
            f"noise on the total demand is {total:.3g} times the capacity: prices learned here "
            "will be no better than prices learned from other companies' data. Give a good public "
            "worth and start from it, take in more parties with smaller shares, or agree on a "
            "larger epsilon."
        )
    if total > 0.1:
        return (
            "Verdict: faint. Averaged over all rounds, the noise on the total demand is "
            f"{total:.3g} times the capacity (on one party's demand {share:.3g} times its share): "
            "prices will follow the data roughly, single quotas hardly."
        )
    return (
        f"Verdict: clear. Averaged over all rounds, the noise on the total demand is {total:.3g} "
        f"times the capacity (on one party's demand {share:.3g} times its share)."
    )


def _print_terms(agreement: Agreement) -> None:
    print(f"session    {agreement.session}   digest {agreement.digest.hex()}")
    print(
        f"terms      {len(agreement.members)} members, {len(agreement.resources)} resources, "
        f"{agreement.rounds} rounds, mode {agreement.mode}, step {agreement.pricing.step}"
    )
    print(f"privacy    {statement(agreement)}\n")


def statement(agreement: Agreement) -> str:
    """The privacy statement of a session, for people."""
    if agreement.rehearsal:
        return "none: this is a rehearsal with noise that can be repeated"
    if agreement.privacy is None:
        return "none: mode 'hidden' shows the demands without noise"
    p = agreement.privacy
    return (
        f"all releases of each party together are (ε={p.epsilon:g}, δ={p.delta:g})-locally "
        f"differentially private ({p.accountant} accountant, {p.noise} noise)"
    )


def _audit(options: argparse.Namespace) -> None:
    agreement = read_agreement(options.agreement)
    try:
        data = options.transcript.read_bytes()
    except OSError as error:
        raise BadTranscript(
            f"the transcript {str(options.transcript)!r} cannot be read: {error.strerror}"
        ) from None
    transcript = load(agreement, data)
    position = replay(agreement, transcript)
    prices = Course(agreement).final_prices(position)
    sealed = len(transcript.seals) == len(agreement.members)
    if options.json:
        figures = {
            "digest": agreement.digest.hex(),
            "rounds": position.round,
            "head": position.head.hex(),
            "sealed": sealed,
            "prices": prices.tolist(),
            "privacy": statement(agreement),
        }
        print(json.dumps(figures, indent=2))
        return
    _print_terms(agreement)
    count = position.round * len(agreement.members)
    print(
        f"{count} releases in {position.round} of {agreement.rounds} rounds: every signature fits"
    )
    print("every price and head recomputed: all stand on the same chain")
    print("sealed by all members" if sealed else "not sealed: the session was still going on")
    print(f"head       {position.head.hex()}")
    for resource, price in zip(agreement.resources, prices.tolist(), strict=True):
        print(f"price      {resource.name}: {price!r}")


if __name__ == "__main__":
    main()
