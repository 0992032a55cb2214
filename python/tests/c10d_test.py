"""What programs for torch.distributed expect of a backend, over Gloo and over shared memory alike.

Behaviours that PyTorch tests of its own backends (its test/distributed/test_c10d_gloo.py and test_c10d_common.py): refusals of
wrong calls, after which the group goes on, many operations in flight, futures, groups beside each other, communication hooks.
"""

import datetime
import gc
import math
import warnings

import pytest
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

import paceline.train as train
from paceline.train import ScalingConfig
from paceline.train.torch import TorchConfig, TorchTrainer

WORLD = 3
MANY = 300
OPERATIONS = {
    dist.ReduceOp.SUM: lambda values: values.sum(0),
    dist.ReduceOp.PRODUCT: lambda values: values.prod(0),
    dist.ReduceOp.MIN: lambda values: values.amin(0),
    dist.ReduceOp.MAX: lambda values: values.amax(0),
}


def backend_of(group):
    return group._get_backend(torch.device("cpu"))


def refused(call, *arguments):
    with pytest.raises((RuntimeError, ValueError, TypeError)):
        call(*arguments)


def options(kind, **values):
    made = kind()
    for name, value in values.items():
        setattr(made, name, value)
    return made


def wrong_calls_are_refused(rank, group):
    backend = backend_of(group)
    one, double, two = torch.zeros(1), torch.zeros(1, dtype=torch.float64), torch.zeros(2)
    lists = {"short": [one] * (WORLD - 1), "long": [one] * (WORLD + 1), "typed": [double] * WORLD, "sized": [two] * WORLD}
    for root in (-1, WORLD):
        refused(backend.broadcast, [one], options(dist.BroadcastOptions, rootRank=root, rootTensor=0))
        refused(backend.reduce, [one], options(dist.ReduceOptions, rootRank=root))
        refused(backend.scatter, [one], [], options(dist.ScatterOptions, rootRank=root))
        refused(backend.gather, [], [one], options(dist.GatherOptions, rootRank=root))
    own, other = rank, (rank + 1) % WORLD
    refused(backend.broadcast, [], options(dist.BroadcastOptions, rootRank=own, rootTensor=0))
    refused(backend.broadcast, [one], options(dist.BroadcastOptions, rootRank=own, rootTensor=1))
    refused(backend.allreduce, [], dist.AllreduceOptions())
    refused(backend.allreduce, [one, double], dist.AllreduceOptions())
    refused(backend.allreduce, [one, two], dist.AllreduceOptions())
    refused(backend.reduce, [one, one], options(dist.ReduceOptions, rootRank=own))
    refused(backend.reduce, [one], options(dist.ReduceOptions, rootRank=own, rootTensor=1))
    at_root, elsewhere = options(dist.ScatterOptions, rootRank=own), options(dist.ScatterOptions, rootRank=other)
    for wrong in lists.values():
        refused(backend.scatter, [one], [wrong], at_root)
    refused(backend.scatter, [], [], options(dist.ScatterOptions, rootRank=0))
    refused(backend.scatter, [one], [], at_root)
    refused(backend.scatter, [one], [[one] * WORLD] * 2, at_root)
    refused(backend.scatter, [one], [[one] * WORLD], elsewhere)
    at_root, elsewhere = options(dist.GatherOptions, rootRank=own), options(dist.GatherOptions, rootRank=other)
    for wrong in lists.values():
        refused(backend.gather, [wrong], [one], at_root)
    refused(backend.gather, [], [], options(dist.GatherOptions, rootRank=0))
    refused(backend.gather, [], [one], at_root)
    refused(backend.gather, [[one] * WORLD] * 2, [one], at_root)
    refused(backend.gather, [[one] * WORLD], [one], elsewhere)
    for wrong in lists.values():
        refused(backend.allgather, [wrong], [one])
    refused(backend.allgather, [], [])
    refused(backend.allgather, [], [one])
    refused(backend.allgather, [[one] * WORLD] * 2, [one])
    refused(dist.all_gather_coalesced, [[torch.zeros(0)]] + [[one]] * (WORLD - 1), [one], group)
    refused(dist.all_gather_coalesced, [[double]] + [[one]] * (WORLD - 1), [one], group)
    refused(dist.all_gather_coalesced, [[one]] * (WORLD + 1), [one], group)
    if backend.name() == "paceline":  # Gloo waits for ever, or ends the process
        refused(dist.reduce_scatter_tensor, one, torch.zeros(WORLD + 1))
        refused(dist.all_gather_into_tensor, torch.zeros(WORLD + 1), one)
        refused(dist.all_reduce, torch.ones(1), dist.ReduceOp.BAND)
    dist.all_reduce(one.fill_(1))
    assert one.item() == WORLD, "and nobody has heard of it"


