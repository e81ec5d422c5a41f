"""MPI's Allgather of the bytes of a round, and nothing else; runs under mpirun.

For context in `scripts/bench rounds`: the fastest message passing on one machine, without any
security. Needs only mpi4py, in any interpreter.
"""

import json
import sys
import time

from mpi4py import MPI


def main(rounds: int, length: int) -> None:
    world = MPI.COMM_WORLD
    own, everything = bytearray(length), bytearray(length * world.Get_size())
    for _ in range(10):
        world.Allgather(own, everything)
    world.Barrier()
    began = time.perf_counter()
    for t in range(rounds):
        own[:4] = t.to_bytes(4, "big")
        world.Allgather(own, everything)
    seconds = time.perf_counter() - began
    if world.Get_rank() == 0:
        print(json.dumps({"rounds_per_second": rounds / seconds}))


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
