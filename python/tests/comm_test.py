"""The backend "paceline" of torch.distributed, in a trainer's workers and in programs without one."""

import os
import pathlib
import signal
import subprocess
import sys

import pytest
import torch
import torch.distributed as dist

import paceline.train as train
from paceline.train import ScalingConfig
from paceline.train.torch import TorchConfig, TorchTrainer

COLLECTIVES = """
import os, torch, torch.distributed as dist
import paceline.comm

def check(rank, world):
    ones = torch.full((3,), float(rank + 1))
    dist.all_reduce(ones)
    assert ones.tolist() == [world * (world + 1) / 2] * 3
    mean = torch.full((2, 3), float(rank)).t()
    dist.all_reduce(mean, dist.ReduceOp.AVG)
    assert mean.tolist() == [[(world - 1) / 2] * 2] * 3
    word = torch.tensor([rank * 7])
    dist.broadcast(word, src=world - 1)
    assert word.item() == (world - 1) * 7
    parts = [torch.empty(2, dtype=torch.int64) for _ in range(world)]
    dist.all_gather(parts, torch.tensor([rank, -rank]))
    assert [part.tolist() for part in parts] == [[r, -r] for r in range(world)]
    whole = torch.empty(2 * world)
    dist.all_gather_into_tensor(whole, torch.full((2,), float(rank)))
    assert whole.tolist() == [float(r) for r in range(world) for _ in range(2)]
    mine = torch.empty(2)
    dist.reduce_scatter_tensor(mine, torch.arange(2.0 * world))
    assert mine.tolist() == [world * (2.0 * rank), world * (2.0 * rank + 1)]
    sent = torch.arange(world, dtype=torch.float32) + 10 * rank
    got = torch.empty(world)
    dist.all_to_all_single(got, sent)
    assert got.tolist() == [10.0 * r + rank for r in range(world)]
    objects = [None] * world
    dist.all_gather_object(objects, {"rank": rank})
    assert objects == [{"rank": r} for r in range(world)]
    work = dist.all_reduce(torch.ones(1 << 18), async_op=True)
    (result,) = work.get_future().wait()
    assert result.unique().tolist() == [float(world)]
    half = dist.new_group([0, 1], backend="paceline")
    if rank < 2:
        one = torch.ones(1, dtype=torch.bfloat16)
        dist.all_reduce(one, group=half)
        assert one.item() == 2
    word = torch.arange(6.0).reshape(2, 3).t() if rank == 0 else torch.zeros(3, 2)
    if rank == 0:
        dist.send(word, dst=world - 1, tag=7)
    elif rank == world - 1:
        source = dist.recv(word, tag=7)
        assert source == 0 and word.tolist() == [[0.0, 3.0], [1.0, 4.0], [2.0, 5.0]]
    around = [dist.P2POp(dist.isend, torch.full((1 << 20,), float(rank)), (rank + 1) % world),
              dist.P2POp(dist.irecv, got := torch.empty(1 << 20), (rank - 1) % world)]
    for one in dist.batch_isend_irecv(around):
        one.wait()
    assert got.unique().tolist() == [float((rank - 1) % world)]
    sparse = torch.sparse_coo_tensor([[rank, world]], [[1.0, 2.0], [3.0, 4.0]], (world + 1, 2))
    dist.all_reduce(sparse)
    assert sparse.to_dense().tolist() == [[1.0, 2.0]] * world + [[3.0 * world, 4.0 * world]]
    dist.barrier()
"""

PROGRAM = COLLECTIVES + """
dist.init_process_group("paceline")
check(dist.get_rank(), dist.get_world_size())
from torch.nn.parallel import DistributedDataParallel
torch.manual_seed(dist.get_rank())
model = DistributedDataParallel(torch.nn.Linear(300, 300), gradient_as_bucket_view=True)
model(torch.ones(2, 300) * (dist.get_rank() + 1)).sum().backward()
gathered = [torch.empty_like(model.module.weight.grad) for _ in range(dist.get_world_size())]
dist.all_gather(gathered, model.module.weight.grad)
assert all(torch.equal(gathered[0], one) for one in gathered)
print("done", dist.get_rank())
dist.destroy_process_group()
"""