def reductions_are_those_of_torch(rank, group):
    for operation, reduced in OPERATIONS.items():
        for dtype in (torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.int64, torch.uint8):
            values = torch.arange(1, 1 + 5 * WORLD).reshape(WORLD, 5).remainder(5).to(dtype)
            mine = values[rank].clone()
            (found,) = backend_of(group).allreduce([mine], options(dist.AllreduceOptions, reduceOp=operation)).get_future().wait()
            assert torch.equal(found, reduced(values)) and torch.equal(mine, found)
            for root in range(WORLD):
                mine = values[rank].clone()
                dist.reduce(mine, root, operation)
                assert rank != root or torch.equal(mine, reduced(values))
    flags = torch.tensor([rank == 0, False, True])
    for operation, wanted in ((dist.ReduceOp.MAX, [True, False, True]), (dist.ReduceOp.MIN, [False, False, True])):
        found = flags.clone()
        dist.all_reduce(found, operation)
        assert found.tolist() == wanted
    turning = torch.tensor([complex(rank, 1)])
    dist.all_reduce(turning)
    assert turning.item() == complex(WORLD * (WORLD - 1) / 2, WORLD)


def many_may_be_in_flight(rank, group):
    backend = backend_of(group)
    kept = [torch.tensor([number + rank]) for number in range(MANY)]
    works = [dist.broadcast(one, number % WORLD, async_op=True) for number, one in enumerate(kept)]
    for number, work in enumerate(works):
        work.wait()
        assert kept[number].item() == number + number % WORLD
    futures = [backend.allreduce([torch.tensor([number + rank])]).get_future() for number in range(MANY)]
    total = WORLD * (WORLD - 1) // 2
    assert [future.wait()[0].item() for future in futures] == [number * WORLD + total for number in range(MANY)]
    futures = [dist.all_reduce_coalesced([torch.tensor([number + rank])] * 1, async_op=True) for number in range(MANY)]
    assert [future.wait()[0].item() for future in futures] == [number * WORLD + total for number in range(MANY)]
    outputs = [[torch.tensor([-1]) for _ in range(WORLD)] for _ in range(MANY)]
    futures = [backend.allgather([output], [torch.tensor([number + rank])]).get_future() for number, output in enumerate(outputs)]
    for number, future in enumerate(futures):
        assert [one.item() for one in future.wait()] == [number + r for r in range(WORLD)]
    futures, places = [], []
    for number in range(MANY):
        root, place = number % WORLD, torch.tensor([-1])
        given = [[torch.tensor([number + r]) for r in range(WORLD)]] if rank == root else []
        futures.append(backend.scatter([place], given, options(dist.ScatterOptions, rootRank=root)).get_future())
        places.append(place)
        taken = [[torch.tensor([-1]) for _ in range(WORLD)]] if rank == root else []
        futures.append(backend.gather(taken, [torch.tensor([number - rank])], options(dist.GatherOptions, rootRank=root)).get_future())
        places.append(taken)
    for future in futures:
        future.wait()
    for number in range(MANY):
        assert places[2 * number].item() == number + rank
        for one in places[2 * number + 1]:
            assert [value.item() for value in one] == [number - r for r in range(WORLD)]


def a_barrier_waits_for_what_was_begun(rank, group):
    begun = [torch.full((100, 100), float(number)) for number in range(16)]
    for one in begun:
        dist.all_reduce(one, async_op=True)  # nobody keeps the work
    backend_of(group).barrier().get_future().wait()
    assert [one.unique().tolist() for one in begun] == [[float(number * WORLD)] for number in range(16)]


def tensors_may_be_views(rank, group):
    column = torch.arange(12.0).reshape(3, 4).add(rank)[:, 1]
    parts = [torch.zeros(3, 2)[:, 0] for _ in range(WORLD)]
    dist.all_gather(parts, column)
    assert [part.tolist() for part in parts] == [[1.0 + r, 5.0 + r, 9.0 + r] for r in range(WORLD)]
    with torch.inference_mode():
        inside = torch.ones(4).view(2, 2).t()
        dist.all_reduce(inside)
        assert inside.tolist() == [[float(WORLD)] * 2] * 2
    empty = torch.zeros(0)
    dist.all_reduce(empty)
    dist.broadcast(empty, 0)


