"""A real MLflow server takes what the tracker sends; MLflow's own client reads it."""

import math
import os
import re
import subprocess
import sys

import pytest
from mlflow import MlflowClient
from tracker_program import TrackerProgram

READY = re.compile(r"Uvicorn running on (http://127\.0\.0\.1:\d+)")


@pytest.fixture(scope="module")
def uri(tmp_path_factory):
    """Address of a server that lives as long as the tests."""
    folder = tmp_path_factory.mktemp("server")
    environment = os.environ | {
        "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false",
        "MLFLOW_DISABLE_TELEMETRY": "true",
        "NO_PROXY": "127.0.0.1",
    }
    command = [sys.executable, "-m", "mlflow", "server", "--host", "127.0.0.1", "--port", "0", "--workers", "1"]
    command += ["--backend-store-uri", f"sqlite:///{folder}/mlflow.db", "--default-artifact-root", str(folder)]
    server = subprocess.Popen(command, cwd=folder, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True)
    said = ""
    for line in server.stdout:
        said += line
        if ready := READY.search(line):
            break
    else:
        pytest.fail("the server did not start:\n" + said)
    yield ready[1]
    server.terminate()
    server.communicate(timeout=60)


def history(client, run, metric):
    return [(point.step, point.value) for point in client.get_metric_history(run, metric)]


def test_a_run_over_two_drivers(uri, tmp_path):
    config = {"kind": "mlflow", "uri": uri, "project": "digits", "tags": {"team": "a"}}
    loop = {"lr": 0.5, "model": {"layers": 12}, "note": "x" * 9000, **{f"p{i}": i for i in range(150)}}
    run = {"name": "sample", "folder": str(tmp_path), "train_loop_config": loop}
    rows = [{"step": step, "time": 1000.0 + step, "metrics": {f"m{i}": step * i for i in range(7)}} for step in range(1, 301)]
    with TrackerProgram(config, run) as tracker:
        assert tracker.begin(time=1000.0) == ""
        assert tracker.write(*rows) == ""
        assert tracker.write(*rows[-2:]) == "", "twice after a crash"
        assert tracker.finish(state="aborted", message="stopped", time=2000.0) == ""
        memory = tracker.memory
    client = MlflowClient(uri)
    kept = client.get_run(memory["run_id"])
    assert kept.info.status == "KILLED" and kept.info.end_time == 2_000_000
    with TrackerProgram(config, run, memory) as tracker:
        assert tracker.begin(attempt=2, resume_step=300, time=3000.0) == ""
        assert client.get_run(memory["run_id"]).info.status == "RUNNING"
        assert tracker.write({"step": 301, "time": 3001.0, "checkpoint": "checkpoint_000301", "metrics": {"m1": 301}}) == ""
        assert tracker.finish(state="finished", time=3002.0) == ""
    experiment = client.get_experiment_by_name("digits")
    (kept,) = client.search_runs([experiment.experiment_id])
    assert (kept.info.run_name, kept.info.status, kept.info.start_time) == ("sample", "FINISHED", 1_000_000)
    assert kept.data.params["lr"] == "0.5" and kept.data.params["model/layers"] == "12" and len(kept.data.params) == 153
    assert kept.data.tags["team"] == "a" and kept.data.tags["paceline.attempt"] == "2"
    assert kept.data.tags["paceline.checkpoint"] == f"{tmp_path}/checkpoint_000301"
    assert history(client, kept.info.run_id, "m1") == [(step, float(step)) for step in range(1, 302)]
    assert history(client, kept.info.run_id, "m6") == [(step, 6.0 * step) for step in range(1, 301)]


def test_everything_is_taken_whatever_its_name_and_value(uri, tmp_path):
    names = ["größe,x", "a//b", "/c", "../d", "e/", "..", "f/../g", "", "h" * 300, "i: 1"]
    metrics = {name: place for place, name in enumerate(names)}
    metrics |= {name: {"$number": name} for name in ("nan", "inf", "-inf")}
    loop = {"größe": 1, "grüße": 2, "a//b": 3, "": "empty"}
    with TrackerProgram({"kind": "mlflow", "uri": uri}, {"name": "odd", "folder": str(tmp_path), "train_loop_config": loop}) as tracker:
        assert tracker.begin(time=1000.0) == ""
        assert tracker.write({"step": 1, "time": 1001.0, "metrics": metrics}) == ""
        memory = tracker.memory
    kept = MlflowClient(uri).get_run(memory["run_id"]).data
    assert len(kept.metrics) == len(metrics)
    taken = ["gr____e_x", "a/b", "c", "__/d", "e", "__", "f/__/g", "_", "h" * 250, "i: 1"]
    assert [kept.metrics[name] for name in taken] == list(range(len(names)))
    assert math.isnan(kept.metrics["nan"]) and kept.metrics["inf"] > 1e300 and kept.metrics["-inf"] < -1e300
    assert kept.params == {"gr____e": "1", "a/b": "3", "_": "empty"}
