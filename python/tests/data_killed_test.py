"""kill -9 at random steps: whoever goes on from the checkpoint, at another world size, gives exactly what is left.

The ranks are iterators in one process, which is forked so that fifty lives are quick; nothing is read before that.
"""

import json
import os
import random
import signal

import pyarrow
import pyarrow.csv
import pyarrow.feather
import pyarrow.parquet
import pytest

import paceline.data

ROWS = 900
KILLS = 5  # of each of ten datasets
BUFFER = 80  # rows of all ranks together: it is what the order depends on


def written(folder, kind):
    for file in range(4):
        table = pyarrow.table({"row": range(file * ROWS // 4, (file + 1) * ROWS // 4)})
        if kind == "parquet":
            pyarrow.parquet.write_table(table, folder / f"{file}.parquet", row_group_size=37)
        elif kind == "feather":
            pyarrow.feather.write_feather(table, folder / f"{file}.feather", chunksize=50)
        elif kind == "csv":
            pyarrow.csv.write_csv(table, folder / f"{file}.csv")
        else:
            (folder / f"{file}.json").write_text("".join(json.dumps(row) + "\n" for row in table.to_pylist()))
    return getattr(paceline.data, f"read_{kind}")(str(folder))


def steps(dataset, chance):
    dataset = dataset.filter(expr="row != 5 and row != 600")
    if chance.random() < 0.5:
        dataset = dataset.filter(lambda row: row["row"] % 7 > 0)
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
        seen += [row for batch in batches for row in batch["row"].tolist()]
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
@pytest.mark.parametrize("kind", ["parquet", "feather", "csv", "json", "numbers"])
def test_what_is_left_is_what_comes(tmp_path, kind, local_shuffle):
    chance = random.Random(f"{kind} {local_shuffle}")
    (tmp_path / "data").mkdir()
    files = paceline.data.range(ROWS).rename_columns({"id": "row"}) if kind == "numbers" else written(tmp_path / "data", kind)
    dataset = steps(files, chance)
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
    order = dataset.iter_batches(batch_size=BUFFER, local_shuffle_buffer_size=BUFFER if local_shuffle else None)
    assert kills == KILLS
    assert seen == [row for batch in order for row in batch["row"].tolist()]