def parts_may_have_sizes_of_their_own(rank, group):
    given = [torch.arange(float(size)) + 1 for size in range(WORLD)]
    mine = torch.empty(rank)
    dist.reduce_scatter(mine, given)
    assert mine.tolist() == [WORLD * (value + 1.0) for value in range(rank)]
    if dist.get_backend() == "paceline":  # Gloo refuses them
        every = [torch.empty(2, size) for size in range(WORLD)]
        dist.all_gather(every, torch.full((2, rank), float(rank)))
        assert [part.tolist() for part in every] == [[[float(size)] * size] * 2 for size in range(WORLD)]
    rows = [1 + (rank + to) % WORLD for to in range(WORLD)]
    sent = torch.cat([torch.full((count, 2), float(rank * 10 + to)) for to, count in enumerate(rows)])
    taken = [1 + (source + rank) % WORLD for source in range(WORLD)]
    got = torch.empty(sum(taken), 2)
    dist.all_to_all_single(got, sent, taken, rows)
    assert [part[0, 0].item() for part in got.split(taken)] == [source * 10.0 + rank for source in range(WORLD)]
    outputs, inputs = [torch.empty(s * WORLD, s) for s in (5, 10)], [torch.full((s, s), float(rank)) for s in (5, 10)]
    group.allgather_into_tensor_coalesced(outputs, inputs).wait()
    assert all(torch.equal(o, torch.arange(float(WORLD)).repeat_interleave(o.shape[1])[:, None].expand_as(o)) for o in outputs)
    halves = [torch.empty(s, s) for s in (5, 10)]
    group.reduce_scatter_tensor_coalesced(halves, [torch.ones(s * WORLD, s) for s in (5, 10)]).wait()
    assert all(half.unique().tolist() == [float(WORLD)] for half in halves)


def messages_go_both_ways_at_once(rank, group):
    backend = backend_of(group)
    others = [other for other in range(WORLD) if other != rank]
    got = {other: torch.tensor([-1]) for other in others}
    works = [backend.send([torch.tensor([rank])], other, 0) for other in others]
    works += [backend.recv([got[other]], other, 0) for other in others]
    for work in works:
        work.wait()
        assert work.is_completed()
    assert all(value.item() == other for other, value in got.items())


def groups_stand_beside_each_other(rank, group):
    pairs = [dist.new_group([first, (first + 1) % WORLD]) for first in range(WORLD)]
    works, values = [], []
    for first, pair in enumerate(pairs):
        if rank in (first, (first + 1) % WORLD):
            values.append(torch.full((1 << 16,), float(first)))
            works.append(dist.all_reduce(values[-1], group=pair, async_op=True))
    whole = torch.ones(1)
    dist.all_reduce(whole)
    for work in works:
        work.wait()
    assert whole.item() == WORLD and all(value.unique().numel() == 1 for value in values)
    outside = pairs[(rank + 1) % WORLD]
    assert dist.get_rank(outside) == -1
    with warnings.catch_warnings(record=True):
        warnings.simplefilter("always")
        dist.all_reduce(torch.ones(1), group=outside)  # says that this rank is not of it, and does nothing
    dist.destroy_process_group(pairs[rank])
    dist.barrier()


def numbers_and_objects_are_kept(rank, group):
    backend = backend_of(group)
    before = backend._get_sequence_number_for_group()
    for _ in range(3):
        dist.all_reduce(torch.ones(1))
    assert backend._get_sequence_number_for_group() == before + 3
    objects = [{"rank": r} if rank == 0 else None for r in range(WORLD)]
    dist.broadcast_object_list(objects, src=0)
    assert objects == [{"rank": r} for r in range(WORLD)]
    found = [None]
    dist.scatter_object_list(found, [f"for {r}" for r in range(WORLD)] if rank == 1 else None, src=1)
    assert found == [f"for {rank}"]
    mixed = [torch.arange(12, dtype=dtype) * (rank == 0) for dtype in (torch.float32, torch.float64, torch.int64, torch.float32)]
    dist._broadcast_coalesced(group, mixed, 256, 0)
    assert all(one.tolist() == list(range(12)) for one in mixed)


