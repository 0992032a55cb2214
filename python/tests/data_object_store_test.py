"""Datasets in S3, against the same files on the disk: with an orderly server, and with one that fails in every way."""

import json
import pathlib
import socket
import subprocess
import sys
import threading
import time

import pyarrow
import pyarrow.csv
import pyarrow.feather
import pyarrow.orc
import pyarrow.parquet
import pytest

import paceline.data
import paceline.train
from paceline.train import RunConfig, ScalingConfig
from paceline.train.torch import TorchTrainer
from same_rows import assert_equal, rows_of

sys.path.append(str(pathlib.Path(__file__).parents[2] / "paceline/testing"))
import object_servers  # noqa: E402

TABLE = pyarrow.table({"row": range(3000), "text": [f"text {row}" for row in range(3000)]})


class Unsteady(object_servers.S3):
    """Of the answers with objects, some are slow, and some break off in the middle; other requests fail as of S3."""

    broken = 0

    def answer(self, environ, start_response):
        reply = super().answer(environ, start_response)
        if not self.faults_are_on or environ["REQUEST_METHOD"] != "GET" or self.requests % 5 not in (1, 3):
            return reply
        if self.requests % 5 == 1:
            time.sleep(0.02)  # the server's own slowness
            return reply
        return self.cut(b"".join(reply), environ["werkzeug.socket"])

    def cut(self, body, connection):
        self.broken += 1
        yield body[: len(body) // 2]
        connection.shutdown(socket.SHUT_RDWR)
        raise ConnectionResetError


@pytest.fixture(scope="module", params=[object_servers.S3, lambda: Unsteady(every_nth=7)], ids=["orderly", "unsteady"])
def server(request):
    with request.param() as server:
        yield server
        assert getattr(server, "broken", 1) > 0


@pytest.fixture
def both(server, tmp_path):
    """Writes files to the disk and the store: a path and a URI of the folder."""
    folder = tmp_path.name
    server.faults_are_on = False

    def copied(write):
        write(tmp_path)
        for file in tmp_path.rglob("*"):
            if file.is_file():
                key = f"{folder}/{file.relative_to(tmp_path)}"
                server.client().put_object(Bucket=object_servers.BUCKET, Key=key, Body=file.read_bytes(), ACL="public-read")
        server.faults_are_on = True
        return str(tmp_path), lambda name="": uri(server, f"{folder}/{name}")

    yield copied
    server.faults_are_on = False


def uri(server, path, credentials=""):
    begin, _, options = server.uri.partition("?")
    return f"s3://{credentials}{begin.removeprefix('s3://')}/{path}?{options}"


def parts():
    return enumerate(TABLE[first:first + 1000] for first in range(0, 3000, 1000))


WRITE = {
    "parquet": lambda table, path: pyarrow.parquet.write_table(table, path, row_group_size=150),
    "csv": pyarrow.csv.write_csv,
    "json": lambda table, path: path.write_text(table.to_pandas().to_json(orient="records", lines=True)),
    "feather": lambda table, path: pyarrow.feather.write_feather(table, path, chunksize=300),
    "orc": lambda table, path: pyarrow.orc.write_table(table, str(path)),
}


@pytest.mark.parametrize("kind", WRITE)
def test_the_stream_is_that_of_the_disk(both, kind):
    folder, there = both(lambda path: [WRITE[kind](part, path / f"{number}.{kind}") for number, part in parts()])
    read = getattr(paceline.data, f"read_{kind}")
    here, remote = read(folder), read(there())
    assert_equal(rows_of(remote, batch_size=64), TABLE)
    assert_equal(rows_of(remote.random_shuffle(seed=3), batch_size=100), rows_of(here.random_shuffle(seed=3), batch_size=100))
    assert read(there(f"[12].{kind}")).count() == 2000


def test_partitioned_folders(both):
    def write(path):
        for number, part in parts():
            (path / f"year={2020 + number}").mkdir()
            pyarrow.parquet.write_table(part, path / f"year={2020 + number}/a.parquet")

    folder, there = both(write)
    dataset = paceline.data.read_parquet(there(), partitioning="hive")
    assert [row["year"] for row in dataset.take_all()] == 1000 * [2020] + 1000 * [2021] + 1000 * [2022]
    assert rows_of(dataset).equals(rows_of(paceline.data.read_parquet(folder, partitioning="hive")))
    assert paceline.data.read_parquet(there("*/a.parquet")).count() == 3000


def test_what_is_open_to_all_is_read_without_keys(both, server, monkeypatch):
    _, there = both(lambda path: WRITE["csv"](TABLE, path / "a.csv"))
    server.faults_are_on = False
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name)
    anonymous = there("a.csv").replace("s3://", "s3://anonymous@")
    assert paceline.data.read_csv(anonymous).count() == 3000


def test_what_is_not_there_is_named_without_keys(both):
    _, there = both(lambda path: WRITE["csv"](TABLE, path / "a.csv"))
    missing = there("none.csv").replace("s3://", "s3://someone:secret@")
    with pytest.raises(paceline.train.PacelineError, match="none.csv") as raised:
        paceline.data.read_csv(missing).count()
    assert "secret" not in str(raised.value)


def test_what_a_run_reads_is_told_in_the_store_while_it_goes_on(tmp_path):
    """The figures of the data process are records of the run, as its journal is: there, and in `paceline show`."""
    with object_servers.S3() as store:
        def train_loop(config):
            for _ in paceline.train.get_dataset_shard("numbers").iter_batches(batch_size=50):
                pass
            end = time.monotonic() + 60
            while not (tmp_path / "seen").exists():
                assert time.monotonic() < end, "nothing came"
                time.sleep(0.1)  # until the driver has seen them
            paceline.train.report({"done": 1})

        def look():
            while not (tmp_path / "seen").exists():
                listed = store.client().list_objects_v2(Bucket=object_servers.BUCKET, Prefix="runs/run/records/data/")
                for entry in listed.get("Contents", []):
                    body = store.client().get_object(Bucket=object_servers.BUCKET, Key=entry["Key"])["Body"].read()
                    # What steps have made may be of the next epoch already.
                    if any(rank["rows"] == 100 for dataset in json.loads(body)["datasets"] for rank in dataset["ranks"]):
                        (tmp_path / "seen").write_text(entry["Key"])
                time.sleep(0.2)

        looking = threading.Thread(target=look, daemon=True)
        looking.start()
        trainer = TorchTrainer(
            train_loop, train_loop_config={}, datasets={"numbers": paceline.data.range(100)},
            scaling_config=ScalingConfig(num_workers=1),
            run_config=RunConfig(name="run", storage_path=uri(store, "runs"), quiet=True))
        trainer.fit()
        assert "records/data/process_" in (tmp_path / "seen").read_text()
        shown = subprocess.run([sys.executable, "-m", "paceline", "show", uri(store, "runs/run")], capture_output=True, text=True)
        assert "dataset      numbers: 100 rows" in shown.stdout, shown.stdout + shown.stderr
