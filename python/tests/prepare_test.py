"""prepare_data_loader, prepare_model and their kin: what a train loop gets on two workers, and on one."""

import collections
import gc
import weakref

import pytest
import torch
from torch.utils.data import BatchSampler, DataLoader, DistributedSampler, SequentialSampler, TensorDataset

import paceline.train as train
from paceline.train import DebugConfig, ScalingConfig
from paceline.train.torch import (
    TorchConfig,
    TorchTrainer,
    accelerate,
    backward,
    enable_reproducibility,
    get_device,
    get_devices,
    prepare_data_loader,
    prepare_model,
    prepare_optimizer,
)


def returned(run_config, loop, workers=2):
    trainer = TorchTrainer(loop, scaling_config=ScalingConfig(num_workers=workers), run_config=run_config())
    return trainer.fit().return_value


def seen(loader):
    return [row for batch in loader for row in batch[0].tolist()]


def rows(count=10):
    return TensorDataset(torch.arange(count))


def of_all_ranks(value):
    """Every rank's value, on rank 0."""
    values = [None] * train.get_context().get_world_size()
    torch.distributed.all_gather_object(values, value)
    return values


def test_each_row_goes_to_one_worker(run_config):
    def loop():
        loader = prepare_data_loader(DataLoader(rows(), batch_size=2))
        assert isinstance(loader, DataLoader) and len(loader) == 3 and loader.batch_size == 2
        assert isinstance(loader.sampler, DistributedSampler) and len(loader.dataset) == 10
        return of_all_ranks(seen(loader))

    assert returned(run_config, loop) == [[0, 2, 4, 6, 8], [1, 3, 5, 7, 9]]


def test_passes_are_shuffled_anew_with_and_without_set_epoch(run_config):
    def loop():
        loader = prepare_data_loader(DataLoader(rows(50), batch_size=5, shuffle=True))
        by_itself = [seen(loader) for _ in range(3)]
        again = []
        for epoch in range(3):
            loader.sampler.set_epoch(epoch)
            again.append(seen(loader))
        return of_all_ranks([by_itself, again])

    both = returned(run_config, loop)
    for by_itself, again in both:
        assert by_itself == again
        assert by_itself[0] != by_itself[1] != by_itself[2]
    assert sorted(both[0][0][0] + both[1][0][0]) == list(range(50))


def test_at_one_worker_the_sampler_stays_and_set_epoch_may_be_called(run_config):
    def loop():
        loader = prepare_data_loader(DataLoader(rows(), batch_size=2))
        loader.sampler.set_epoch(3)
        return [isinstance(loader.sampler, SequentialSampler), seen(loader)]

    assert returned(run_config, loop, workers=1) == [True, list(range(10))]


def test_at_one_worker_set_epoch_decides_the_order_but_not_that_of_a_generator(run_config):
    def loop():
        def passes(loader, epochs):
            orders = []
            for epoch in epochs:
                loader.sampler.set_epoch(epoch)
                orders.append(seen(loader))
            return orders

        torch.manual_seed(0)
        shuffled = prepare_data_loader(DataLoader(rows(50), batch_size=5, shuffle=True))
        own = prepare_data_loader(DataLoader(rows(50), shuffle=True, generator=torch.Generator().manual_seed(1)))
        return [passes(shuffled, (0, 1, 0)), passes(own, (0, 0)), seen(shuffled) != seen(shuffled)]

    (first, second, again), (one, other), anew = returned(run_config, loop, workers=1)
    assert first == again != second and sorted(first) == sorted(second) == list(range(50))
    assert one != other and anew


def test_what_the_loader_was_made_with_is_kept(run_config):
    def loop():
        loader = prepare_data_loader(
            DataLoader(rows(), batch_size=2, num_workers=1, prefetch_factor=3, persistent_workers=True, drop_last=True)
        )
        own = DistributedSampler(rows(), num_replicas=2, rank=train.get_context().get_world_rank(), seed=7)
        kept = prepare_data_loader(DataLoader(rows(), sampler=own))
        whole = prepare_data_loader(DataLoader(rows(), batch_size=2), add_dist_sampler=False)
        return [loader.prefetch_factor, loader.persistent_workers, loader.drop_last, kept.sampler is own, seen(whole)]

    assert returned(run_config, loop) == [3, True, True, True, list(range(10))]


def test_batches_of_an_own_batch_sampler_are_shared(run_config):
    def loop():
        batches = BatchSampler(SequentialSampler(rows()), batch_size=2, drop_last=False)
        loader = prepare_data_loader(DataLoader(rows(), batch_sampler=batches))
        return of_all_ranks([len(loader), [batch[0].tolist() for batch in loader]])

    assert returned(run_config, loop) == [[3, [[0, 1], [4, 5], [8, 9]]], [3, [[2, 3], [6, 7], [0, 1]]]]


def test_nested_batches_are_moved():
    from paceline.train.torch.data_loader import _to

    Pair = collections.namedtuple("Pair", "left right")
    batch = {"a": [torch.ones(1), ("text", torch.ones(2))], "b": Pair(torch.ones(3), 4)}
    moved = _to(batch, torch.device("meta"))
    assert moved["a"][0].is_meta and moved["a"][1][1].is_meta and moved["a"][1][0] == "text"
    assert isinstance(moved["b"], Pair) and moved["b"].left.is_meta and moved["b"].right == 4