def hooks_and_sparse_gradients_work(rank, group):
    torch.manual_seed(0)
    words = torch.nn.EmbeddingBag(10, 4, sparse=True)
    plain = torch.nn.EmbeddingBag.from_pretrained(words.weight.detach().clone(), freeze=False)
    model = DistributedDataParallel(words)
    inputs = torch.arange(2 * WORLD).reshape(WORLD, 2).remainder(10)
    model(inputs[rank : rank + 1]).sum().backward()
    plain(inputs).sum().div(WORLD).backward()
    assert torch.allclose(words.weight.grad.to_dense(), plain.weight.grad)
    linear = DistributedDataParallel(torch.nn.Linear(4, 4, bias=False))

    def doubles(state, bucket):
        return group.allreduce([bucket.buffer()]).get_future().then(lambda future: future.wait()[0] * 2)

    linear.register_comm_hook(None, doubles)
    linear(torch.ones(1, 4)).sum().backward()
    assert linear.module.weight.grad.unique().tolist() == [2.0 * WORLD]
    for parameters in ({"find_unused_parameters": True}, {"static_graph": True}, {"gradient_as_bucket_view": True}):
        again = DistributedDataParallel(torch.nn.Linear(4, 4, bias=False), **parameters)
        for _ in range(3):
            again.zero_grad()
            again(torch.full((1, 4), rank + 1.0)).sum().backward()
            assert again.module.weight.grad.unique().tolist() == [(WORLD + 1) / 2]


def callbacks_may_wait_for_others(rank, group):
    store = dist.distributed_c10d._get_default_store()
    first, second = torch.ones(1), torch.ones(1)
    if rank == 1:  # late, so that the others' futures are not over when they are given callbacks
        store.wait([f"given/{other}" for other in range(WORLD) if other != rank])
    future = dist.all_reduce(first, async_op=True).get_future()
    chained = future.then(lambda _: dist.all_reduce(second, async_op=True).get_future().wait()[0] * 2)
    store.set(f"given/{rank}", "")
    assert chained.wait().item() == 2 * WORLD


def callbacks_may_wait_for_messages(rank, group):
    left, right = (rank - 1) % WORLD, (rank + 1) % WORLD
    first, second = torch.zeros(1), torch.zeros(1)

    def receives_another(future):
        dist.irecv(second, left, tag=2).get_future().wait()
        return first + second

    received = dist.irecv(first, left, tag=1).get_future().then(receives_another)
    for tag in (1, 2):
        dist.send(torch.full((1,), float(rank + tag)), right, tag=tag)
    assert received.wait().item() == 2 * left + 3


def powersgd_works(rank, group):
    torch.manual_seed(0)
    from torch.distributed.algorithms.ddp_comm_hooks import powerSGD_hook

    # One bucket: with several, callbacks and backward call collectives in an order that differs from rank to rank.
    model = DistributedDataParallel(torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.Linear(64, 64)))
    model.register_comm_hook(powerSGD_hook.PowerSGDState(group, start_powerSGD_iter=2), powerSGD_hook.powerSGD_hook)
    for step in range(4):
        model.zero_grad()
        model(torch.full((2, 64), rank + step + 1.0)).sum().backward()
        gradient = model.module[0].weight.grad
        everywhere = [torch.empty_like(gradient) for _ in range(WORLD)]
        dist.all_gather(everywhere, gradient)
        assert all(torch.equal(one, gradient) for one in everywhere)


def waits_may_be_bounded(rank, group):
    store = dist.distributed_c10d._get_default_store()
    if rank != 0:
        store.wait(["waited"])
    value = torch.ones(1)
    work = dist.all_reduce(value, async_op=True)
    if rank == 0:
        refused(work.wait, datetime.timedelta(milliseconds=50))
        store.set("waited", "")
    work.wait()
    assert value.item() == WORLD


def who_destroys_a_group_leaves_it(rank, group):
    pair = dist.new_group([0, 1])
    if rank == 0:
        dist.destroy_process_group(pair)
        del pair
        gc.collect()
    elif rank == 1 and dist.get_backend() == "paceline":
        with pytest.raises(RuntimeError, match="rank 0: it has left the group"):
            dist.all_reduce(torch.ones(1), group=pair)
    dist.barrier()


