"""`coordinator serve`: puts the pieces of a coordinator together.

Never here: what is done with a message.
"""

import argparse
import sys
from contextlib import ExitStack, suppress

from coordinator.collector import RoundCollector
from coordinator.keys import own_secret
from coordinator.progress import Say
from protocol.errors import BadCommand
from protocol.runtime.files import read_agreement


def serve(options: argparse.Namespace) -> None:
    """Relay the messages of a session, or introduce the members of a mesh."""
    from coordinator.journal import Journal
    from coordinator.listener import Listener
    from coordinator.observer import SessionObserver
    from coordinator.relay import Relay
    from coordinator.rendezvous import Rendezvous
    from protocol.runtime.file_limits import coordinator_files, require_files
    from protocol.runtime.sockets import require_network

    agreement = read_agreement(options.agreement)
    secret = own_secret(options, agreement)
    if options.approvals is not None:
        from protocol.runtime.approvals import read_approvals

        read_approvals(options.approvals, agreement).require_all()
    mesh = agreement.transport.topology == "mesh"
    collector = RoundCollector(agreement)
    say: Say = _say
    journal, page = None, None
    if options.transcript is not None:
        if mesh:
            raise BadCommand(
                "--transcript needs a relay: the messages of a mesh do not pass here; ask any "
                "member for its transcript"
            )
        journal = Journal(agreement, options.transcript, collector, say=say)
    with ExitStack() as stack:
        if options.page is not None:
            from coordinator.live_page import LivePage

            earlier = () if journal is None else journal.exchanges
            page = stack.enter_context(
                LivePage(agreement, options.page, collector, earlier=earlier)
            )
            _say(f"watch the session at {page.address}")
            say = page.also(say)
        require_network(agreement)
        require_files(coordinator_files(agreement), "the coordinator")
        observer = SessionObserver(
            agreement,
            collector,
            say=say,
            journal=journal,
            page=page,
            keep_running=options.keep_running,
        )
        listener = Listener(agreement, secret, listen=options.listen, say=say)
        stack.callback(observer.close)  # after the sockets are closed
        stack.enter_context(listener)
        if mesh:
            Rendezvous(agreement, listener, observer, say).run()
        else:
            Relay(agreement, listener, observer, say).run()


def _say(text: str) -> None:
    with suppress(OSError, ValueError):  # the session continues even if the log cannot be written
        print(text, file=sys.stderr, flush=True)
