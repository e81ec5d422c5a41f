"""Ports: no two sessions get the same port, also if many reserve at once."""

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

from scripts.lab.common import ports
from scripts.lab.common.local_session import environment
from scripts.lab.common.ports import reserve

ASKING = """
import sys
from scripts.lab.common import ports

ports.FIRST, ports.LAST = map(int, sys.argv[1:3])
taken = []
while True:
    try:
        taken.append(ports.reserve(2))
    except OSError:
        break
print(*taken, flush=True)
sys.stdin.read()
"""
"""Reserves pairs of a few ports until none is left, and keeps them until it is ended."""


def asking(first: int, last: int) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [sys.executable, "-c", ASKING, str(first), str(last)],
        env=environment(),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


def test_processes_that_ask_at_once_get_different_ports() -> None:
    """Four processes share a range of ports, and no port is given twice."""
    first = reserve(1)
    stretch = (first + 1, first + 61) if first < 31_000 else (first - 61, first - 1)
    processes = [asking(*stretch) for _ in range(4)]
    try:
        lines = [(process.stdout or sys.stdin).readline() for process in processes]
        pairs = [int(port) for line in lines for port in line.split()]
        taken = [port for pair in pairs for port in (pair, pair + 1)]
        assert len(taken) == len(set(taken))
        assert len(taken) > 30
    finally:
        for process in processes:
            process.communicate("", timeout=30)
    again = asking(*stretch)
    assert len(again.communicate("", timeout=30)[0].split()) > 15, "ports stay with who has ended"


def test_a_process_keeps_what_it_has_reserved() -> None:
    """Many threads that reserve at once get different neighbouring ports."""
    with ThreadPoolExecutor(8) as pool:
        starts = list(pool.map(reserve, [3] * 40))
    taken = [port for start in starts for port in range(start, start + 3)]
    assert len(set(taken)) == 120
    assert all(ports.FIRST <= port < ports.LAST for port in taken)
