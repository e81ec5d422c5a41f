"""Runs the units of a study on the cores of this machine, or on a Dask cluster.

Both give the same rows for a unit. Units may end in any order.
"""

import importlib.metadata
import multiprocessing
import os
import platform
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from typing import TypeVar

from protocol.errors import BadCommand, SottoError, Unavailable
from scripts.lab.study.replicate import Rows, Unit, play

WORKER_SECONDS = 30
"""How long to wait for the first worker of a Dask cluster, which may just start."""


Piece = TypeVar("Piece")
Done = TypeVar("Done")


def local(
    work: Sequence[Piece], play: Callable[[Piece], Done], processes: int
) -> Iterator[tuple[Piece, Done]]:
    """Units as they end, on the cores of this machine.

    Processes are spawned, not forked: a fork would copy the state of the noise.
    """
    context = multiprocessing.get_context("spawn")
    pool = ProcessPoolExecutor(processes, mp_context=context, initializer=follow_parent)
    try:
        futures = {pool.submit(play, piece): piece for piece in work}
        for future in as_completed(futures):
            yield futures.pop(future), future.result()
    except BrokenProcessPool:
        raise SottoError("a worker was killed; run the same command to resume") from None
    finally:
        for child in multiprocessing.active_children():
            child.terminate()
        pool.shutdown(cancel_futures=True)


def follow_parent() -> None:
    """A worker ends when the study ends, for any reason; it ignores Ctrl-C."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)

    def follow() -> None:
        parent = multiprocessing.parent_process()
        if parent is not None:
            parent.join()
            os._exit(1)

    threading.Thread(target=follow, daemon=True).start()


def cluster(work: Sequence[Unit], address: str) -> Iterator[tuple[Unit, Rows]]:
    """Units as they end, on the workers of a Dask scheduler."""
    try:
        import distributed
    except ImportError:
        raise BadCommand("--dask needs the extra 'cluster': pip install '.[cluster]'") from None
    try:
        client = distributed.Client(address, timeout=10)
    except (OSError, ValueError) as error:
        raise Unavailable(f"no Dask scheduler answers at {address}: {error}") from None
    with client:
        try:
            client.wait_for_workers(1, timeout=WORKER_SECONDS)
        except TimeoutError:
            raise Unavailable(
                f"the scheduler at {address} had no workers for {WORKER_SECONDS} seconds; "
                "start some"
            ) from None
        for worker, found in client.run(versions).items():
            if found != versions():
                raise BadCommand(f"worker {worker} has {found}, this machine has {versions()}")
        futures = {client.submit(play, unit, pure=False): unit for unit in work}
        for future in distributed.as_completed(futures):
            yield futures.pop(future), future.result()


def versions() -> dict[str, str]:
    """Versions of what computes the numbers. Other versions may break ties differently."""
    names = ("numpy", "highspy")
    return {"python": platform.python_version()} | {
        name: importlib.metadata.version(name) for name in names
    }
