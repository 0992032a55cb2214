"""Behaviours 1 to 15: what fit() takes and gives, ranks and environment of workers, how a run is interrupted."""

import os
import signal

import pytest
import torch
import torch.distributed as dist

import paceline.train as train
from behaviours import checkpoint_of_rank, fit, proved_by, start_driver, wait_for_line
from paceline.train import Result, StorageError
from paceline.train.torch import TorchConfig, TorchTrainer


def test_01_fit_takes_functions_of_no_and_of_one_argument(run_config):
    assert fit(lambda: "none", run_config()).return_value == "none"
    assert fit(lambda config: config["n"], run_config(), config={"n": 1}).return_value == 1
    assert fit(lambda config=None, more=2: [config, more], run_config(), config={"n": 1}).return_value == [None, 2]
    with pytest.raises(ValueError, match="takes 2 arguments"):
        TorchTrainer(lambda config, more: None)


def test_02_without_optional_arguments_one_worker_runs(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    result = TorchTrainer(lambda: train.get_context().get_world_size()).fit()
    assert result.return_value == 1 and result.error is None
    assert os.path.dirname(result.path) == str(tmp_path / "paceline_results")


def test_03_the_config_is_delivered(run_config):
    config = {"number": 1, "nested": {"tensor": torch.ones(2)}, "function": len}
    result = fit(lambda config: [config["number"], config["function"]("ab"), config["nested"]["tensor"].tolist()], run_config(),
                 config=config)  # fmt: skip
    assert result.return_value == [1, 2, [1, 1]]
    assert fit(lambda config: config, run_config()).return_value == {}


def test_04_rank_zeros_return_value_comes_back_with_tensors_too(run_config):
    assert fit(lambda: train.get_context().get_world_rank() + 10, run_config()).return_value == 10

    def loop():
        model = torch.nn.Linear(1, 1)
        return {"model": model, "weights": [model.weight * 1], "ones": torch.ones(2)}

    returned = fit(loop, run_config(), workers=1).return_value
    assert torch.equal(returned["model"].weight, returned["weights"][0]) and not returned["weights"][0].requires_grad
    assert torch.equal(returned["ones"], torch.ones(2))


def test_05_a_result_has_all_that_was_reported(run_config, tmp_path):
    def loop(config):
        train.report({"n": 1})
        train.report({"n": 2, "nested": {"a": 0.5}}, checkpoint_of_rank(config["scratch"], "first"))
        train.report({"n": 3}, checkpoint_of_rank(config["scratch"], "second"))

    result = fit(loop, run_config(name="run"), config={"scratch": str(tmp_path)})
    assert result.path == str(tmp_path / "results/run") and result.filesystem.type_name == "local"
    assert result.metrics == {"n": 3}
    assert [metrics["n"] for _, metrics in result.best_checkpoints] == [2, 3]
    assert result.checkpoint == result.best_checkpoints[-1][0]
    assert sorted(os.listdir(result.checkpoint.path))[-2:] == ["rank_0.txt", "rank_1.txt"]
    frame = result.metrics_dataframe
    assert list(frame["n"]) == [1, 2, 3] and frame["nested"][1] == {"a": 0.5}


def test_06_a_result_is_read_from_its_folder(run_config, tmp_path):
    result = fit(lambda: train.report({"n": 1}), run_config(name="run"))
    for path in (result.path, result.path + "/", tmp_path / "results/run"):
        again = Result.from_path(path)
        assert again.metrics == {"n": 1} and again.path == result.path
    assert Result.from_path(result.path, storage_filesystem=result.filesystem).metrics == {"n": 1}
    with pytest.raises(RuntimeError, match="Experiment folder .* doesn't exist"):
        Result.from_path(tmp_path / "nowhere")
    with pytest.raises(RuntimeError, match="is not the folder of a run: it has no journal.jsonl") as refusal:
        Result.from_path(tmp_path)
    assert isinstance(refusal.value, StorageError)
    # On S3: test_47 in full/behaviours_storage_test.py.


def test_07_the_best_checkpoint_is_found_by_any_metric(run_config, tmp_path):
    def loop(config):
        for step, (loss, accuracy) in enumerate([(3, 0.1), (1, 0.3), (2, 0.5)]):
            train.report({"loss": loss, "nested": {"accuracy": accuracy}}, checkpoint_of_rank(config["scratch"], str(step)))

    result = fit(loop, run_config(), workers=1, config={"scratch": str(tmp_path)})

    def best(metric, mode):
        return open(os.path.join(result.get_best_checkpoint(metric, mode).path, "rank_0.txt")).read()

    assert [best("loss", "max"), best("loss", "min"), best("nested/accuracy", "max")] == ["0", "1", "2"]
    with pytest.raises(RuntimeError, match="nothing.*loss"):
        result.get_best_checkpoint("nothing", "max")
    with pytest.raises(ValueError, match="highest"):
        result.get_best_checkpoint("loss", "highest")


def places():
    """Every rank's place, on rank 0."""
    context = train.get_context()
    mine = [context.get_world_rank(), context.get_world_size(), context.get_local_rank(), context.get_local_world_size(),
            context.get_node_rank()]  # fmt: skip
    everyones = [None] * context.get_world_size()
    dist.all_gather_object(everyones, mine)
    return everyones


def test_08_ranks_and_sizes_are_those_of_the_group_and_of_the_node(run_config):
    assert fit(places, run_config(), workers=3).return_value == [[0, 3, 0, 3, 0], [1, 3, 1, 3, 0], [2, 3, 2, 3, 0]]
    proved_by("paceline/policy/decide_start_test.cpp Start.RanksAreContiguousOnNodesInTheirOrder",
              "paceline/agent/node_test.cpp Node.CountsGpusThatAProcessCanUse")  # fmt: skip


def test_09_nodes_are_in_the_order_in_which_they_came():
    proved_by("paceline/policy/decide_start_test.cpp Start.RanksAreContiguousOnNodesInTheirOrder",
              "paceline/policy/decide_start_test.cpp Start.WorkersGoWhereGpusAre")  # fmt: skip


def test_10_the_variables_of_torch_are_set(run_config):
    def loop():
        names = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "NODE_RANK", "MASTER_ADDR", "ACCELERATE_TORCH_DEVICE")
        everyones = [None, None]
        dist.all_gather_object(everyones, [os.environ[name] for name in names] + [os.environ["MASTER_PORT"].isdigit()])
        return everyones

    expected = [[rank, "2", rank, "2", "0", "127.0.0.1", "cpu", True] for rank in "01"]
    for init_method in ("env", "tcp"):
        assert fit(loop, run_config(), torch_config=TorchConfig(init_method=init_method)).return_value == expected
    with pytest.raises(ValueError, match='"file"; allowed: one of "env", "tcp"'):
        TorchConfig(init_method="file")


