"""What trains inside a train loop by itself: PyTorch's own parallelism, Accelerate, TorchMetrics. Equal to one process."""

import os
import signal
import tempfile

import pytest
import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from accelerate import Accelerator
from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module
from torch.nn.functional import mse_loss
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset
from torchmetrics import MeanMetric, R2Score

import paceline.train as train
from paceline.train import Checkpoint, CheckpointConsistencyMode, FailureConfig, ScalingConfig
from paceline.train.torch import TorchTrainer


def network():
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Tanh(), torch.nn.Linear(8, 2))


def adam(model):
    return torch.optim.AdamW(model.parameters(), lr=1e-2)


def rows():
    inputs = torch.sin(torch.arange(192.0)).reshape(48, 4)
    return TensorDataset(inputs, inputs[:, :2] * inputs[:, 2:])


def batches(size):
    """Global batches, in order."""
    return [part for part in zip(*(tensor.split(size) for tensor in rows().tensors))]


@pytest.fixture(scope="module")
def losses_of_one_process():
    model = network()
    optimizer = adam(model)
    return [one_step(model, optimizer, mse_loss(model(inputs), targets)) for inputs, targets in batches(8)]


def one_step(model, optimizer, loss):
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    return loss.item()


def returned(settings, loop, workers=2, config=None):
    scaling = ScalingConfig(num_workers=workers)
    return TorchTrainer(loop, train_loop_config=config, scaling_config=scaling, run_config=settings).fit()


def mean_of_ranks(value):
    values = [None] * dist.get_world_size()
    dist.all_gather_object(values, value)
    return sum(values) / len(values)


