"""TensorBoard itself reads the event files that we write."""

import math

from tensorboard.backend.event_processing import event_accumulator
from tensorboard.plugins.hparams import plugin_data_pb2
from tracker_program import TrackerProgram

CONFIG = {"kind": "tensorboard"}
LOOP_CONFIG = {"lr": 0.125, "model": {"layers": 12, "name": "vit"}, "amp": True, "sizes": [1, 2]}


def run_in(folder):
    return {"name": "sample", "folder": str(folder), "train_loop_config": LOOP_CONFIG}


def read(folder):
    accumulator = event_accumulator.EventAccumulator(str(folder / "tensorboard"))
    accumulator.Reload()
    return accumulator


def steps(accumulator, tag):
    return [(scalar.step, scalar.value) for scalar in accumulator.Scalars(tag)]


def test_scalars_are_read_as_written(tmp_path):
    with TrackerProgram(CONFIG, run_in(tmp_path)) as tracker:
        assert tracker.begin(time=1_700_000_000.0) == ""
        for step in range(1, 51):
            metrics = {"loss": 1 / step, "eval": {"accuracy": step}, "nan": {"$number": "nan"}, "note": "text"}
            assert tracker.write({"step": step, "time": 1_700_000_000.5 + step, "metrics": metrics}) == ""
        assert tracker.finish(state="finished", time=1_700_000_100.0) == ""
    accumulator = read(tmp_path)
    assert steps(accumulator, "eval/accuracy") == [(step, step) for step in range(1, 51)]
    assert [scalar.wall_time for scalar in accumulator.Scalars("loss")][:2] == [1_700_000_001.5, 1_700_000_002.5]
    assert all(math.isclose(value, 1 / step, rel_tol=1e-6) for step, value in steps(accumulator, "loss"))
    assert math.isnan(steps(accumulator, "nan")[0][1])
    assert "note" not in accumulator.Tags()["scalars"]


def test_the_configuration_is_hyperparameters(tmp_path):
    with TrackerProgram(CONFIG, run_in(tmp_path)) as tracker:
        tracker.begin(time=1_700_000_000.0)
        tracker.finish(state="errored", time=1_700_000_100.0)
    metadata = read(tmp_path).PluginTagToContent("hparams")
    start = plugin_data_pb2.HParamsPluginData.FromString(metadata["_hparams_/session_start_info"])
    hparams = {name: value.WhichOneof("kind") for name, value in start.session_start_info.hparams.items()}
    assert hparams == {
        "amp": "bool_value",
        "lr": "number_value",
        "model/layers": "number_value",
        "model/name": "string_value",
        "sizes": "string_value",
    }
    assert start.session_start_info.hparams["lr"].number_value == 0.125
    assert start.session_start_info.start_time_secs == 1_700_000_000.0
    end = plugin_data_pb2.HParamsPluginData.FromString(metadata["_hparams_/session_end_info"])
    assert end.session_end_info.status == 2  # failure


def test_a_restart_takes_back_what_was_beyond_its_checkpoint(tmp_path):
    with TrackerProgram(CONFIG, run_in(tmp_path)) as tracker:
        tracker.begin(attempt=1, time=1_700_000_000.0)
        tracker.write(*({"step": step, "time": 1_700_000_000.0 + step, "metrics": {"loss": 10 + step}} for step in (1, 2, 3)))
        tracker.begin(attempt=2, resume_step=1, time=1_700_000_010.0)
        tracker.write({"step": 2, "time": 1_700_000_012.0, "metrics": {"loss": 22}})
    with TrackerProgram(CONFIG, run_in(tmp_path)) as tracker:  # the next driver
        tracker.write({"step": 3, "time": 1_700_000_013.0, "metrics": {"loss": 23}})  # left by the one before
        tracker.begin(attempt=3, resume_step=2, time=1_700_000_020.0)
        tracker.write({"step": 3, "time": 1_700_000_023.0, "metrics": {"loss": 33}})
        tracker.finish(time=1_700_000_030.0)
    files = sorted((tmp_path / "tensorboard").iterdir())
    assert len(files) == 4
    assert steps(read(tmp_path), "loss") == [(1, 11), (2, 22), (3, 33)]
