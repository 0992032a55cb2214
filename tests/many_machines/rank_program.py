"""A rank of collectives_test.py: compares the collectives of "paceline" with those of Gloo, and then one rank is lost.

Usage: rank_program.py LOST SIGNAL, in an environment as torchrun's. Writes a line of JSON: which memory it shares, and then another:
what it was told when rank LOST was gone. Ends with standard input.
"""

import datetime
import json
import os
import pathlib
import signal
import sys

import torch
import torch.distributed as dist

import paceline.comm  # noqa: F401

OPERATIONS = (dist.ReduceOp.SUM, dist.ReduceOp.PRODUCT, dist.ReduceOp.MIN, dist.ReduceOp.MAX)
INTEGERS = (torch.uint8, torch.int8, torch.int32, torch.int64)
FLOATS = (torch.float32, torch.float64)
# One value, several, and more than goes between machines at a time.
SIZES = (1, 1001, 1_500_007)


def values_of(rank, size, dtype):
    generator = torch.Generator().manual_seed(1000 * rank + size)
    if dtype.is_floating_point:
        return torch.randn(size, generator=generator, dtype=dtype)
    return torch.randint(0, 100, (size,), generator=generator).to(dtype)


def results(group, size, dtype):
    """What this rank gets of each collective, by name."""
    rank, ranks = dist.get_rank(), dist.get_world_size()
    own = values_of(rank, size, dtype)
    found = {}
    for number, operation in enumerate(OPERATIONS):
        found[f"all_reduce {number}"] = own.clone()
        dist.all_reduce(found[f"all_reduce {number}"], operation, group=group)
        reduced = own.clone()
        root = number % ranks
        dist.reduce(reduced, root, operation, group=group)
        if rank == root:
            found[f"reduce {number}"] = reduced
    for root in range(ranks):
        found[f"broadcast {root}"] = own.clone()
        dist.broadcast(found[f"broadcast {root}"], root, group=group)
    parts = [torch.zeros_like(own) for _ in range(ranks)]
    dist.all_gather(parts, own, group=group)
    found["all_gather"] = torch.stack(parts)
    found["all_to_all"] = torch.zeros(ranks * size, dtype=dtype)
    dist.all_to_all_single(found["all_to_all"], torch.cat([own + part for part in range(ranks)]), group=group)
    return found


def compare(flat):
    for size in SIZES:
        for dtype in INTEGERS + FLOATS:
            expected = results(flat, size, dtype)
            for name, found in results(None, size, dtype).items():
                # Sums of floats depend on the order of the ranks; everything else has the same bits.
                if dtype.is_floating_point and "reduce" in name:
                    torch.testing.assert_close(found, expected[name])
                else:
                    assert torch.equal(found, expected[name]), f"{name} of {size} {dtype}"


def shared_memory():
    """The numbers of the arenas that this process has mapped."""
    lines = pathlib.Path("/proc/self/maps").read_text().splitlines()
    return sorted({line.split()[4] for line in lines if "paceline-collective" in line})


def tell(**what):
    print(json.dumps(what), flush=True)


def main():
    lost, by = int(sys.argv[1]), signal.Signals[sys.argv[2]]
    # Who is stopped is found within ten seconds on its own machine; the others wait for as long as they may.
    timeout = datetime.timedelta(seconds=120 if by == signal.SIGKILL else 20)
    dist.init_process_group("paceline", timeout=timeout)
    tell(shared_memory=shared_memory())
    backend = dist.group.WORLD._get_backend(torch.device("cpu")).name()
    assert backend == "paceline", f"no rank shares memory with another: the group is that of {backend}"
    compare(dist.new_group(backend="gloo"))
    dist.barrier()
    values = torch.ones(SIZES[-1])
    work = dist.all_reduce(values, async_op=True)
    if dist.get_rank() == lost:
        if os.fork() == 0:  # as a loader's worker, which hides no end
            sys.stdin.read()
            os._exit(0)
        os.kill(os.getpid(), by)
    try:
        while True:
            work.wait()
            work = dist.all_reduce(values, async_op=True)
    except dist.DistBackendError as error:
        tell(failure=str(error))
    sys.stdin.read()  # rank 0 keeps the store


main()
