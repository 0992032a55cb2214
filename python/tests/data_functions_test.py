"""Functions of datasets in processes of their own: what comes back, what becomes of crashes, that nothing is left."""

import os
import pathlib
import random
import select
import signal
import subprocess
import sys
import threading
import time

import numpy
import pyarrow
import pytest
import torch

import paceline.data
from paceline import _function_process
from paceline.data import ActorPoolStrategy, DataContext


@pytest.fixture(autouse=True)
def context():
    former = DataContext.get_current().copy()
    yield DataContext.get_current()
    DataContext._set_current(former)


def rows(count=100, blocks=10):
    return paceline.data.range(count, override_num_blocks=blocks)


def column(dataset, name="id"):
    return [value for batch in dataset.iter_batches() for value in batch[name].tolist()]


def pid_of(batch):
    return {"id": batch["id"], "pid": numpy.full(len(batch["id"]), os.getpid())}


def has_ended(pidfd, within=10):
    return bool(select.select([pidfd], [], [], within)[0])


def test_whole_reads_use_processes_and_a_few_rows_do_not():
    dataset = rows().map_batches(pid_of)
    assert {row["pid"] for row in dataset.take(30)} == {os.getpid()}
    assert dataset.schema().names == ["id", "pid"]
    pids = set(column(dataset, "pid"))
    assert os.getpid() not in pids
    assert set(column(dataset, "pid")) == pids  # they stay
    assert column(dataset) == list(range(100))


@pytest.mark.parametrize("concurrency", [1, 2, 4])
def test_order_and_chance_do_not_depend_on_the_number_of_processes(concurrency, context):
    def by_chance(batch):
        time.sleep(random.random() / 100)
        return {"id": batch["id"], "x": numpy.random.rand(len(batch["id"])) + torch.rand(len(batch["id"])).numpy()}

    dataset = rows(200, 20).map_batches(by_chance, concurrency=concurrency, batch_size=7)
    made = [batch for batch in dataset.iter_batches(batch_size=16)]
    context.execution_options.functions = "threads"
    here = [batch for batch in rows(200, 20).map_batches(by_chance, batch_size=7).iter_batches(batch_size=16)]
    for mine, theirs in zip(made, here, strict=True):
        assert numpy.array_equal(mine["id"], theirs["id"]) and numpy.array_equal(mine["x"], theirs["x"])


class Counting:
    def __init__(self, folder, first):
        self.calls = first
        pathlib.Path(folder, str(os.getpid())).touch(exist_ok=False)

    def __call__(self, batch):
        self.calls += 1
        return {"pid": numpy.full(len(batch["id"]), os.getpid()), "calls": numpy.full(len(batch["id"]), self.calls)}


@pytest.mark.parametrize("where", [{"concurrency": 2}, {"compute": ActorPoolStrategy(min_size=1, max_size=2)}])
def test_a_class_is_made_once_in_each_process(tmp_path, where):
    dataset = rows(100, 20).map_batches(Counting, fn_constructor_args=[str(tmp_path), 100], **where)
    for _ in range(2):
        batches = list(dataset.iter_batches(batch_size=5))
    made = {int(file.name) for file in tmp_path.iterdir()}
    assert 1 <= len(made) <= 2 and {batch["pid"][0] for batch in batches} <= made
    assert max(batch["calls"][0] for batch in batches) > 110 and os.getpid() not in made


def test_generators_flat_maps_filters_and_columns():
    def halves(batch):
        for part in numpy.array_split(batch["id"], 2):
            yield {"id": torch.as_tensor(part.copy()), "twice": part * 2}

    dataset = rows().map_batches(halves).filter(lambda row: row["id"] % 2 == 0)
    assert column(dataset, "twice") == list(range(0, 200, 4))
    assert column(rows(10).flat_map(lambda row: [row, row])) == sorted([*range(10), *range(10)])
    assert column(rows(10).add_column("y", lambda frame: frame["id"] + 0.5), "y") == [value + 0.5 for value in range(10)]
    assert column(rows(10).map(lambda row: {"x": row["id"], "name": str(row["id"])}), "name")[3] == "3"


