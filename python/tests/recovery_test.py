"""Ranks are killed, and PyTorch's DDP goes on in the other processes over another group of the backend "paceline"."""

import os
import signal
import subprocess
import sys

import pytest
import torch.distributed as dist

WORLD, VICTIM = 3, 1

PROGRAM = """
import hashlib, os, signal, sys
import torch, torch.distributed as dist
import paceline.comm
from torch.nn.parallel import DistributedDataParallel

FATAL_STEP, STEPS = 3, 6
number, world, port, when, how, victim = int(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]), *sys.argv[4:6], int(sys.argv[6])
folder, parameters = sys.argv[7], eval(sys.argv[8])
store = dist.TCPStore("127.0.0.1", port, is_master=False)
torch.set_num_threads(1)
torch.manual_seed(0)
plain = torch.nn.Sequential(torch.nn.Linear(200, 200), torch.nn.Tanh(), torch.nn.Linear(200, 1))
optimizer = torch.optim.SGD(plain.parameters(), lr=0.1, momentum=0.9)

def step(index, group):
    torch.manual_seed(100 * index + dist.get_rank(group))
    optimizer.zero_grad()
    model(torch.randn(8, 200)).square().mean().backward()
    optimizer.step()

def kill_self(*_):
    os.kill(os.getpid(), signal.SIGKILL)

def meet(name, rank, size):
    dist.init_process_group("paceline", store=dist.PrefixStore(name, store), rank=rank, world_size=size)

if when == "never":
    meet("fresh", number, world)
    saved = torch.load(f"{folder}/state")
    plain.load_state_dict(saved["model"])
    optimizer.load_state_dict(saved["optimizer"])
    model = DistributedDataParallel(plain, bucket_cap_mb=0.01, **parameters)
    group = None
else:
    meet("all", number, world)
    model = DistributedDataParallel(plain, bucket_cap_mb=0.01, **parameters)
    for index in range(FATAL_STEP):
        step(index, None)
    if number == (1 if victim == 0 else 0):
        torch.save({"model": plain.state_dict(), "optimizer": optimizer.state_dict()}, f"{folder}/state")
    if number == victim:
        kill_self() if when == "between_steps" else plain[0].weight.register_hook(kill_self)
    try:
        step(FATAL_STEP, None)
        raise SystemExit("nobody is missed")
    except dist.DistBackendError as lost:
        assert paceline.comm.lost_ranks(lost) == [victim], lost
    if how == "another_world":
        group = None
        dist.destroy_process_group()
        meet("others", number - (number > victim), world - 1)
        model._update_process_group(dist.group.WORLD)
    else:
        group = dist.new_group([rank for rank in range(world) if rank != victim], use_local_synchronization=True)
        model._update_process_group(group)
for index in range(FATAL_STEP, STEPS):
    step(index, group)
values = b"".join(value.numpy().tobytes() for value in plain.state_dict().values())
print("weights", hashlib.sha256(values).hexdigest())
del model
dist.destroy_process_group()
"""


def run(folder, world, *arguments):
    store = dist.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
    environment = {**os.environ, "DDP_DISABLE_COMM_MEM": "0"}
    ranks = [
        subprocess.Popen(
            [sys.executable, folder / "program.py", str(rank), str(world), str(store.port), *map(str, arguments)],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment,
        )
        for rank in range(world)
    ]  # fmt: skip
    try:
        return [(*rank.communicate(timeout=120), rank.returncode) for rank in ranks]
    finally:
        for rank in ranks:
            rank.kill()


@pytest.mark.parametrize(
    ("when", "how", "parameters"),
    [
        ("in_backward", "another_world", {}),
        ("in_backward", "a_group_of_it", {"gradient_as_bucket_view": True}),
        ("between_steps", "another_world", {"static_graph": True}),
        ("between_steps", "a_group_of_it", {}),
    ],
)
def test_ddp_goes_on_without_who_was_killed(tmp_path, when, how, parameters):
    (tmp_path / "program.py").write_text(PROGRAM)
    survived = run(tmp_path, WORLD, when, how, VICTIM, tmp_path, parameters)
    assert survived.pop(VICTIM)[2] == -signal.SIGKILL
    fresh = run(tmp_path, WORLD - 1, "never", how, VICTIM, tmp_path, parameters)
    for said, errors, code in survived + fresh:
        assert code == 0 and said == fresh[0][0] and "weights" in said, said + errors
