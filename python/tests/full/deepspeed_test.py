"""DeepSpeed in a train loop, on CPUs over Gloo: each ZeRO stage trains as one process does, and resumes from the checkpoint
that all ranks have written."""

import os
import signal
import tempfile
import warnings

os.environ.setdefault("DS_ACCELERATOR", "cpu")

import deepspeed  # noqa: E402
import deepspeed.ops  # noqa: E402
import pytest  # noqa: E402
import torch  # noqa: E402
import torch.distributed as dist  # noqa: E402
from torch.nn.functional import mse_loss  # noqa: E402

import paceline.train as train  # noqa: E402
from paceline.train import Checkpoint, CheckpointConsistencyMode, FailureConfig, ScalingConfig  # noqa: E402
from paceline.train.torch import TorchTrainer  # noqa: E402

STEPS = 6


def network():
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Tanh(), torch.nn.Linear(8, 2))


def batches():
    inputs = torch.sin(torch.arange(STEPS * 32.0)).reshape(-1, 4)
    return list(zip(inputs.split(8), (inputs[:, :2] * inputs[:, 2:]).split(8)))


@pytest.fixture(scope="module")
def losses_of_one_process():
    model = network()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    losses = []
    for inputs, targets in batches():
        loss = mse_loss(model(inputs), targets)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


def loop(config):
    warnings.simplefilter("ignore", FutureWarning)  # DeepSpeed calls collectives by their older names
    deepspeed.ops.__compatible_ops__ = {}  # what it would compile for CPUs is for inference
    context = train.get_context()
    rank = context.get_world_rank()
    model = network()
    engine, *_ = deepspeed.initialize(
        model=model,
        model_parameters=model.parameters(),
        config={
            "train_micro_batch_size_per_gpu": 4,
            "optimizer": {"type": "AdamW", "params": {"lr": 1e-2, "weight_decay": 1e-2, "torch_adam": True}},
            "zero_optimization": {"stage": config["stage"]},
        },
    )
    start = 0
    if checkpoint := train.get_checkpoint():
        with checkpoint.as_directory() as folder:
            _, state = engine.load_checkpoint(folder)
        start = state["step"]
    for step, (inputs, targets) in list(enumerate(batches()))[start:]:
        mine = slice(rank * 4, rank * 4 + 4)
        loss = mse_loss(engine(inputs[mine]), targets[mine])
        engine.backward(loss)
        engine.step()
        mean = loss.detach() / 2
        dist.all_reduce(mean)
        with tempfile.TemporaryDirectory() as folder:
            engine.save_checkpoint(folder, client_state={"step": step + 1})
            train.report({"loss": mean.item(), "step": step}, Checkpoint.from_directory(folder))
        if step == 2 and rank == 1 and context.get_attempt() == 1:
            train.get_all_reported_checkpoints(CheckpointConsistencyMode.COMMITTED)
            os.kill(os.getpid(), signal.SIGKILL)
    assert dist.get_backend() == "gloo"


@pytest.mark.parametrize("stage", [1, 2, 3])
def test_a_killed_run_resumes_from_all_ranks_shards_with_the_losses_of_one_process(
    run_config, losses_of_one_process, stage
):
    result = TorchTrainer(
        loop,
        train_loop_config={"stage": stage},
        scaling_config=ScalingConfig(num_workers=2),
        run_config=run_config(failure_config=FailureConfig(max_failures=1)),
    ).fit()
    frame = result.metrics_dataframe
    assert [row["attempt"] for row in result.metrics_history.to_pylist() if row["rank"] == 0] == [1, 1, 1, 2, 2, 2]
    assert list(frame["loss"]) == pytest.approx(losses_of_one_process, rel=1e-3)
    files = os.listdir(f"{result.checkpoint.path}/global_step{STEPS}")
    assert sorted(name for name in files if name.endswith("optim_states.pt")) == [
        "zero_pp_rank_0_mp_rank_00_optim_states.pt",
        "zero_pp_rank_1_mp_rank_00_optim_states.pt",
    ]
    assert open(f"{result.checkpoint.path}/latest").read() == f"global_step{STEPS}"