def test_blocks_of_all_types_come_through():
    words = pyarrow.array(["a", None, "b", "a"] * 25)
    table = pyarrow.table({
        "dictionary": words.dictionary_encode(), "text": words, "truth": pyarrow.array([True, None] * 50),
        "list": pyarrow.array([[1, 2], [], None, [3]] * 25), "struct": pyarrow.array([{"a": 1, "b": "x"}] * 100),
        "tensor": pyarrow.FixedSizeListArray.from_arrays(pyarrow.array(numpy.arange(600, dtype="float32")), 6),
        "decimal": pyarrow.array(range(100)).cast(pyarrow.decimal128(25, 2)),
        "nothing": pyarrow.nulls(100),
    })
    source = paceline.data.from_arrow(table)
    for dataset in (source, source.repartition(7)):
        same = dataset.map_batches(lambda batch: batch, batch_format="pyarrow")
        assert pyarrow.concat_tables(same.to_arrow_refs()).to_pydict() == table.to_pydict()
        parts = dataset.map_batches(lambda batch: batch.slice(1), batch_format="pyarrow", batch_size=5)
        wanted = pyarrow.concat_tables([table.slice(first, 5).slice(1) for first in range(0, 100, 5)])
        assert pyarrow.concat_tables(parts.to_arrow_refs()).to_pydict() == wanted.to_pydict()


def test_large_blocks_and_blocks_without_rows():
    numbers = numpy.random.default_rng(0).random((40_000, 64), dtype="float32")
    large = paceline.data.from_numpy(numbers)
    for function in (lambda batch: batch, lambda batch: {"data": batch["data"] + 1}):
        (batch,) = large.map_batches(function).iter_batches(batch_size=None)
        assert numpy.array_equal(batch["data"], function({"data": numbers})["data"])
    empty = rows().map_batches(lambda batch: {"id": batch["id"][:0]})
    assert column(empty) == [] and empty.count() == 0


def test_what_a_function_keeps_of_a_block_stays_as_it_was():
    class Keeping:
        def __init__(self):
            self.kept = []

        def __call__(self, batch):
            self.kept.append((batch["id"], batch["id"].copy()))
            return {"same": numpy.array([all(numpy.array_equal(*pair) for pair in self.kept)]),
                    "kept": numpy.array([len(self.kept)])}

    batches = list(rows(100, 10).map_batches(Keeping, concurrency=1).iter_batches(batch_size=None))
    assert all(batch["same"] for batch in batches) and max(batch["kept"] for batch in batches) == 10


def test_a_crash_is_tried_again(tmp_path):
    def crashes_once(batch):
        if batch["id"][0] == 30 and not (tmp_path / "crashed").exists():
            (tmp_path / "crashed").touch()
            os.kill(os.getpid(), signal.SIGSEGV)
        return batch

    assert column(rows().map_batches(crashes_once)) == list(range(100))
    assert (tmp_path / "crashed").exists()


def test_a_stopped_process_is_replaced(tmp_path):
    def stops_once(batch):
        if batch["id"][0] == 30 and not (tmp_path / "stopped").exists():
            (tmp_path / "stopped").touch()
            os.kill(os.getpid(), signal.SIGSTOP)
        return pid_of(batch)

    dataset = rows().map_batches(stops_once, concurrency=1)
    batches = list(dataset.iter_batches())
    assert [row for batch in batches for row in batch["id"].tolist()] == list(range(100))
    assert (tmp_path / "stopped").exists() and len({pid for batch in batches for pid in batch["pid"]}) == 2


def test_a_process_that_is_stopped_for_a_moment_goes_on():
    def stops(batch):
        if batch["id"][0] == 30:
            stopped = f"grep -q '^State:.T' /proc/{os.getpid()}/status && kill -CONT {os.getpid()}"
            continues = f"while kill -0 {os.getpid()} && ! {{ {stopped}; }}; do :; done"
            with subprocess.Popen(["sh", "-c", continues], start_new_session=True):
                os.kill(os.getpid(), signal.SIGSTOP)
        return pid_of(batch)

    assert len(set(column(rows().map_batches(stops, concurrency=1), "pid"))) == 1


