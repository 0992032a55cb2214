"""What a process that forks leaves to its fork: datasets that read anew there, and nothing that the fork could end."""

import subprocess
import sys

import pytest

PROGRAM = """if True:
    import gc, os, signal
    import numpy, paceline.data

    def pid_of(batch):
        return {"id": batch["id"], "pid": numpy.full(len(batch["id"]), os.getpid())}

    def read(batches):
        batches = list(batches)
        pids = {pid for batch in batches for pid in batch.get("pid", [])}
        return [row for batch in batches for row in batch["id"].tolist()], pids

    dataset = %s.random_shuffle(seed=3)
    whole, _ = read(dataset.iter_batches(batch_size=50))
    iterator = dataset.iterator()
    batches = iter(iterator.iter_batches(batch_size=50))
    seen, pids = read([next(batches)])
    fork = os.fork()
    if fork == 0:
        signal.alarm(30)
        try:
            next(batches)
        except Exception as error:
            assert "is a fork" in str(error), error
        else:
            raise AssertionError("a fork cannot go on")
        iterator.set_epoch(0)
        mine, own = read(iterator.iter_batches(batch_size=50))
        assert mine == whole and not pids & own, (pids, own)
        del dataset, iterator, batches
        gc.collect()
    else:
        _, status = os.waitpid(fork, 0)
        assert status == 0, status
        rest, others = read(batches)
        assert seen + rest == whole
        assert len(pids) == 0 or len(others | pids) <= 2, (pids, others)
        for pid in pids:
            os.kill(pid, 0)
    print("end")
"""

NUMBERS = "paceline.data.range(2000, override_num_blocks=40)"


@pytest.mark.parametrize("rows", [NUMBERS, f"{NUMBERS}.map_batches(pid_of, concurrency=2)", f"{NUMBERS}.mix({NUMBERS})",
                                  f"{NUMBERS}.cache()"])
def test_a_fork_reads_anew_and_its_parent_goes_on(rows):
    done = subprocess.run([sys.executable, "-c", PROGRAM % rows], timeout=60, capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, "end\nend\n"), done.stderr


LOADER = """if True:
    import os
    import numpy, paceline.data
    from torch.utils.data import DataLoader
    def double(batch):
        return {"id": batch["id"] * 2}
    iterator = paceline.data.range(200, override_num_blocks=10)%s.iterator()
    assert len(list(iterator.iter_batches(batch_size=10))) == 20
    loader = DataLoader(iterator.to_torch(batch_size=10), batch_size=None, num_workers=2, timeout=30)
    for epoch in range(2):
        rows = sorted(row for features, _ in loader for row in features[:, 0].tolist())
        assert rows == sorted([*range(0, 200 * %d, %d)] * 2), rows
    print("end")
"""


@pytest.mark.parametrize(("step", "factor"), [("", 1), (".map_batches(double)", 2)])
def test_workers_of_a_data_loader_read(step, factor):
    done = subprocess.run([sys.executable, "-c", LOADER % (step, factor, factor)], timeout=60, capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, "end\n"), done.stderr