# What a work lets go of is Python's: its lock is wanted by threads of the group while Python asks the group.
ASKING = """
import os
import torch, torch.distributed as dist
import paceline.comm
from torch.distributed.algorithms.ddp_comm_hooks import default_hooks

dist.init_process_group("paceline")
for _ in range(1000):
    work = dist.all_reduce(torch.ones(3), async_op=True)
    while not work.is_completed():
        pass
threads = len(os.listdir("/proc/self/task"))
assert threads < 60, threads
layers = [torch.nn.Linear(64, 64) for _ in range(20)]
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Sequential(*layers), bucket_cap_mb=0.02)
model.register_comm_hook(None, default_hooks.fp16_compress_hook)
for _ in range(60):
    model(torch.randn(4, 64)).sum().backward()
print("done", dist.get_rank())
dist.destroy_process_group()
"""


# Python cannot be called any more once it has ended, nor can a thread that would.
ENDING = """
import time
import torch, torch.distributed as dist
import paceline.comm

dist.init_process_group("paceline")
work = dist.all_reduce(torch.ones(3), async_op=True)
work.get_future().then(lambda _: time.sleep(0.05))
work.wait()
print("done", dist.get_rank())
"""

WAITING_FOR_ANOTHER_AT_THE_END = """
import threading
import torch, torch.distributed as dist
import paceline.comm

def chain(_):
    begun.set()
    threading.main_thread().join()
    dist.all_reduce(torch.ones(3), async_op=True).get_future().wait()
    print("done", dist.get_rank(), flush=True)

begun = threading.Event()
dist.init_process_group("paceline")
dist.all_reduce(torch.ones(3), async_op=True).get_future().add_done_callback(chain)
begun.wait()
"""

# What was registered first is called last.
WHEN_CALLBACKS_HAVE_STOPPED = """
import atexit
import torch, torch.distributed as dist

@atexit.register
def last():
    for _ in range(100):
        future = dist.all_reduce(torch.ones(3), async_op=True).get_future()
        assert future.then(lambda done: done.value()[0].sum().item()).wait() == 6
        future.wait()
    print("done", dist.get_rank(), flush=True)

import paceline.comm
dist.init_process_group("paceline")
dist.barrier()
"""

# Each rank is on a node of its own, as it says; a message is no call that both make.
WHEN_CALLBACKS_HAVE_STOPPED_BETWEEN_NODES = (
    """
import atexit

@atexit.register
def last_of_all():
    values = torch.ones(3)
    if dist.get_rank() == 1:
        dist.isend(values, 0).wait()
    else:
        assert dist.irecv(values, 1).get_future().then(lambda done: 6).wait() == 6
"""
    + WHEN_CALLBACKS_HAVE_STOPPED.replace(
        "import paceline.comm\n",
        """import paceline.comm
from paceline._native import native
paceline.comm._make = lambda options: native.make_shared_memory(
    options.store, options.group_rank, options.group_size, options.timeout, counted=False, node=str(options.group_rank))
""",
    )
)

# Rank 1 comes when the callbacks of rank 0 have stopped, which has asked for its future before.
COMPLETED_AFTER_CALLBACKS = """
import atexit, os
import torch, torch.distributed as dist

@atexit.register
def last():
    if dist.get_rank() == 0:
        store.set("stopped", "1")
        future.wait()
    print("done", dist.get_rank(), flush=True)

import paceline.comm
dist.init_process_group("paceline")
store = dist.PrefixStore("test", dist.distributed_c10d._get_default_store())
dist.barrier()
if dist.get_rank() == 1:
    store.wait(["stopped"])
future = dist.all_reduce(torch.ones(3), async_op=True).get_future()
future.add_done_callback(lambda _: os._exit(7) if dist.get_rank() == 0 else None)
"""

