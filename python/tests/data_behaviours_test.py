"""What a train loop sees of an iteration, by the behaviours of Ray Data: those that are kept, and those that are mended.

Elsewhere: short batches in mid-stream, chance, caches, mixtures (data_test.py); shares of ranks, restarts, evaluation
without dropped rows (data_training_test.py); one process for all ranks (data_process_test.py); memory
(data_memory_test.py).
"""

import pathlib
import threading

import pytest
import torch

import paceline.data
import paceline.train as train
from data_training_test import seen_by
from paceline.data import DataContext, ExecutionResources


@pytest.fixture
def context():
    with DataContext.current(DataContext.get_current().copy()):
        yield DataContext.get_current()


def odd_blocks(rows=(30, 10, 0, 7, 25, 1, 40)):
    """Numbers in blocks of so many rows."""
    ends = [sum(rows[:block]) for block in range(len(rows) + 1)]
    return paceline.data.from_blocks([
        paceline.data.range(end).to_pandas()[first:] for first, end in zip(ends, ends[1:])
    ])  # fmt: skip


def ids(batches):
    return [batch["id"].tolist() for batch in batches]


def rows(batches):
    return sum(ids(batches), [])


def noted(folder):
    """A function that leaves a file for each block that it gets."""

    def note(batch):
        (folder / str(int(batch["id"][0]))).touch()
        return batch

    return note


def names(folder):
    return sorted(int(path.name) for path in folder.iterdir())


# Order


@pytest.mark.parametrize("how", ["as it stands", "rows", "blocks", "locally"])
def test_order_depends_neither_on_prefetching_nor_on_threads(context, how):
    dataset = odd_blocks()
    dataset = {"rows": dataset.random_shuffle(seed=2), "blocks": dataset.randomize_block_order(seed=2)}.get(how, dataset)
    buffer = {"local_shuffle_buffer_size": 20} if how == "locally" else {}
    seen = []
    for threads, prefetch in ((1, 0), (2, 1), (8, 2), (8, 9)):
        context.execution_options.resource_limits = ExecutionResources.for_limits(cpu=threads)
        seen.append(ids(dataset.iter_batches(batch_size=8, prefetch_batches=prefetch, **buffer)))
    assert all(one == seen[0] for one in seen)
    assert sorted(sum(seen[0], [])) == list(range(113)) and (how == "as it stands") == (seen[0][0] == list(range(8)))


def test_a_block_that_takes_longest_comes_in_its_place(tmp_path):
    def last(batch):
        if batch["id"][0] == 0:  # until all others are done
            while len(names(tmp_path)) < 5:
                threading.Event().wait(0.01)
        return noted(tmp_path)(batch)

    dataset = paceline.data.range(12, override_num_blocks=6).map_batches(last, concurrency=2)
    assert rows(dataset.iter_batches(batch_size=5, prefetch_batches=4)) == list(range(12))


@pytest.mark.parametrize("begins", [0, 1, "in turns"])
def test_what_a_consumer_of_a_split_gets_does_not_depend_on_the_others(begins):
    parts = [iter(part.iter_batches(batch_size=10)) for part in odd_blocks().streaming_split(2, equal=True)]
    if begins == "in turns":
        steps = list(zip(*parts))
        seen = [ids(part) for part in zip(*steps)]
    else:  # one reads the epoch alone, and waits for nobody
        seen = [[], []]
        for part in (begins, 1 - begins):
            seen[part] = ids(parts[part])
    in_order = [row for step in zip(*seen) for batch in step for row in batch]
    assert [[len(batch) for batch in part] for part in seen] == [[10] * 5 + [6]] * 2 and in_order == list(range(112))


def test_a_shuffled_split_of_train_data_is_that_of_its_seed():
    first, same, other = (odd_blocks().train_test_split(0.2, shuffle=True, seed=seed)[1].take_all() for seed in (1, 1, 2))
    assert first == same != other


