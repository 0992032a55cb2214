"""prepare_data_loader, prepare_model and their kin: what a train loop gets on two workers, and on one."""

import collections
import gc
import random
import weakref

import numpy
import pytest
import torch
from torch.utils.data import (
    BatchSampler,
    DataLoader,
    DistributedSampler,
    RandomSampler,
    Sampler,
    SequentialSampler,
    TensorDataset,
    WeightedRandomSampler,
)

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


class OldStyle(Sampler):
    """Batches of two in an order that `shuffle` decides."""

    def __init__(self, shuffle, **own):
        self.shuffle = shuffle
        self.__dict__.update(own)

    def __len__(self):
        return 8

    def __iter__(self):
        order = list(range(16))
        self.shuffle(self, order)
        for first in range(0, 16, 2):
            yield order[first : first + 2]


def batch_samplers(rank):
    """What shuffles, by the name of what it draws from; each rank's generators have a state of its own."""

    def in_fours(sampler):
        return BatchSampler(sampler, 4, False)

    def drawing_late(_, order):
        order.sort(key=lambda row: random.random())

    return {
        "torch": in_fours(RandomSampler(rows(16))),
        "torch's own": in_fours(RandomSampler(rows(16), generator=torch.Generator().manual_seed(rank))),
        "torch's own, weighted": in_fours(
            WeightedRandomSampler([1.0] * 16, 16, replacement=False, generator=torch.Generator().manual_seed(rank))
        ),
        "random": OldStyle(drawing_late),
        "random's own": OldStyle(lambda self, order: self.own.shuffle(order), own=random.Random()),
        "numpy": OldStyle(lambda _, order: numpy.random.shuffle(order)),
        "numpy's own": OldStyle(lambda self, order: self.own.shuffle(order), own=numpy.random.default_rng()),
        "numpy's old one": OldStyle(lambda self, order: self.own.shuffle(order), own=numpy.random.RandomState()),
    }


@pytest.mark.parametrize("says", [False, True])
def test_a_batch_sampler_that_shuffles_has_one_order_on_all_ranks(run_config, says):
    def loop():
        orders = {}
        for name, batches in batch_samplers(train.get_context().get_world_rank()).items():
            loader = prepare_data_loader(DataLoader(rows(16), batch_sampler=batches))
            orders[name] = []
            for epoch in range(3):
                if says:
                    loader.sampler.set_epoch(epoch % 2)  # as well as batch_sampler's
                orders[name].append(seen(loader))
        return of_all_ranks(orders)

    one, other = returned(run_config, loop)
    for name in one:
        for epoch in range(3):
            assert sorted(one[name][epoch] + other[name][epoch]) == list(range(16)), (name, epoch)
        assert one[name][0] != one[name][1], name
        assert (one[name][0] == one[name][2]) == says, name


def test_a_batch_sampler_leaves_the_generators_of_the_rank_as_they_are(run_config):
    def loop():
        def drawn():
            return [torch.rand(()).item(), random.random(), numpy.random.rand(), *own.random(1)]

        own = numpy.random.default_rng(7)
        samples = []
        for iterates in (False, True):
            torch.manual_seed(1)
            random.seed(1)
            numpy.random.seed(1)
            own.bit_generator.state = numpy.random.PCG64(7).state
            if iterates:
                batches = OldStyle(lambda self, order: (self.own.shuffle(order), random.shuffle(order)), own=own)
                # torch's loader draws a seed for its processes from the generator that it is given, or from torch's
                assert seen(prepare_data_loader(DataLoader(rows(16), batch_sampler=batches, generator=torch.Generator())))
            samples.append(drawn())
        return samples

    without, with_it = returned(run_config, loop)
    assert without == with_it


def test_a_batch_sampler_follows_the_seed_of_its_own_generator(run_config):
    def loop(config):
        batches = BatchSampler(RandomSampler(rows(16), generator=torch.Generator().manual_seed(config["seed"])), 4, False)
        return seen(prepare_data_loader(DataLoader(rows(16), batch_sampler=batches)))

    def order(seed):
        return returned(run_config, lambda: loop({"seed": seed}))

    assert order(1) == order(1) != order(2)


def test_a_batch_sampler_of_a_distributed_sampler_is_kept(run_config):
    def loop():
        batches = BatchSampler(DistributedSampler(rows(16), seed=5), 4, False)
        loader = prepare_data_loader(DataLoader(rows(16), batch_sampler=batches))
        passes = []
        for epoch in range(2):
            loader.sampler.set_epoch(epoch)
            passes.append(seen(loader))
        return of_all_ranks(passes)

    one, other = returned(run_config, loop)
    assert one[0] != one[1]
    for epoch in range(2):
        assert sorted(one[epoch] + other[epoch]) == list(range(16))