def test_ddp_by_hand(run_config, losses_of_one_process):
    def loop():
        rank, world_size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
        sampler = DistributedSampler(rows(), world_size, rank, shuffle=False)
        model = DistributedDataParallel(network())
        optimizer = adam(model)
        losses = []
        for inputs, targets in DataLoader(rows(), batch_size=8 // world_size, sampler=sampler):
            losses.append(mean_of_ranks(one_step(model, optimizer, mse_loss(model(inputs), targets))))
        return losses

    assert returned(run_config(), loop).return_value == pytest.approx(losses_of_one_process, rel=1e-4)


def sharded_loop(config):
    context = train.get_context()
    rank = context.get_world_rank()
    model = network()
    mesh = init_device_mesh("cpu", (2,))
    for part in (model[0], model[2], model):
        fully_shard(part, mesh=mesh)
    optimizer = adam(model)
    start = 0
    if checkpoint := train.get_checkpoint():
        model_state, optimizer_state = get_state_dict(model, optimizer)
        state = {"model": model_state, "optimizer": optimizer_state, "step": 0}
        with checkpoint.as_directory() as folder:
            dcp.load(state, checkpoint_id=folder)
        set_state_dict(model, optimizer, model_state_dict=state["model"], optim_state_dict=state["optimizer"])
        start = state["step"]
    for step, (inputs, targets) in list(enumerate(batches(8)))[start:]:
        mine = slice(rank * 4, rank * 4 + 4)
        loss = one_step(model, optimizer, mse_loss(model(inputs[mine]), targets[mine]))
        model_state, optimizer_state = get_state_dict(model, optimizer)
        state = {"model": model_state, "optimizer": optimizer_state, "step": step + 1}
        with tempfile.TemporaryDirectory() as folder:  # each rank has its own
            dcp.save(state, checkpoint_id=folder)
            train.report({"loss": mean_of_ranks(loss), "step": step}, Checkpoint.from_directory(folder))
        if step == config.get("killed_at") and context.get_attempt() == 1 and rank == 1:
            train.get_all_reported_checkpoints(CheckpointConsistencyMode.COMMITTED)
            os.kill(os.getpid(), signal.SIGKILL)


def test_fsdp2_with_a_distributed_checkpoint_resumes_with_the_same_losses(run_config, losses_of_one_process):
    undisturbed = returned(run_config(), sharded_loop)
    settings = run_config(failure_config=FailureConfig(max_failures=1))
    killed = returned(settings, sharded_loop, config={"killed_at": 2})
    assert [row["attempt"] for row in killed.metrics_history.to_pylist() if row["rank"] == 0] == [1, 1, 1, 2, 2, 2]
    losses = list(killed.metrics_dataframe["loss"])
    assert losses == list(undisturbed.metrics_dataframe["loss"])
    assert losses == pytest.approx(losses_of_one_process, rel=1e-4)
    files = os.listdir(killed.checkpoint.path)
    assert {".metadata", "__0_0.distcp", "__1_0.distcp"} <= set(files)


def test_accelerate(run_config, losses_of_one_process):
    def loop():
        accelerator = Accelerator()
        model = network()
        model, optimizer, loader = accelerator.prepare(model, adam(model), DataLoader(rows(), batch_size=4))
        losses = []
        for inputs, targets in loader:
            loss = mse_loss(model(inputs), targets)
            accelerator.backward(loss)
            optimizer.step()
            optimizer.zero_grad()
            losses.append(accelerator.gather(loss).mean().item())
        return [accelerator.num_processes, accelerator.device.type, torch.get_num_threads(), losses]

    settings = ScalingConfig(num_workers=2, threads_per_worker=1)
    trainer = TorchTrainer(loop, scaling_config=settings, run_config=run_config())
    processes, device, threads, losses = trainer.fit().return_value
    assert (processes, device, threads) == (2, "cpu", 1)
    assert losses == pytest.approx(losses_of_one_process, rel=1e-4)


def test_torchmetrics_of_all_workers_are_those_of_one_process(run_config):
    def loop():
        rank, world_size = train.get_context().get_world_rank(), train.get_context().get_world_size()
        model = network()
        r2, train_loss, validation_loss = R2Score(), MeanMetric(), MeanMetric()
        for number, (inputs, targets) in enumerate(batches(6)):
            if number % world_size != rank:
                continue
            with torch.no_grad():
                outputs = model(inputs)
            loss = train_loss if number < 4 else validation_loss
            loss.update(mse_loss(outputs, targets), weight=len(inputs))
            r2.update(outputs, targets)
        train.report(
            {
                "r2": r2.compute().item(),
                "train_loss": train_loss.compute().item(),
                "validation_loss": validation_loss.compute().item(),
            }
        )

    alone = returned(run_config(), loop, workers=1).metrics
    assert returned(run_config(), loop, workers=2).metrics == pytest.approx(alone, rel=1e-5)
    inputs, targets = rows().tensors
    with torch.no_grad():
        outputs = network()(inputs)
    assert alone["train_loss"] == pytest.approx(mse_loss(outputs[:24], targets[:24]).item(), rel=1e-5)
    unexplained = ((outputs - targets) ** 2).sum(0) / ((targets - targets.mean(0)) ** 2).sum(0)
    assert alone["r2"] == pytest.approx((1 - unexplained.mean()).item(), rel=1e-4)


class ToEach(torch.autograd.Function):
    """Megatron's f: the same input to each rank of the group, whose gradients are summed."""

    @staticmethod
    def forward(context, value, group):
        context.group = group
        return value

    @staticmethod
    def backward(context, gradient):
        gradient = gradient.clone()
        dist.all_reduce(gradient, group=context.group)
        return gradient, None


class FromEach(torch.autograd.Function):
    """Megatron's g: the sum of what each rank of the group has."""

    @staticmethod
    def forward(context, value, group):
        value = value.clone()
        dist.all_reduce(value, group=group)
        return value

    @staticmethod
    def backward(context, gradient):
        return gradient, None


def test_tensor_parallel_groups_by_hand_as_megatron_makes_them(run_config, losses_of_one_process):
    def loop():
        rank = dist.get_rank()
        groups = {ranks: dist.new_group(ranks) for ranks in ((0, 1), (2, 3), (0, 2), (1, 3))}  # all ranks make each
        tensor_group = groups[(0, 1) if rank < 2 else (2, 3)]
        data_group = groups[(0, 2) if rank % 2 == 0 else (1, 3)]
        whole = network()
        mine = slice(rank % 2 * 4, rank % 2 * 4 + 4)  # of the 8 hidden units
        first = torch.nn.Linear(4, 4)
        second = torch.nn.Linear(4, 2, bias=False)
        bias = torch.nn.Parameter(whole[2].bias.detach().clone())
        with torch.no_grad():
            first.weight.copy_(whole[0].weight[mine])
            first.bias.copy_(whole[0].bias[mine])
            second.weight.copy_(whole[2].weight[:, mine])
        parameters = [*first.parameters(), *second.parameters(), bias]
        optimizer = torch.optim.AdamW(parameters, lr=1e-2)
        losses = []
        for inputs, targets in batches(8):
            half = slice(rank // 2 * 4, rank // 2 * 4 + 4)
            hidden = torch.tanh(first(ToEach.apply(inputs[half], tensor_group)))
            loss = mse_loss(FromEach.apply(second(hidden), tensor_group) + bias, targets[half])
            optimizer.zero_grad()
            loss.backward()
            for parameter in parameters:
                dist.all_reduce(parameter.grad, group=data_group)
                parameter.grad /= 2
            optimizer.step()
            losses.append(mean_of_ranks(loss.item()))
        return losses

    assert returned(run_config(), loop, workers=4).return_value == pytest.approx(losses_of_one_process, rel=1e-4)


def test_a_device_mesh_of_data_and_tensor_parallelism(run_config, losses_of_one_process):
    def loop():
        mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("data", "tensor"))
        model = parallelize_module(network(), mesh["tensor"], {"0": ColwiseParallel(), "2": RowwiseParallel()})
        fully_shard(model, mesh=mesh["data"])
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
        losses = []
        for inputs, targets in batches(8):
            half = slice(mesh.get_local_rank("data") * 4, mesh.get_local_rank("data") * 4 + 4)
            losses.append(mean_of_ranks(one_step(model, optimizer, mse_loss(model(inputs[half]), targets[half]))))
        return losses

    assert returned(run_config(), loop, workers=4).return_value == pytest.approx(losses_of_one_process, rel=1e-4)