def test_iterations_of_one_dataset_do_not_touch_each_other():
    dataset = paceline.data.range(6, override_num_blocks=3).random_shuffle(seed=2)
    alone = rows(dataset.iter_batches(batch_size=2))
    nested = [(outer["id"], inner["id"]) for outer in dataset.iter_rows() for inner in dataset.iter_rows()]
    assert nested == [(outer, inner) for outer in alone for inner in alone]
    seen = {}
    threads = [
        threading.Thread(target=lambda name=name: seen.update({name: rows(dataset.iter_batches(batch_size=1))}))
        for name in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert list(seen.values()) == [alone] * 4


# Batches


@pytest.mark.parametrize("consumers", [1, 2, 3])
@pytest.mark.parametrize("options", [{}, {"local_shuffle_buffer_size": 8}])
def test_all_ranks_make_equally_many_steps_of_full_batches(consumers, options):
    """Of blocks of 30 and 10 rows, Ray gives 8, 8, 8, 6, 8, 2, and its ranks wait for each other for ever."""
    dataset = odd_blocks((30, 10, 30, 10)).filter(expr="id != 3")
    for part in dataset.streaming_split(consumers, equal=True):
        sizes = [len(batch["id"]) for batch in part.iter_batches(batch_size=8, **options)]
        full, rest = divmod(79 // consumers, 8)
        assert sizes == [8] * full + [rest] * bool(rest)


def test_only_the_last_batch_is_dropped():
    parts = odd_blocks().streaming_split(2)
    assert [[len(batch) for batch in ids(part.iter_batches(batch_size=10, drop_last=True))] for part in parts] == [[10] * 5] * 2


def test_batches_without_a_size_are_blocks():
    assert [len(batch) for batch in ids(odd_blocks().iter_batches(batch_size=None))] == [30, 10, 7, 25, 1, 40]
    assert ids(odd_blocks().iter_batches(batch_size=1000)) == [list(range(113))]


def test_a_local_shuffle_mixes_rows_of_several_blocks():
    blocks = paceline.data.range(100, override_num_blocks=20)
    (first, *_) = ids(blocks.iter_batches(batch_size=10, local_shuffle_buffer_size=50))
    assert len({row // 5 for row in first}) > 2
    with pytest.raises(ValueError, match="local_shuffle_buffer_size needs a batch_size"):
        blocks.iter_batches(batch_size=None, local_shuffle_buffer_size=50)


def test_consumers_without_rows():
    assert [rows(part.iter_batches()) for part in paceline.data.range(2).streaming_split(3)] == [[0], [1], []]
    assert [rows(part.iter_batches()) for part in paceline.data.range(2).streaming_split(3, equal=True)] == [[], [], []]


def test_a_filter_that_nothing_passes_leaves_the_columns():
    nothing = paceline.data.range(100).filter(expr="id < 0")
    assert list(nothing.iter_torch_batches()) == [] and nothing.count() == 0 and nothing.columns() == ["id"]


def test_repartition_makes_no_block_larger_than_asked_for():
    sizes = [len(batch) for batch in ids(odd_blocks().repartition(target_num_rows_per_block=25).iter_batches(batch_size=None))]
    assert max(sizes) <= 25 and min(sizes) >= 22 and sum(sizes) == 113


def test_batches_that_are_kept_stay_as_they_were():
    dataset = paceline.data.range(1 << 20, override_num_blocks=32).random_shuffle(seed=3)
    kept = list(dataset.iter_torch_batches(batch_size=1 << 12))
    passing = (torch.equal(batch["id"], then["id"]) for batch, then in zip(kept, dataset.iter_torch_batches(batch_size=1 << 12)))
    assert all(passing) and torch.equal(torch.cat([batch["id"] for batch in kept]).sort().values, torch.arange(1 << 20))


def test_collate_functions_are_called_by_the_loop_itself():
    def collate(batch):
        if len(called) == 3:
            raise KeyError("the fourth")
        called.append(threading.get_ident())
        return batch["id"].sum()

    called = []
    batches = iter(paceline.data.range(100).iter_torch_batches(batch_size=10, prefetch_batches=4, collate_fn=collate))
    assert [next(batches) for _ in range(3)] == [45, 145, 245] and set(called) == {threading.get_ident()}
    with pytest.raises(KeyError, match="the fourth"):
        next(batches)
    with pytest.raises(ValueError, match="exclude each other"):
        paceline.data.range(3).iter_torch_batches(collate_fn=collate, dtypes=torch.float32)


# What is read when


def test_nothing_is_done_before_rows_are_wanted(tmp_path):
    dataset = paceline.data.range(40, override_num_blocks=4).map_batches(noted(tmp_path), udf_modifying_row_count=False)
    dataset = dataset.random_shuffle()
    batches = dataset.iterator().iter_batches()
    assert (dataset.count(), dataset.num_blocks(), dataset.limit(3).count()) == (40, 4, 3)
    assert names(tmp_path) == []
    assert len(rows(batches)) == 40 and names(tmp_path) == [0, 10, 20, 30]


def test_a_limit_makes_no_block_behind_it(tmp_path):
    dataset = paceline.data.range(100, override_num_blocks=10).map_batches(noted(tmp_path), udf_modifying_row_count=False)
    assert rows(dataset.limit(25).iter_batches(batch_size=4, prefetch_batches=4)) == list(range(25))
    assert names(tmp_path) == [0, 10, 20]


@pytest.mark.parametrize("functions", ["processes", "threads"])
def test_an_error_comes_where_its_rows_are_due(context, functions):
    def refuse(batch):
        if 12 in batch["id"]:
            raise ValueError("not 12")
        return batch

    context.execution_options.functions = functions
    batches = paceline.data.range(20, override_num_blocks=5).map_batches(refuse, udf_modifying_row_count=False)
    batches = batches.iterator().iter_batches(batch_size=4, prefetch_batches=8)
    for _ in range(2):
        seen = []
        with pytest.raises(ValueError, match="not 12"):
            for batch in batches:
                seen.append(batch["id"].tolist())
        assert seen == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9, 10, 11]]


@pytest.mark.parametrize("prefetch", [0, 1, 8])
@pytest.mark.parametrize("options", [{}, {"local_shuffle_buffer_size": 30}])
def test_a_state_is_behind_what_was_given_not_behind_what_was_prefetched(prefetch, options):
    def batches(iterator, batch_size):
        return iterator.iter_batches(batch_size=batch_size, prefetch_batches=prefetch, **options)

    whole = rows(batches(odd_blocks().iterator(), 8))
    iterator, seen = odd_blocks().iterator(), []
    for batch in batches(iterator, 8):
        seen += batch["id"].tolist()
        later = odd_blocks().iterator()
        later.load_state_dict(iterator.state_dict())
        assert seen + rows(batches(later, 5)) == whole


def test_places_that_no_epoch_has_are_errors():
    iterator = odd_blocks().iterator()
    with pytest.raises(ValueError, match="skip.* of -1 rows"):
        iterator.skip(-1)
    state = iterator.state_dict()
    for name, value in (("window", -5), ("window", 99), ("row", -1), ("done", 3)):
        iterator.load_state_dict({**state, name: value})
        with pytest.raises(ValueError, match="no such place in the epoch"):
            list(iterator.iter_batches())
    with pytest.raises(ValueError, match="num_blocks is 0"):
        odd_blocks().repartition(0)


# Ranks


def test_a_rank_waits_for_no_other_at_the_beginning_of_an_epoch(run_config):
    def loop():
        rank, seen = train.get_context().get_world_rank(), []
        for epoch in range(2):
            if rank == 1:  # asks for its shard when the other has had all of the epoch
                torch.distributed.barrier()
            batches = train.get_dataset_shard("train").iter_torch_batches(batch_size=4, prefetch_batches=3 * rank)
            seen.append(rows(batches))
            if rank == 0:
                torch.distributed.barrier()
        return seen

    dataset = paceline.data.range(40, override_num_blocks=4).random_shuffle(seed=1)
    first, second = seen_by(run_config, loop, datasets={"train": dataset})
    for mine, others in zip(first, second):
        assert sorted(mine + others) == list(range(40)) and len(mine) == 20


def test_a_rank_that_breaks_off_is_in_the_next_epoch_with_the_others(run_config):
    def loop():
        rank, seen = train.get_context().get_world_rank(), []
        batches = train.get_dataset_shard("train").iter_torch_batches(batch_size=2)
        for epoch in range(3):
            seen.append([])
            for batch in batches:
                seen[-1] += batch["id"].tolist()
                if rank == epoch:
                    break
        return seen

    dataset = paceline.data.range(24, override_num_blocks=6).random_shuffle(seed=1)
    first, second = seen_by(run_config, loop, datasets={"train": dataset})
    assert [len(epoch) for epoch in first] == [2, 12, 12] and [len(epoch) for epoch in second] == [12, 2, 12]
    assert sorted(first[2] + second[2]) == list(range(24)) and not set(first[0]) & set(second[0])