def loaders_of_both_kinds():
    yield DataLoader(rows(16), batch_size=4, shuffle=True)
    yield DataLoader(rows(16), batch_sampler=BatchSampler(RandomSampler(rows(16)), 4, False))
    yield DataLoader(rows(16), batch_size=4, shuffle=True, num_workers=1)


def test_one_rank_may_look_at_a_batch(run_config):
    def loop():
        first = train.get_context().get_world_rank() == 0
        passes = []
        for loader in map(prepare_data_loader, loaders_of_both_kinds()):
            kept = iter(loader)  # at work while others begin
            for epoch in range(3):
                if first:
                    next(iter(loader))
                    next(kept) if epoch == 0 else None
                passes.append(seen(loader))
        return of_all_ranks(passes)

    one, other = returned(run_config, loop)
    for mine, others in zip(one, other):
        assert sorted(mine + others) == list(range(16))
    for first in (0, 3, 6):
        assert one[first] != one[first + 1] != one[first + 2]


def test_passes_that_are_broken_off_count_from_their_second_batch(run_config):
    def loop():
        def of_a_pass(loader, batches):
            taken = []
            for (batch,) in loader:
                taken.append(batch.tolist())
                if len(taken) == batches:
                    break
            return taken

        passes = []
        for loader in map(prepare_data_loader, loaders_of_both_kinds()):
            orders = [of_a_pass(loader, 2) for _ in range(2)]
            first, again = (of_a_pass(loader, 1) for _ in range(2))
            assert orders[0] != orders[1] and first == again
            loader.sampler.set_epoch(7)
            passes.append([*orders, first, of_a_pass(loader, 2)])
        return of_all_ranks(passes)

    one, other = returned(run_config, loop)
    for mine, others in zip(one, other):
        for batches in zip(mine, others):
            assert sorted(sum(sum(batches, []), [])) == sorted(set(sum(sum(batches, []), [])))


def test_set_epoch_within_a_pass_decides_the_next(run_config):
    def loop():
        loader = prepare_data_loader(DataLoader(rows(16), batch_size=4, shuffle=True))
        for _ in loader:
            loader.sampler.set_epoch(3)
        third = seen(loader)
        loader.sampler.set_epoch(3)
        return third == seen(loader)

    assert returned(run_config, loop)


def test_passes_of_one_batch_each_are_told(run_config, capfd):
    def loop():
        loader = prepare_data_loader(DataLoader(rows(16), batch_size=4, shuffle=True))
        return [next(iter(loader))[0].tolist() for _ in range(4)]

    taken = returned(lambda: run_config(quiet=False), loop)
    assert taken == [taken[0]] * 4
    shown = capfd.readouterr()
    assert (shown.out + shown.err).count("a pass that ends at its first batch does not count as an epoch") == 2


@pytest.mark.parametrize("workers", [1, 2])
def test_what_takes_no_attributes_serves_as_a_sampler(run_config, workers):
    def loop():
        seen_by_kind = []
        for given in ({"sampler": [3, 1, 2]}, {"sampler": range(3)}, {"batch_sampler": [[0, 1], [2, 3]]}):
            loader = prepare_data_loader(DataLoader(rows(4), **given), add_dist_sampler="sampler" not in given)
            loader.sampler.set_epoch(1)
            loader.batch_sampler.set_epoch(1)
            seen_by_kind.append([len(loader), seen(loader)])
        return seen_by_kind

    both_batches = [2, [0, 1, 2, 3]] if workers == 1 else [1, [0, 1]]
    assert returned(run_config, loop, workers) == [[3, [3, 1, 2]], [3, [0, 1, 2]], both_batches]


def test_at_one_worker_set_epoch_decides_the_order_of_a_batch_sampler_too(run_config):
    def loop():
        loader = prepare_data_loader(DataLoader(rows(16), batch_sampler=BatchSampler(RandomSampler(rows(16)), 4, False)))
        passes = []
        for epoch in (0, 1, 0):
            loader.batch_sampler.set_epoch(epoch)
            passes.append(seen(loader))
        return passes

    first, second, again = returned(run_config, loop, workers=1)
    assert first == again != second and sorted(first) == list(range(16))


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


def test_every_part_of_a_sharded_model_communicates_from_memory_that_the_ranks_share(run_config):
    def loop():
        from torch.distributed.fsdp._fully_shard._fsdp_collectives import ProcessGroupAllocMixin

        layers = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.Linear(16, 4))
        policy = {"auto_wrap_policy": {torch.nn.Linear}}
        model = prepare_model(layers, parallel_strategy="fsdp", parallel_strategy_kwargs=policy)
        parts = [part for part in model.modules() if isinstance(part, torch.distributed.fsdp.FSDPModule)]
        groups = [group for part in parts for group in part._get_fsdp_state()._fsdp_param_groups]
        ways = [way for group in groups for way in (group._all_gather_comm, group._reduce_scatter_comm)]
        return [isinstance(way, ProcessGroupAllocMixin) for way in ways]

    assert returned(run_config, loop) == [True] * 4


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