def numbers_that_cannot_be_are_refused(rank, group):
    if dist.get_backend() == "paceline":  # Gloo writes where nothing is
        refused(dist.all_to_all_single, torch.zeros(2), torch.zeros(2), [3, -1, 0], [3, -1, 0])
        refused(dist.all_reduce, torch.ones(1, dtype=torch.int64), dist._make_nccl_premul_sum(0.5))
        chained = torch.full((8,), 1.0)
        works = [dist.all_reduce(chained, async_op=True) for _ in range(4)]
        for work in works:
            work.wait()
        assert chained.unique().tolist() == [float(WORLD**4)]


def who_calls_need_not_wait_for_others_to_go_on(rank, group):
    sent = [torch.full((2,), float(i if rank == 0 else -1)) for i in range(40)]
    works = [dist.broadcast(one, src=0, async_op=True) for one in sent]
    parts = [torch.full((10_000,), float(i)) for i in range(WORLD)] if rank == 0 else None
    part, word = torch.empty(10_000), torch.zeros(1)
    scattered = dist.scatter(part, parts, src=0, async_op=True)
    if rank == 0:
        dist.recv(word, 1)
    else:
        for work in works:
            work.wait()
        assert [one[0].item() for one in sent] == list(range(40))
    if rank == 1:
        dist.send(word, 0)
    scattered.wait()
    assert part.unique().tolist() == [float(rank)]


def inference_tensors_are_tensors(rank, group):
    with torch.inference_mode():
        total, strided = torch.full((3,), float(rank)), torch.full((4, 3), float(rank)).t()
        dist.all_reduce(total, dist.ReduceOp.SUM)
        works = [dist.all_reduce(strided, async_op=True)] if dist.get_backend() == "paceline" else []
        for work in works:
            while not work.is_completed():
                pass
        objects = [None] * WORLD
        dist.all_gather_object(objects, {"rank": rank})
        part = torch.empty(2)
        dist.reduce_scatter_tensor(part, torch.ones(2 * WORLD))
        if dist.get_backend() == "paceline":
            mean = torch.full((3,), float(rank))
            dist.all_reduce(mean, dist.ReduceOp.AVG)
            assert mean.tolist() == [(WORLD - 1) / 2] * 3 and strided.unique().tolist() == [sum(range(WORLD))]
            received, sent = torch.zeros(3, 2).t(), torch.full((2, 3), float(rank))
            work = dist.irecv(received, (rank - 1) % WORLD)
            dist.send(sent, (rank + 1) % WORLD)
            work.wait()
            assert received.unique().tolist() == [float((rank - 1) % WORLD)]
    assert total.tolist() == [sum(range(WORLD))] * 3 and part.tolist() == [WORLD] * 2
    assert objects == [{"rank": one} for one in range(WORLD)]


def a_tensor_given_twice_is_reduced_once(rank, group):
    tied, other = torch.full((3,), 1.0), torch.full((2,), 2.0)
    backend_of(group).allreduce_coalesced([tied, other, tied], dist.AllreduceCoalescedOptions()).wait()
    assert tied.tolist() == [WORLD] * 3 and other.tolist() == [2 * WORLD] * 2


def values_may_be_worked_out_when_read(rank, group):
    if dist.get_backend() != "paceline":  # Gloo sends what is in memory
        return
    number = torch.full((2,), complex(rank, 1))
    conjugate = number.conj()
    backend_of(group).allreduce([conjugate], dist.AllreduceOptions()).wait()  # torch.distributed itself refuses them
    assert conjugate.resolve_conj().tolist() == [complex(sum(range(WORLD)), -WORLD)] * 2
    received, sent = torch.zeros(2, dtype=torch.complex64), torch.full((2,), 1j).conj()
    options = dist.BroadcastOptions()
    options.rootRank = 1
    backend_of(group).broadcast([sent if rank == 1 else received], options).wait()
    assert rank == 1 or received.tolist() == [-1j] * 2


def what_is_no_number_wins(rank, group):
    if dist.get_backend() != "paceline":
        return
    for operation in (dist.ReduceOp.MIN, dist.ReduceOp.MAX):
        for one in range(WORLD):
            values = torch.tensor([math.nan if rank == one else float(rank), float(rank)])
            dist.all_reduce(values, operation)
            assert math.isnan(values[0]) and values[1] == (0 if operation == dist.ReduceOp.MIN else WORLD - 1)


