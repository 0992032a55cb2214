"""Paceline's data parallelism against PyTorch's, bit for bit.

    compare.py GOLDEN_DDP

Trains the same net with batch norm from the same weights on the same rows: with torch.nn.parallel.DistributedDataParallel
in two processes of this script, and with two processes of the C++ program GOLDEN_DDP, both over Gloo. Every loss of
every rank, and rank 0's weights and buffers after the last step, must be equal to the last bit.
"""

import itertools
import json
import os
import pathlib
import socket
import subprocess
import sys
import tempfile

import torch
import torch.distributed.nn  # before there is a group: imported later it keeps the group alive past its end, which aborts
from torch import nn

WORLD, STEPS, ROWS = 2, 12, 8


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(1, 8, 3, padding=1)
        self.norm1 = nn.BatchNorm2d(8)
        self.conv2 = nn.Conv2d(8, 16, 3, stride=2, padding=1)
        self.norm2 = nn.BatchNorm2d(16)
        self.head = nn.Linear(16 * 6 * 6, 10)

    def forward(self, x):
        x = torch.relu(self.norm1(self.conv1(x)))
        x = torch.relu(self.norm2(self.conv2(x)))
        return self.head(x.flatten(1))


def state_of(model):
    return list(itertools.chain(model.parameters(), model.buffers()))


def to_bytes(tensors):
    return b"".join(t.detach().contiguous().numpy().tobytes() for t in tensors)


def make_task(folder):
    torch.manual_seed(5)
    (folder / "initial.bin").write_bytes(to_bytes(state_of(Net())))
    (folder / "inputs.bin").write_bytes(to_bytes([torch.randn(STEPS, WORLD, ROWS, 1, 12, 12)]))
    (folder / "labels.bin").write_bytes(to_bytes([torch.randint(0, 10, (STEPS, WORLD, ROWS))]))


def train_rank(folder, view):
    """One rank of PyTorch's side."""
    rank = int(os.environ["RANK"])
    torch.set_num_threads(1)
    torch.distributed.init_process_group("gloo", init_method=f"file://{folder}/store", rank=rank, world_size=WORLD)
    torch.manual_seed(5)
    model = Net()  # the same numbers as in initial.bin
    ddp = nn.parallel.DistributedDataParallel(model, gradient_as_bucket_view=view)
    inputs = torch.frombuffer(bytearray((folder / "inputs.bin").read_bytes()), dtype=torch.float32)
    labels = torch.frombuffer(bytearray((folder / "labels.bin").read_bytes()), dtype=torch.int64)
    inputs, labels = inputs.view(STEPS, WORLD, ROWS, 1, 12, 12), labels.view(STEPS, WORLD, ROWS)
    optimizer = torch.optim.SGD(ddp.parameters(), lr=0.1, momentum=0.9, weight_decay=1e-4)
    losses = []
    for step in range(STEPS):
        loss = nn.functional.cross_entropy(ddp(inputs[step, rank]), labels[step, rank])
        losses.append(loss)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    (folder / f"python_{rank}.bin").write_bytes(to_bytes(losses + state_of(model)))
    # Both have what they need: destroy_process_group() of PyTorch 2.13 waits for ever now and then.
    store = torch.distributed.distributed_c10d._get_default_store()
    store.set(f"done {rank}", "")
    store.wait([f"done {other}" for other in range(WORLD)])
    os._exit(0)


def run_ranks(command):
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    ranks = []
    for rank in range(WORLD):
        variables = {"RANK": rank, "WORLD_SIZE": WORLD, "LOCAL_WORLD_SIZE": WORLD, "MASTER_ADDR": "127.0.0.1",
                     "MASTER_PORT": port, "GLOO_SOCKET_IFNAME": "lo"}
        environment = {**os.environ, **{name: str(value) for name, value in variables.items()}}
        ranks.append(subprocess.Popen(command, env=environment))
    codes = [rank.wait() for rank in ranks]
    if any(codes):
        sys.exit(f"{command[0]} failed: exit codes {codes}")


def compare(program, view):
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        make_task(folder)
        run_ranks([sys.executable, __file__, "--rank", name, str(int(view))])
        run_ranks([program, name, json.dumps({"gradient_as_bucket_view": view})])
        for rank in range(WORLD):
            # Beyond the losses, buffers of other ranks differ by design: see parallel/ddp/data_parallel.h.
            end = None if rank == 0 else 4 * STEPS
            wanted = (folder / f"python_{rank}.bin").read_bytes()[:end]
            got = (folder / f"cpp_{rank}.bin").read_bytes()[:end]
            if wanted != got:
                first = next((i for i, (a, b) in enumerate(zip(wanted, got)) if a != b), min(len(wanted), len(got)))
                sys.exit(f"bucket view {view}: rank {rank} differs from byte {first} on "
                         f"(losses are the first {4 * STEPS}; sizes {len(wanted)} and {len(got)})")
        losses = torch.frombuffer(bytearray((folder / "cpp_0.bin").read_bytes()[: 4 * STEPS]), dtype=torch.float32)
        print(f"bucket view {view}: equal to the last bit over {STEPS} steps; loss {losses[0]:.4f} to {losses[-1]:.4f}")


if __name__ == "__main__":
    if sys.argv[1] == "--rank":
        train_rank(pathlib.Path(sys.argv[2]), bool(int(sys.argv[3])))
    else:
        for bucket_view in (False, True):
            compare(sys.argv[1], bucket_view)
