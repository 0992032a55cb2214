"""Collectives of ranks on two machines that share nothing but the network: same results as Gloo's, and who is killed or stopped is named."""

import contextlib
import json
import os
import pathlib
import subprocess
import sys

import pytest
from network import HERE, Network

MACHINES = ("one", "two")
RANKS_EACH = 2
FREE_PORT = "import socket; s = socket.socket(); s.bind(('', 0)); print(s.getsockname()[1])"


@contextlib.contextmanager
def ranks_on(network, lost, by):
    """Ranks 0 and 1 on the first machine, 2 and 3 on the second, as torchrun would start them."""
    machines = [network.add(name) for name in MACHINES]
    first = machines[0]
    common = {
        "WORLD_SIZE": str(RANKS_EACH * len(machines)),
        "LOCAL_WORLD_SIZE": str(RANKS_EACH),
        "MASTER_ADDR": first.address,
        "MASTER_PORT": first.run(sys.executable, "-SE", "-c", FREE_PORT).strip(),
        "GLOO_SOCKET_IFNAME": "eth0",
        "OMP_NUM_THREADS": "1",
        "TMPDIR": str(network.disk),
    }
    with contextlib.ExitStack() as stack:
        ranks = []
        for rank in range(RANKS_EACH * len(machines)):
            place = {"RANK": str(rank), "LOCAL_RANK": str(rank % RANKS_EACH)}
            log = stack.enter_context(open(network.folder / f"rank_{rank}.log", "w"))
            started = machines[rank // RANKS_EACH].start(
                [sys.executable, "-B", HERE / "rank_program.py", str(lost), by],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                env=os.environ | common | place,
            )
            ranks.append(stack.enter_context(started))
        yield ranks


def said(folder, ranks, number):
    """What that rank says next."""
    line = ranks[number].process.stdout.readline()
    log = pathlib.Path(folder) / f"rank_{number}.log"
    assert line, f"rank {number} has ended with {ranks[number].wait()}:\n{log.read_text()[-3000:]}"
    return json.loads(line)


# Rank 0 keeps the store: who is gone is not told by it.
@pytest.mark.parametrize("lost, by", [(1, "SIGKILL"), (2, "SIGKILL"), (3, "SIGKILL"), (0, "SIGKILL"), (0, "SIGSTOP"), (3, "SIGSTOP")])
def test_they_are_those_of_gloo_and_who_is_gone_is_named(tmp_path, lost, by):
    with Network(tmp_path) as network, ranks_on(network, lost, by) as ranks:
        memory = [set(said(tmp_path, ranks, rank)["shared_memory"]) for rank in range(len(ranks))]
        assert memory[0] and memory[0] == memory[1] and memory[2] and memory[2] == memory[3], "within a machine"
        assert memory[0].isdisjoint(memory[2]), "between machines"
        # The rank of the same machine, which knows by shared memory, and those of the other, which hear of it.
        for rank in set(range(len(ranks))) - {lost}:
            assert f"for want of rank {lost}" in said(tmp_path, ranks, rank)["failure"]
        for rank in set(range(len(ranks))) - {lost}:
            ranks[rank].process.stdin.close()
            assert ranks[rank].wait() == 0
