"""Groups of torch.distributed over a store that others have met over before: what those have left is none of theirs."""

import pathlib
import socket
import subprocess
import sys

import torch.distributed as dist

from paceline.train import RunConfig, ScalingConfig
from paceline.train.torch import TorchConfig, TorchTrainer

# In the first attempt rank 1 fails before it comes, and torchrun's agent kills rank 0, which waits for it.
FAILS_ONCE = """
import os, pathlib, sys, time
import torch, torch.distributed as dist
import paceline.comm

waits = pathlib.Path(sys.argv[1])
if os.environ["TORCHELASTIC_RESTART_COUNT"] == "0":
    if os.environ["RANK"] == "1":
        while not waits.exists():
            time.sleep(0.01)
        sys.exit("fails")
    waits.touch()
dist.init_process_group("paceline")
total = torch.ones(1)
dist.all_reduce(total)
print(f"total {total.item()}")
"""

# Rank 0 alone, and then with rank 1, which was in no group before.
GROWS = """
import sys
import torch, torch.distributed as dist
import paceline.comm

rank, port = map(int, sys.argv[1:])
store = dist.TCPStore("127.0.0.1", port)
if rank == 0:
    dist.init_process_group("paceline", store=store, rank=0, world_size=1)
    dist.destroy_process_group()
for _ in range(2):
    dist.init_process_group("paceline", store=store, rank=rank, world_size=2)
    total = torch.ones(1)
    dist.all_reduce(total)
    print("total", total.item())
    dist.destroy_process_group()
"""


def test_torchrun_restarts_ranks_of_which_one_was_killed_while_they_met(tmp_path):
    program = tmp_path / "program.py"
    program.write_text(FAILS_ONCE)
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"]
    flags = ["--max-restarts=1", "--monitor-interval=0.1"]
    done = subprocess.run([*command, *flags, program, tmp_path / "waits"], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0 and done.stdout.count("2.0") == 2, done.stdout + done.stderr


def test_a_group_may_have_a_rank_that_the_one_before_had_not():
    store = dist.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
    command = [sys.executable, "-c", GROWS]
    ranks = [
        subprocess.Popen([*command, str(rank), str(store.port)], stdout=subprocess.PIPE, text=True) for rank in range(2)
    ]
    assert [rank.communicate(timeout=120)[0] for rank in ranks] == ["total 2.0\ntotal 2.0\n"] * 2


def meets_twice_over_stores_of_one_port(config):
    dist.destroy_process_group()
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    for _ in range(2):
        store = dist.TCPStore("127.0.0.1", port, is_master=True, wait_for_workers=False)
        dist.init_process_group("paceline", store=store, rank=0, world_size=1)
        dist.barrier()
        dist.destroy_process_group()
        del store
    pathlib.Path(config["end"]).touch()


def test_a_worker_keeps_no_store_of_a_group_that_is_gone(tmp_path):
    end = tmp_path / "end"
    TorchTrainer(
        meets_twice_over_stores_of_one_port,
        train_loop_config={"end": str(end)},
        scaling_config=ScalingConfig(num_workers=1),
        torch_config=TorchConfig(backend="paceline"),
        run_config=RunConfig(storage_path=str(tmp_path / "runs")),
    ).fit()
    assert end.exists()