def test_a_fork_server_that_dies_is_started_again():
    def server_of(batch):
        return {"server": numpy.full(len(batch["id"]), os.getppid())}

    dataset = rows().map_batches(server_of, concurrency=2)
    (server,) = set(column(dataset, "server"))
    pidfd = os.pidfd_open(server)
    os.kill(server, signal.SIGKILL)
    assert has_ended(pidfd)
    os.close(pidfd)
    again = set(column(dataset, "server"))
    assert len(again) == 1 and server not in again


def test_a_fork_server_outlives_processes_that_end_together():
    # One signal tells of several: when it is looked at, some may have ended that are not waited for yet.
    server = object.__new__(_function_process._Server)
    with subprocess.Popen(["true"]) as ended:
        os.waitid(os.P_PID, ended.pid, os.WEXITED | os.WNOWAIT)
        server._children, server._stopped = {ended.pid: None}, {}
        server._look_for_stopped()
    assert server._stopped == {}


def test_a_second_crash_is_an_error_that_names_the_rows():
    def crashes(batch):
        if batch["id"][0] == 30:
            os._exit(7)
        return batch

    with pytest.raises(RuntimeError, match=r"MapBatches\(crashes\).*exited with code 7.*block 3 \(rows 30 to 39\)"):
        column(rows().map_batches(crashes))


def test_exceptions_keep_their_type_and_say_where():
    class Own(Exception):
        def __init__(self, number):
            super().__init__(f"number {number}")
            self.number = number

    def raises(row):
        raise Own(row["id"])

    with pytest.raises(Own, match="number 0") as raised:
        column(rows().map(raises))
    assert raised.value.number == 0 and "in raises" in str(raised.value.__cause__)
    assert any("block 0 (rows 0 to 9)" in note for note in raised.value.__notes__)

    def unpicklable(row):
        raise ValueError("odd", threading.Lock())

    with pytest.raises(RuntimeError, match="odd"):
        column(rows().map(unpicklable))


def test_a_function_that_cannot_be_pickled_is_named():
    lock = threading.Lock()
    with pytest.raises(TypeError, match="Map.*cannot be sent.*'lock'"):
        column(rows().map(lambda row: lock and row))


def test_memory_beyond_the_limit_ends_the_process():
    def large(batch):
        batch["id"].max()
        return {"size": numpy.array([len(bytes(bytearray(os.urandom(1)) * (400 << 20)))])}

    with pytest.raises(RuntimeError, match="large.*more than the 200 MiB of memory"):
        column(rows(10, 1).map_batches(large, memory=200 << 20), "size")
    assert column(rows(10, 1).map_batches(large, memory=4 << 30), "size") == [400 << 20]