def test_11_the_working_directory_is_the_drivers_or_the_runs_by_a_switch(run_config, monkeypatch):
    def loop():
        everyones = [None, None]
        dist.all_gather_object(everyones, os.getcwd())
        return everyones

    assert fit(loop, run_config()).return_value == [os.getcwd()] * 2
    monkeypatch.setenv("PACELINE_TRAIN_CHDIR_TO_TRIAL_DIR", "1")
    result = fit(loop, run_config())
    assert result.return_value == [os.path.join(result.path, "artifacts")] * 2


def test_12_the_runs_variables_go_over_the_drivers(run_config, monkeypatch):
    monkeypatch.setenv("OF_THE_DRIVER", "driver")
    monkeypatch.setenv("OF_BOTH", "driver")
    settings = run_config(worker_runtime_env={"env_vars": {"OF_BOTH": "run", "OF_THE_RUN": "run"}})
    names = ("OF_THE_DRIVER", "OF_BOTH", "OF_THE_RUN")
    assert fit(lambda: [os.environ[name] for name in names], settings).return_value == ["driver", "run", "run"]
    assert "OF_THE_RUN" not in os.environ


LOOPS = """
    import sys, time
    import paceline.train as train
    from paceline.train.torch import TorchTrainer

    def listening():
        print("in the loop", flush=True)
        while True:
            train.report({"n": 1})
            time.sleep(0.01)

    def deaf():
        print("in the loop", flush=True)
        while True:
            time.sleep(1000)

    failures = train.FailureConfig(stop_grace_s=600)
    settings = train.RunConfig(storage_path=sys.argv[1], name="run", failure_config=failures)
    try:
        TorchTrainer(globals()[sys.argv[2]], run_config=settings).fit()
    except KeyboardInterrupt as error:
        print("interrupted", train.Result.from_path(sys.argv[1] + "/run").state)
"""


@pytest.mark.parametrize(
    ("loop", "answers"),
    [("listening", ["interrupted aborted"]), ("deaf", ["stopping: ", "stopping already", "interrupted aborted"])],
)
def test_13_one_interrupt_ends_a_run_in_order_and_three_at_once(tmp_path, loop, answers):
    driver = start_driver(tmp_path, LOOPS, tmp_path, loop)
    wait_for_line(driver, "in the loop")
    for answer in answers:
        driver.send_signal(signal.SIGINT)
        wait_for_line(driver, answer)
    driver.communicate(timeout=100)
    assert driver.returncode == 0


def test_14_without_workers_the_loop_runs_in_the_calling_process(run_config):
    called = []  # what a worker appends stays its own

    def loop(config):
        called.append(train.get_context().get_world_size())
        train.report({"n": 1})

    assert fit(loop, run_config(), workers=0).metrics == {"n": 1} and called == [1]
    # As a rank of torchrun's group: full/behaviours_torchrun_test.py.


def test_15_functions_of_a_train_loop_are_refused_outside_by_name():
    for name, call in {
        "report": lambda: train.report({}),
        "get_checkpoint": train.get_checkpoint,
        "get_context": train.get_context,
        "get_all_reported_checkpoints": train.get_all_reported_checkpoints,
        "get_dataset_shard": train.get_dataset_shard,
        "get_preemption_info": train.get_preemption_info,
        "barrier": train.collective.barrier,
        "broadcast_from_rank_zero": lambda: train.collective.broadcast_from_rank_zero(1),
        "get_device": train.torch.get_device,
        "prepare_model": lambda: train.torch.prepare_model(torch.nn.Linear(1, 1)),
    }.items():
        with pytest.raises(RuntimeError, match=rf"{name}\(\).*outside a train loop"):
            call()