def trained(strategy, kwargs=None):
    """Losses and the full weights of three steps with the same data on every rank."""
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.Linear(16, 4))
    model = prepare_model(model, parallel_strategy=strategy, parallel_strategy_kwargs=kwargs)
    optimizer = torch.optim.AdamW(model.parameters(), 1e-2)
    inputs = torch.linspace(-1, 1, 32).reshape(4, 8)
    losses = []
    for _ in range(3):
        loss = model(inputs).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    weights = {}
    for name, value in model.module.state_dict().items():
        full = value.full_tensor() if hasattr(value, "full_tensor") else value
        weights[name] = full.flatten().tolist()
    return losses, weights


def test_every_strategy_trains_as_one_process_does(run_config):
    losses, weights = returned(run_config, lambda: trained("ddp"), workers=1)
    for loop in (
        lambda: trained("ddp"),
        lambda: trained("fsdp"),
        lambda: trained("fsdp", {"reshard_after_forward": False}),
        lambda: trained("fsdp", {"auto_wrap_policy": {torch.nn.Linear}, "use_orig_params": True}),
    ):
        other_losses, other_weights = returned(run_config, loop)
        assert other_losses == pytest.approx(losses, abs=1e-6)
        assert list(other_weights) == list(weights)
        for name, values in weights.items():
            assert other_weights[name] == pytest.approx(values, abs=1e-5)


def test_a_model_may_stay_its_ranks_own(run_config):
    def loop():
        own = [type(prepare_model(torch.nn.Linear(1, 1), parallel_strategy=word)).__name__ for word in ("none", None)]
        with pytest.raises(ValueError, match="'ddp', 'fsdp' or 'none'"):
            prepare_model(torch.nn.Linear(1, 1), parallel_strategy="zero")
        return own

    assert returned(run_config, loop) == ["Linear", "Linear"]


def test_what_fsdp2_has_nothing_for_is_refused_by_name(run_config):
    def loop():
        said = []
        for kwargs in ({"param_init_fn": print}, {"sharding_strategy": "NO_SHARD"}):
            with pytest.raises(ValueError) as caught:
                prepare_model(torch.nn.Linear(1, 1), parallel_strategy="fsdp", parallel_strategy_kwargs=kwargs)
            said.append(str(caught.value))
        return said

    said = returned(run_config, loop)
    assert "param_init_fn" in said[0] and "NO_SHARD" in said[1]


def test_devices_are_the_cpu_without_gpus(run_config):
    assert returned(run_config, lambda: [str(get_device()), [str(one) for one in get_devices()]]) == ["cpu", ["cpu"]]


def test_mixed_precision_by_three_calls(run_config):
    def loop():
        accelerate(amp=True)
        model = prepare_model(torch.nn.Linear(4, 2))
        optimizer = prepare_optimizer(torch.optim.SGD(model.parameters(), 0.1))
        output = model(torch.ones(2, 4))
        before = model.module.weight.detach().clone()
        backward(output.float().sum())
        optimizer.step()
        optimizer.zero_grad()
        return [str(output.dtype), bool((before != model.module.weight).all()), len(optimizer.param_groups)]

    assert returned(run_config, loop) == ["torch.bfloat16", True, 1]


def test_reproducibility_repeats_loader_workers_too(run_config):
    def loop():
        enable_reproducibility(seed=3)
        loader = prepare_data_loader(DataLoader(rows(), batch_size=5, shuffle=True, num_workers=1, collate_fn=noisy))
        return [torch.rand(2).tolist(), list(loader)]

    assert returned(run_config, loop) == returned(run_config, loop)


def noisy(batch):
    import random

    return [row[0].item() + random.random() for row in batch]


def test_ranks_with_fewer_batches_join_the_others(run_config):
    def loop():
        rank = train.get_context().get_world_rank()
        plain = torch.nn.Linear(1, 1, bias=False)
        torch.nn.init.zeros_(plain.weight)
        model = prepare_model(plain)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        with model.join():
            for _ in range(2 + rank):
                optimizer.zero_grad()
                model(torch.ones(1, 1)).sum().backward()
                optimizer.step()
        return of_all_ranks(round(plain.weight.item(), 6))

    trainer = TorchTrainer(
        loop,
        scaling_config=ScalingConfig(num_workers=2),
        torch_config=TorchConfig(timeout_s=30),
        run_config=run_config(debug_config=DebugConfig(check_ranks_every=1)),
    )
    assert trainer.fit().return_value == [-0.25, -0.25]


@pytest.mark.parametrize("workers", [1, 2])
def test_a_model_goes_with_its_last_holder(run_config, workers):
    def loop():
        model = prepare_model(torch.nn.Linear(2, 1))
        model(torch.ones(1, 2)).sum().backward()
        parameter = weakref.ref(next(model.parameters()))
        del model
        gc.collect()
        return of_all_ranks(parameter() is None) if workers > 1 else [parameter() is None]

    assert returned(run_config, loop, workers) == [True] * workers