def types_that_are_only_sent_may_be_any(rank, group):
    if dist.get_backend() != "paceline":
        return
    for dtype in (torch.int16, torch.complex64, torch.float8_e5m2):
        own = torch.full((2 * WORLD,), rank + 1).to(dtype)
        lists = [torch.empty_like(own) for _ in range(WORLD)] if rank == 0 else None
        dist.gather(own, lists, dst=0)
        assert rank != 0 or [one[0].to(torch.complex64).real.item() for one in lists] == [1, 2, 3]
        got = torch.empty_like(own)
        dist.all_to_all_single(got, own)
        assert got.to(torch.complex64).real.tolist() == [1, 1, 2, 2, 3, 3]
        part = torch.empty(2 * WORLD).to(dtype)
        dist.scatter(part, [own] * WORLD if rank == 2 else None, src=2)
        assert part.to(torch.complex64).real.unique().tolist() == [3]


def means_and_half_sums_leave_their_types(rank, group):
    if dist.get_backend() != "paceline":
        return
    bytes_ = torch.full((4,), 200, dtype=torch.uint8)
    dist.all_reduce(bytes_, dist.ReduceOp.AVG)
    assert bytes_.tolist() == [200] * 4
    half = torch.full((4,), (40000.0, 40000.0, -40000.0)[rank], dtype=torch.float16)
    dist.all_reduce(half)
    assert half.tolist() == [40000.0] * 4


def memory_that_is_several_values_is_not_written(rank, group):
    for call in (dist.all_reduce, lambda one: dist.broadcast(one, src=(rank + 1) % WORLD)):
        if dist.get_backend() == "paceline":
            with pytest.raises(ValueError, match="clone"):
                call(torch.zeros(1).expand(4))


def meet_on_two_nodes():
    """The group of all ranks anew: ranks 0 and 1 on one node, rank 2 on another, as they say."""
    import paceline.comm
    from paceline._native import native

    def make(options):
        node = str((options.global_ranks_in_group or range(WORLD))[options.group_rank] // 2)
        return native.make_shared_memory(
            options.store, options.group_rank, options.group_size, options.timeout, counted=False, node=node
        )

    rank, store = dist.get_rank(), dist.PrefixStore("on_two_nodes", dist.distributed_c10d._get_default_store())
    dist.destroy_process_group()
    paceline.comm._make = make
    dist.init_process_group("paceline", store=store, rank=rank, world_size=WORLD, timeout=datetime.timedelta(seconds=60))


@pytest.mark.parametrize("backend", ["gloo", "paceline", "paceline on two nodes"])
@pytest.mark.parametrize(
    "behaves",
    [
        wrong_calls_are_refused,
        reductions_are_those_of_torch,
        many_may_be_in_flight,
        a_barrier_waits_for_what_was_begun,
        tensors_may_be_views,
        parts_may_have_sizes_of_their_own,
        messages_go_both_ways_at_once,
        groups_stand_beside_each_other,
        numbers_and_objects_are_kept,
        hooks_and_sparse_gradients_work,
        callbacks_may_wait_for_others,
        callbacks_may_wait_for_messages,
        powersgd_works,
        waits_may_be_bounded,
        who_destroys_a_group_leaves_it,
        numbers_that_cannot_be_are_refused,
        who_calls_need_not_wait_for_others_to_go_on,
        inference_tensors_are_tensors,
        a_tensor_given_twice_is_reduced_once,
        values_may_be_worked_out_when_read,
        what_is_no_number_wins,
        types_that_are_only_sent_may_be_any,
        means_and_half_sums_leave_their_types,
        memory_that_is_several_values_is_not_written,
    ],
    ids=lambda behaves: behaves.__name__,
)
def test_backends(behaves, backend, run_config):
    if backend == "gloo" and behaves is callbacks_may_wait_for_messages:
        pytest.skip("receives of Gloo have no futures")

    def loop():
        torch.set_num_threads(1)
        if "nodes" in backend:
            meet_on_two_nodes()
        behaves(train.get_context().get_world_rank(), dist.group.WORLD)

    TorchTrainer(
        loop,
        scaling_config=ScalingConfig(num_workers=WORLD),
        torch_config=TorchConfig(backend=backend.split()[0], timeout_s=60),
        run_config=run_config(),
    ).fit()