def test_gpus_that_are_not_there(monkeypatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    with pytest.raises(ValueError, match="asks for num_gpus=1, but this process sees no GPU"):
        column(rows().map_batches(pid_of, num_gpus=1))
    with pytest.raises(ValueError, match="sees no GPU"):
        rows().map_batches(pid_of, num_gpus=1).take(1)


def test_a_process_sees_only_its_gpus(monkeypatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "4,5,6,7")

    def seen(batch):
        time.sleep(0.01)  # so that others have their turn
        return {"gpus": [os.environ["CUDA_VISIBLE_DEVICES"]] * len(batch["id"])}

    def sets(**options):
        return set(column(rows(64, 32).map_batches(seen, **options), "gpus"))

    assert sets(num_gpus=2) == {"4,5", "6,7"}
    assert sets(num_gpus=1, concurrency=1) == {"4"}
    assert sets(num_gpus=0.5, concurrency=2) <= {"4", "5"}
    with pytest.raises(ValueError, match="asks for 3 processes with num_gpus=2.*enough for 2"):
        sets(num_gpus=2, concurrency=3)


@pytest.mark.parametrize(("options", "message"), [
    ({"concurrency": 0}, "concurrency is 0"), ({"concurrency": (2, 0)}, "concurrency is 0"),
    ({"compute": "actors"}, "compute is 'actors'"), ({"num_cpus": -1}, "num_cpus is -1"), ({"memory": "1G"}, "memory is '1G'"),
])
def test_wrong_options(options, message):
    with pytest.raises(ValueError, match=message):
        rows().map(lambda row: row, **options)


def test_processes_end_with_the_dataset():
    dataset = rows().map_batches(pid_of, concurrency=1)
    pidfds = [os.pidfd_open(pid) for pid in set(column(dataset, "pid"))]
    assert not has_ended(pidfds[0], 0)
    del dataset
    assert has_ended(pidfds[0])


# With two processes: one alone might get the second block first, which one of two threads has read.
PROGRAM = """if True:
    import os, time
    import numpy, paceline.data
    def tell(batch):
        os.write(1, f"{os.getpid()} {os.getppid()} ".encode())
        if batch["id"][0] > 0:
            time.sleep(1000)
        return batch
    for batch in paceline.data.range(20, override_num_blocks=2).map_batches(tell, concurrency=2).iter_batches(batch_size=10):
        print(flush=True)
        %s"""


def test_ctrl_c_ends_the_wait_for_a_function():
    program = PROGRAM % "continue"
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, stderr=subprocess.PIPE) as running:
        running.stdout.readline()
        running.send_signal(signal.SIGINT)
        assert b"KeyboardInterrupt" in running.communicate(timeout=60)[1]


def test_ctrl_c_ends_the_wait_for_a_fork_server_that_is_stopped():
    program = """if True:
        import os, signal
        import numpy, paceline.data
        def server(batch):
            return {"server": numpy.full(len(batch["id"]), os.getppid())}
        numbers = paceline.data.range(4)
        first = numbers.map_batches(server)
        (batch,) = first.iter_batches(batch_size=4)
        os.kill(int(batch["server"][0]), signal.SIGSTOP)
        print(flush=True)
        next(iter(numbers.map_batches(server, concurrency=1).iter_batches()))"""
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, stderr=subprocess.PIPE) as running:
        running.stdout.readline()
        running.send_signal(signal.SIGINT)
        assert b"KeyboardInterrupt" in running.communicate(timeout=60)[1]


def test_a_process_says_where_it_is():
    """FunctionProcess::show_stack(), which a call gets that takes a minute."""
    program = """if True:
        import os, signal
        import paceline.data
        def asks_itself(batch):
            os.kill(os.getpid(), signal.SIGUSR2)
            return batch
        print(len(list(paceline.data.range(4).map_batches(asks_itself).iter_rows())))"""
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True)
    assert run.stdout == b"4\n" and b"in asks_itself" in run.stderr


@pytest.mark.parametrize("end", ["time.sleep(1000)", "os._exit(0)", "break"])
def test_nothing_is_left_of_a_program(end):
    with subprocess.Popen([sys.executable, "-c", PROGRAM % end], stdout=subprocess.PIPE) as program:
        pidfds = [os.pidfd_open(int(pid)) for pid in program.stdout.readline().split()[:2]]  # a process, and its server
        if "sleep" in end:
            program.kill()
        assert all(map(has_ended, pidfds))
    for pidfd in pidfds:
        os.close(pidfd)


def draw(name):
    return lambda row: {**row, name: random.random()}


def test_steps_and_rows_draw_numbers_of_their_own():
    twice = paceline.data.range(40, override_num_blocks=2).map(draw("a")).map(draw("b"))
    rows = twice.take_all()
    assert len({row[name] for row in rows for name in "ab"}) == 80
    assert twice.take_all() == rows

    def bad(row):
        if row["id"] == 17:
            raise ValueError("bad")
        return {**row, "a": random.random()}

    rows = paceline.data.range(40, override_num_blocks=1).map(bad, on_error="skip").take_all()
    assert len({row["a"] for row in rows}) == 39
