"""MPI's Allgather of the bytes of a round, and nothing else; runs under mpirun.

For context in `scripts/bench rounds`: what the fastest message passing on one machine takes,
where everybody trusts everybody. Needs mpi4py alone, whatever interpreter has it.
"""

import json
import sys
import time

from mpi4py import MPI


def main(rounds: int, length: int) -> None:
    world = MPI.COMM_WORLD
    mine, all_of_them = bytearray(length), bytearray(length * world.Get_size())
    for _ in range(10):
        world.Allgather(mine, all_of_them)
    world.Barrier()
    began = time.perf_counter()
    for t in range(rounds):
        mine[:4] = t.to_bytes(4, "big")
        world.Allgather(mine, all_of_them)
    seconds = time.perf_counter() - began
    if world.Get_rank() == 0:
        print(json.dumps({"rounds_per_second": rounds / seconds}))


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
