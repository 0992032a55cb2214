"""Training on a GPU in Python: over NCCL, shared over Gloo, in mixed precision, out of memory; the batches' way there."""

import pathlib
import pickle

import pytest
import torch
import torch.distributed as dist
from torch.nn.functional import mse_loss
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, TensorDataset

import paceline.train as train
from paceline.train import FailureConfig, ScalingConfig, TrainingFailedError
from paceline.train.torch import (
    TorchTrainer,
    accelerate,
    backward,
    get_device,
    prepare_data_loader,
    prepare_model,
    prepare_optimizer,
)


def fit(loop, settings, workers=1):
    """With workers that share the first GPU."""
    resources = {"GPU": 1 / workers} if workers > 1 else None
    scaling = ScalingConfig(num_workers=workers, use_gpu=True, resources_per_worker=resources)
    return TorchTrainer(loop, scaling_config=scaling, run_config=settings).fit()


def of_all_ranks(value):
    values = [None] * train.get_context().get_world_size()
    dist.all_gather_object(values, value)
    return values


def test_one_rank_trains_over_nccl(run_config):
    def loop():
        device = get_device()
        model = DistributedDataParallel(torch.nn.Linear(4, 1).to(device), device_ids=[device])
        before = model.module.weight.detach().clone()
        model(torch.ones(8, 4, device=device)).mean().backward()
        torch.optim.SGD(model.parameters(), 0.1).step()
        moved = (before - model.module.weight.detach()).cpu()
        total = torch.ones(3, device=device)
        dist.all_reduce(total)
        return {"backend": dist.get_backend(), "device": str(device), "moved": moved.tolist(), "total": total.tolist()}

    seen = fit(loop, run_config()).return_value
    assert (seen["backend"], seen["device"], seen["total"]) == ("nccl", "cuda:0", [1, 1, 1])
    assert torch.allclose(torch.tensor(seen["moved"]), torch.full((1, 4), 0.1))


def test_collectives_over_nccl_are_counted_and_timed(run_config):
    def loop():
        backend = dist.group.WORLD._get_backend(get_device())
        total = torch.ones(1 << 20, device=get_device())
        for _ in range(3):
            dist.all_reduce(total)
        backend._wait_for_pending_works()
        return isinstance(backend, dist.ProcessGroupNCCL)

    settings = run_config()
    assert fit(loop, settings).return_value
    [recording] = pathlib.Path(settings.storage_path).glob("*/collectives/attempt_1/rank_0")
    entries = [one for one in pickle.loads(recording.read_bytes())["entries"] if one["input_sizes"] == [[1 << 20]]]
    assert [one["state"] for one in entries] == ["completed"] * 3


def learn():
    """Six steps with a global batch of 8."""
    torch.manual_seed(0)
    inputs, targets = torch.randn(48, 4), torch.randn(48, 1)
    model = prepare_model(torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Tanh(), torch.nn.Linear(8, 1)))
    context = train.get_context()
    loader = prepare_data_loader(DataLoader(TensorDataset(inputs, targets), batch_size=8 // context.get_world_size()))
    optimizer = torch.optim.SGD(model.parameters(), 0.1, momentum=0.9)
    for rows, wanted in loader:
        assert rows.device == wanted.device == get_device()
        optimizer.zero_grad()
        mse_loss(model(rows), wanted).backward()
        optimizer.step()
    weights = [value for parameter in model.parameters() for value in parameter.detach().cpu().flatten().tolist()]
    return {"backend": dist.get_backend(), "weights": weights}


def test_two_workers_that_share_the_gpu_learn_what_one_learns(run_config):
    one, two = fit(learn, run_config()).return_value, fit(learn, run_config(), workers=2).return_value
    assert (one["backend"], two["backend"]) == ("nccl", "gloo")
    assert two["weights"] == pytest.approx(one["weights"], abs=1e-4)


def test_a_step_that_overflows_on_one_rank_is_left_out_on_all(run_config):
    def loop():
        accelerate(amp=True)
        model = prepare_model(torch.nn.Linear(4, 1, bias=False))
        torch.nn.init.constant_(model.module.weight, 0.5)
        optimizer = prepare_optimizer(torch.optim.SGD(model.parameters(), 1.0))
        seen = []
        for step in range(3):
            inputs = torch.ones(8, 4, device=get_device())
            if step == 1 and train.get_context().get_world_rank() == 1:
                inputs[0, 0] = 1e5  # more than float16 can hold
            optimizer.zero_grad()
            outputs = model(inputs)
            assert outputs.dtype == torch.float16
            backward(outputs.float().square().mean() * 1e-3)  # of a gradient that float16 holds with the first scale
            optimizer.step()
            seen.append(model.module.weight[0, 0].item())
        return of_all_ranks(seen)

    of_one, of_the_other = fit(loop, run_config(), workers=2).return_value
    assert of_one == of_the_other
    assert 0.5 > of_one[0] == of_one[1] > of_one[2]


@pytest.mark.parametrize("auto_transfer", [True, False])
@pytest.mark.parametrize("pin_memory", [True, False])
def test_batches_are_whole_when_they_are_computed_with(run_config, pin_memory, auto_transfer):
    def loop():
        matrix = torch.randn(4096, 4096, device=get_device())
        rows = torch.arange(160).float().unsqueeze(1).expand(160, 65_536)
        loader = DataLoader(TensorDataset(rows, torch.arange(160)), batch_size=8, pin_memory=pin_memory)
        wrong = torch.zeros((), dtype=torch.long, device=get_device())
        for batch, labels in prepare_data_loader(loader, auto_transfer=auto_transfer):
            torch.mm(matrix, matrix)  # the next batch is on its way, and this one is read late
            wrong += batch.ne(labels.unsqueeze(1)).sum()
        return wrong.item()

    assert fit(loop, run_config()).return_value == 0


def test_a_full_gpu_is_an_exception_of_its_rank_and_a_restart_finds_it_free(run_config):
    def loop():
        context = train.get_context()
        held = [torch.ones(2**28, device=get_device())]  # 1 GiB, all the time
        if context.get_attempt() == 1 and context.get_world_rank() == 1:
            held.append(torch.empty(2**48, device=get_device()))
        dist.barrier()
        return context.get_attempt()

    with pytest.raises(TrainingFailedError) as error:
        fit(loop, run_config(), workers=2)
    for words in ("ank 1 of 2", "CUDA out of memory", "use smaller batches"):
        assert words in str(error.value)
    again = run_config(failure_config=FailureConfig(max_failures=1))
    assert fit(loop, again, workers=2).return_value == 2