# A thread of the group lets go of a tensor that Python has made while another asks for a future.
ASKED_FOR_WHILE_ANOTHER_ENDS = """
import atexit, datetime
import torch, torch.distributed as dist

@atexit.register
def last():
    values = torch.zeros(1 << 22)
    if dist.get_rank() == 1:
        dist.irecv(values, 0).wait()
        dist.isend(torch.ones(1 << 22), 0).wait()
    else:
        dist.isend(torch.ones(1 << 22), 1)
        dist.irecv(values, 1).get_future().wait()
    print("done", dist.get_rank(), flush=True)

import paceline.comm
dist.init_process_group("paceline", timeout=datetime.timedelta(seconds=20))
dist.barrier()
"""


@pytest.mark.parametrize(
    "program",
    [
        ENDING,
        WAITING_FOR_ANOTHER_AT_THE_END,
        WHEN_CALLBACKS_HAVE_STOPPED,
        WHEN_CALLBACKS_HAVE_STOPPED_BETWEEN_NODES,
        COMPLETED_AFTER_CALLBACKS,
        ASKED_FOR_WHILE_ANOTHER_ENDS,
    ],
)
def test_a_program_may_end_while_callbacks_run(tmp_path, program):
    (tmp_path / "program.py").write_text(program)
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"]
    done = subprocess.run([*command, tmp_path / "program.py"], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0 and done.stdout.count("done") == 2, done.stdout + done.stderr


# Each rank is on a node of its own, as it says.
WAITING_LATE_FOR_A_MESSAGE = """
import datetime, os, pathlib, select, sys
import torch, torch.distributed as dist
import paceline.comm
from paceline._native import native

rank, folder = int(sys.argv[1]), pathlib.Path(sys.argv[2])
paceline.comm._make = lambda options: native.make_shared_memory(
    options.store, options.group_rank, options.group_size, options.timeout, counted=False, node=str(rank))
dist.init_process_group("paceline", store=dist.FileStore(str(folder / "store"), 2), rank=rank, world_size=2,
                        timeout=datetime.timedelta(seconds=60))
dist.barrier()
if rank == 1:
    (folder / "sender").write_text(str(os.getpid()))
    dist.isend(torch.full((1000,), 7.0), 0).wait()
    (folder / "come").read_text()
    os._exit(0)
got = torch.zeros(1000)
message = dist.irecv(got, 1)
sender = os.pidfd_open(int((folder / "sender").read_text()))
while got[-1] == 0:
    pass
(folder / "come").write_text("")
select.select([sender], [], [])
message.wait()
assert got.eq(7).all()
print("done", flush=True)
"""


def test_a_message_that_has_come_counts_though_its_sender_has_ended(tmp_path):
    for name in ("come", "sender"):
        os.mkfifo(tmp_path / name)
    command = [sys.executable, "-c", WAITING_LATE_FOR_A_MESSAGE]
    ranks = [subprocess.Popen([*command, str(rank), str(tmp_path)], stdout=subprocess.PIPE, text=True) for rank in (0, 1)]
    printed = [rank.communicate(timeout=100)[0] for rank in ranks]
    assert printed == ["done\n", ""], printed


# Ranks 0 and 1 are on one node, as they say, and rank 2 on another.
LEAVING_A_FORK = """
import datetime, os, pathlib, signal, sys
import torch, torch.distributed as dist
import paceline.comm
from paceline._native import native

rank, folder, when = int(sys.argv[1]), pathlib.Path(sys.argv[2]), sys.argv[3]
paceline.comm._make = lambda options: native.make_shared_memory(
    options.store, options.group_rank, options.group_size, options.timeout, counted=False, node=str(rank // 2))
dist.init_process_group("paceline", store=dist.FileStore(str(folder / "store"), 3), rank=rank, world_size=3,
                        timeout=datetime.timedelta(seconds=60))
dist.barrier()
if rank == 2:
    fork = os.fork()
    if fork == 0:
        signal.pause()
    (folder / "fork").write_text(str(fork))
    (folder / "die").read_text()
    os.kill(os.getpid(), signal.SIGKILL)
try:
    if rank == 1:
        message = dist.irecv(torch.ones(3), 2)
        (folder / "ready").write_text("")
        if when == "later":
            (folder / "failed").read_text()
        message.wait()
    else:
        dist.barrier()
except dist.DistBackendError as error:
    print(paceline.comm.lost_ranks(error), flush=True)
if rank == 0 and when == "later":
    (folder / "failed").write_text("")
os._exit(0)
"""


@pytest.mark.parametrize("when", ["at once", "later", "stopped meanwhile"])
def test_a_message_from_a_lost_rank_of_another_node_ends_while_a_fork_of_it_lives(tmp_path, when):
    (tmp_path / "program.py").write_text(LEAVING_A_FORK)
    for pipe in ("ready", "die", "failed"):
        os.mkfifo(tmp_path / pipe)
    ranks = [subprocess.Popen([sys.executable, tmp_path / "program.py", str(rank), tmp_path, when], stdout=subprocess.PIPE,
                              text=True) for rank in range(3)]
    try:
        (tmp_path / "ready").read_text()
        if when == "stopped meanwhile":  # until the rank that tells it has ended
            ranks[1].send_signal(signal.SIGSTOP)
            os.waitpid(ranks[1].pid, os.WUNTRACED)
        (tmp_path / "die").write_text("")
        assert ranks[0].communicate(timeout=40)[0] == "[2]\n"
        ranks[1].send_signal(signal.SIGCONT)
        assert ranks[1].communicate(timeout=40)[0] == "[2]\n"
    finally:
        for rank in ranks:
            rank.kill()
        fork = int((tmp_path / "fork").read_text())
        os.kill(fork, signal.SIGKILL)  # it is there


def test_who_asks_for_works_waits_for_nothing_of_theirs(tmp_path):
    (tmp_path / "program.py").write_text(ASKING)
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"]
    done = subprocess.run([*command, tmp_path / "program.py"], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0 and done.stdout.count("done") == 2, done.stdout + done.stderr


@pytest.mark.parametrize("world_size", [2, 3])
def test_a_program_without_a_trainer(tmp_path, world_size):
    (tmp_path / "program.py").write_text(PROGRAM)
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={world_size}"]
    environment = {**os.environ, "DDP_DISABLE_COMM_MEM": "0"}
    done = subprocess.run(
        [*command, tmp_path / "program.py"], capture_output=True, text=True, timeout=120, env=environment
    )
    assert done.returncode == 0 and done.stdout.count("done") == world_size, done.stdout + done.stderr


def trains(config):
    torch.manual_seed(0)
    model = train.torch.prepare_model(torch.nn.Linear(64, 64))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    generator = torch.Generator().manual_seed(train.get_context().get_world_rank())
    for _ in range(3):
        optimizer.zero_grad()
        model(torch.randn(8, 64, generator=generator)).square().mean().backward()
        optimizer.step()
    train.report({"backend": dist.get_backend(), "weights": model.module.weight.sum().item()})


def test_by_default_a_trainer_trains_the_same_weights_as_over_gloo(run_config):
    results = [
        TorchTrainer(
            trains,
            scaling_config=ScalingConfig(num_workers=2),
            torch_config=TorchConfig(backend=backend),
            run_config=run_config(),
        )
        .fit()
        .metrics
        for backend in ("gloo", None)
    ]
    assert [result["backend"] for result in results] == ["gloo", "paceline"]
    assert results[0]["weights"] == results[1]["weights"]


def waits_for_a_lost_rank(config):
    rank = train.get_context().get_world_rank()
    if rank == 1 and train.get_context().get_attempt() == 1:
        os.kill(os.getpid(), 9)
    try:
        dist.all_reduce(torch.ones(1))
    except dist.DistBackendError as error:
        pathlib.Path(config["lost"]).write_text(str(error))
        raise
    train.report({"attempt": train.get_context().get_attempt()})


def test_a_rank_that_dies_ends_the_others_collectives(run_config, tmp_path):
    lost = tmp_path / "lost"
    result = TorchTrainer(
        waits_for_a_lost_rank,
        train_loop_config={"lost": str(lost)},
        scaling_config=ScalingConfig(num_workers=2),
        torch_config=TorchConfig(backend="paceline"),
        run_config=run_config(failure_config=train.FailureConfig(max_failures=1)),
    ).fit()
    assert result.metrics["attempt"] == 2
    assert "for want of rank 1" in lost.read_text() or "told to stop" in lost.read_text()  # whoever hears first
