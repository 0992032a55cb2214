"""kill -9 at random steps: whoever goes on from the checkpoint, at another world size, gives exactly what is left.

The ranks are iterators in one process, which is forked so that fifty lives are quick.
"""

import json
import os
import random
import signal
import traceback

import numpy
import pyarrow
import pyarrow.csv
import pyarrow.feather
import pyarrow.orc
import pyarrow.parquet
import pytest

import paceline.data
from paceline.data import expressions

ROWS = 900
KILLS = 3  # of each of eighteen datasets
BUFFER = 80  # rows of all ranks together: it is what the order depends on


def written(folder, kind):
    for file in range(4):
        table = pyarrow.table({"row": range(file * ROWS // 4, (file + 1) * ROWS // 4)})
        if kind == "parquet":
            pyarrow.parquet.write_table(table, folder / f"{file}.parquet", row_group_size=37)
        elif kind == "feather":
            pyarrow.feather.write_feather(table, folder / f"{file}.feather", chunksize=50)
        elif kind == "orc":
            pyarrow.orc.write_table(table, folder / f"{file}.orc")
        elif kind == "numpy":
            numpy.save(folder / f"{file}.npy", table["row"].to_numpy())
        elif kind == "csv":
            pyarrow.csv.write_csv(table, folder / f"{file}.csv")
        elif kind == "text":
            (folder / f"{file}.txt").write_text("".join(f"{row:04}\n" for row in table["row"].to_pylist()))
        else:
            (folder / f"{file}.json").write_text("".join(json.dumps(row) + "\n" for row in table.to_pylist()))
    return getattr(paceline.data, f"read_{kind}")(str(folder))


def rows_of(folder, kind):
    if kind in ("numbers", "functions"):
        return paceline.data.range(ROWS, override_num_blocks=9).rename_columns({"id": "row"})
    files = written(folder, kind)
    return files.rename_columns({"data": "row"} if kind == "numpy" else {"text": "row"}) if kind in ("numpy", "text") else files


def steps(dataset, kind, chance):
    if kind == "functions":
        dataset = dataset.map_batches(lambda batch: {"row": batch["row"], "by_chance": numpy.random.rand(len(batch["row"]))})
    else:
        few = "row < '0100' or row > '0190'" if kind == "text" else "row < 100 or row > 190"
        if chance.random() < 0.8:
            dataset = dataset.filter(expr=few)
        if chance.random() < 0.8:
            dataset = dataset.mix(dataset.filter(expr=few).limit(50), weights=[3, 1])
        if kind != "text":
            dataset = dataset.with_column("half", expressions.col("row") / 2)
    return dataset.random_shuffle(seed=chance.randrange(100))


def train(dataset, checkpoint, world_size, batch_size, options, announce):
    """One life: steps of all ranks, each of which is checkpointed with the rows that have been seen."""
    seen, shards = [], dataset.streaming_split(world_size)
    if os.path.exists(checkpoint):
        with open(checkpoint) as file:
            saved = json.load(file)
        seen = saved["seen"]
        for shard in shards:
            shard.load_state_dict(saved["state"])
    ranks = [iter(shard.iter_batches(batch_size=batch_size, **options)) for shard in shards]
    while batches := [batch for rank in ranks if (batch := next(rank, None)) is not None]:
        seen += [row for batch in batches for row in zip(*(batch[name].tolist() for name in sorted(batch)))]
        with open(f"{checkpoint}.unfinished", "w") as file:
            json.dump({"seen": seen, "state": shards[0].state_dict()}, file)
        os.replace(f"{checkpoint}.unfinished", checkpoint)
        announce()


def live(life, kill_after):
    """Runs it in a process of its own, which is killed while it goes on after so many steps. Whether it was."""
    reading, writing = os.pipe()
    process = os.fork()
    if process == 0:
        code = 1
        try:
            life(lambda: os.write(writing, b"."))
            code = 0
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(code)
    os.close(writing)
    done = 0
    while done < kill_after and os.read(reading, 1):
        done += 1
    if done == kill_after:
        os.kill(process, signal.SIGKILL)
    os.close(reading)
    _, status = os.waitpid(process, 0)
    if os.WIFSIGNALED(status):
        return True
    assert os.waitstatus_to_exitcode(status) == 0
    return False


@pytest.mark.parametrize("local_shuffle", [False, True])
@pytest.mark.parametrize("kind", ["parquet", "feather", "orc", "numpy", "csv", "json", "text", "numbers", "functions"])
def test_what_is_left_is_what_comes(tmp_path, kind, local_shuffle):
    chance = random.Random(f"{kind} {local_shuffle}")
    (tmp_path / "data").mkdir()
    dataset = steps(rows_of(tmp_path / "data", kind), kind, chance)
    whole = str(tmp_path / "whole")
    options = {"local_shuffle_buffer_size": BUFFER} if local_shuffle else {}
    train(dataset, whole, 1, BUFFER, options, lambda: None)
    checkpoint, kills = str(tmp_path / "checkpoint"), 0
    while True:
        options = {"prefetch_batches": chance.randrange(4)}
        world_size, batch_size = chance.choice([1, 2, 4]), chance.randint(1, 9)
        if local_shuffle:
            options["local_shuffle_buffer_size"] = BUFFER // world_size
        kill_after = chance.randint(1, 4) if kills < KILLS else ROWS
        if not live(lambda announce: train(dataset, checkpoint, world_size, batch_size, options, announce), kill_after):
            break
        kills += 1
    with open(checkpoint) as file:
        seen = json.load(file)["seen"]
    with open(whole) as file:
        assert seen == json.load(file)["seen"]
    assert kills == KILLS
