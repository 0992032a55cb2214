"""TorchTrainer: what goes to the workers, what comes back, and what is refused."""

import functools
import os
import threading

import pytest
import torch
import torch.distributed as dist

import paceline.train as train
from paceline.train import Checkpoint, FailureConfig, RunConfig, ScalingConfig
from paceline.train.torch import TorchConfig, TorchTrainer, prepare_model


def fit(train_loop, run_config, workers=2, config=None, **arguments):
    return TorchTrainer(
        train_loop,
        train_loop_config=config,
        scaling_config=ScalingConfig(num_workers=workers),
        run_config=run_config,
        **arguments,
    ).fit()


def sums_ranks():
    total = torch.tensor([train.get_context().get_world_rank() + 1])
    dist.all_reduce(total)
    train.report({"total": total.item()})


def test_ranks_meet_in_torch_distributed(run_config):
    assert fit(sums_ranks, run_config()).metrics == {"total": 3}


def test_collectives_of_cpp_take_the_group_of_torch(run_config):
    def loop():
        from paceline._native import native

        rank = train.get_context().get_world_rank()
        gathered = [part.item() for part in native.all_gather(torch.tensor([rank]))]
        dist.destroy_process_group()
        with pytest.raises(native.UsageError, match="destroyed"):
            native.all_gather(torch.tensor([rank]))
        train.report({"gathered": gathered})

    assert fit(loop, run_config()).metrics == {"gathered": [0, 1]}


def test_without_optional_arguments_one_worker_runs(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    result = TorchTrainer(sums_ranks).fit()
    assert result.metrics == {"total": 1}
    assert result.path.startswith(str(tmp_path))


def test_lambdas_and_closures_travel(run_config):
    factor = 21
    result = fit(lambda config: train.report({"answer": factor * config["n"]}), run_config(), config={"n": 2})
    assert result.metrics == {"answer": 42}


def test_modules_of_classes_of_their_own_travel_by_name(run_config):
    def loop():
        return torch.ops.aten.add(torch.ones(1), 1).item()

    assert fit(loop, run_config(), workers=1).return_value == 2


def test_a_config_may_hold_anything_that_can_be_pickled(run_config):
    def loop(config):
        train.report({"answer": config["f"](config["tensor"].sum().item())})

    config = {"f": functools.partial(pow, 2), "tensor": torch.ones(3)}
    assert fit(loop, run_config(), workers=1, config=config).metrics == {"answer": 8}


def test_rank_zeros_return_value_comes_back(run_config):
    result = fit(lambda: {"rank": train.get_context().get_world_rank(), "set": {1, 2}}, run_config())
    assert result.return_value == {"rank": 0, "set": {1, 2}}


def test_more_than_one_required_argument_is_refused():
    with pytest.raises(ValueError, match="takes 2 arguments"):
        TorchTrainer(lambda config, more: None)


def test_what_cannot_be_pickled_is_named(run_config):
    lock = threading.Lock()

    def loop():
        with lock:
            pass

    with pytest.raises(TypeError, match="the variable 'lock' of .*loop"):
        fit(loop, run_config())


def test_the_torch_variables_are_set(run_config):
    names = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "NODE_RANK", "MASTER_ADDR", "MASTER_PORT")
    values = fit(lambda: {name: os.environ[name] for name in names}, run_config()).return_value
    assert values.pop("MASTER_PORT").isdigit()
    assert values == {
        "RANK": "0",
        "WORLD_SIZE": "2",
        "LOCAL_RANK": "0",
        "LOCAL_WORLD_SIZE": "2",
        "NODE_RANK": "0",
        "MASTER_ADDR": "127.0.0.1",
    }


def test_variables_set_later_reach_the_workers(run_config, monkeypatch):
    monkeypatch.setenv("A_LATE_VARIABLE", "here")
    assert fit(lambda: os.environ.get("A_LATE_VARIABLE"), run_config()).return_value == "here"


def test_an_exception_shows_the_users_frames_and_ranks(run_config):
    def broken_step():
        raise KeyError("a missing column")

    def loop():
        broken_step()

    with pytest.raises(train.WorkerGroupError) as caught:
        fit(loop, run_config())
    text = str(caught.value)
    assert "KeyError" in text and "a missing column" in text
    assert "broken_step" in text and os.path.basename(__file__) in text
    assert "_worker.py" not in text
    assert set(caught.value.worker_failures) == {0, 1}


def test_a_failed_worker_is_started_again_and_goes_on(run_config, tmp_path):
    def loop(config):
        context = train.get_context()
        start = 1
        if checkpoint := train.get_checkpoint():
            with checkpoint.as_directory() as folder:
                start = int(open(os.path.join(folder, "step")).read()) + 1
        for step in range(start, 5):
            folder = os.path.join(config["scratch"], f"{context.get_world_rank()}_{step}")
            os.makedirs(folder, exist_ok=True)
            with open(os.path.join(folder, "step"), "w") as file:
                file.write(str(step))
            train.report({"step": step, "attempt": context.get_attempt()}, Checkpoint.from_directory(folder))
            if step == 2 and context.get_attempt() == 1:
                train.collective.barrier()  # both have made report 2
                os.kill(os.getpid(), 9)

    settings = run_config(failure_config=FailureConfig(max_failures=1))
    result = fit(loop, settings, config={"scratch": str(tmp_path)})
    assert result.metrics == {"step": 4, "attempt": 2}
    assert [metrics["step"] for _, metrics in result.best_checkpoints][-1] == 4
    frame = result.metrics_dataframe
    assert list(frame["step"]) == [1, 2, 3, 4]


def test_ddp_averages_gradients(run_config):
    def loop():
        torch.manual_seed(0)
        rank = train.get_context().get_world_rank()
        model = prepare_model(torch.nn.Linear(2, 1, bias=False))
        model(torch.full((1, 2), float(rank + 1))).sum().backward()
        return model.module.weight.grad.tolist()

    assert fit(loop, run_config()).return_value == [[1.5, 1.5]]


def test_functions_of_a_train_loop_are_refused_outside():
    for function in (train.get_context, train.get_checkpoint, lambda: train.report({})):
        with pytest.raises(RuntimeError, match="outside a train loop"):
            function()


def test_settings_that_are_not_allowed_are_value_errors():
    for wrong in (
        lambda: ScalingConfig(num_workers=-1),
        lambda: ScalingConfig(num_workers=(4, 2)),
        lambda: ScalingConfig(resources_per_worker={"GPU": 1}),
        lambda: train.CheckpointConfig(num_to_keep=0),
        lambda: train.CheckpointConfig(checkpoint_score_order="best"),
        lambda: FailureConfig(max_failures=-2),
        lambda: TorchConfig(init_method="file"),
        lambda: RunConfig(name="../b"),
    ):
        with pytest.raises(ValueError):
            wrong()


def test_what_ray_train_has_removed_is_a_deprecation_warning():
    for removed in (
        lambda: ScalingConfig(trainer_resources={"CPU": 1}),
        lambda: FailureConfig(fail_fast=True),
        lambda: train.CheckpointConfig(checkpoint_frequency=1),
        lambda: RunConfig(verbose=1),
        lambda: TorchTrainer(sums_ranks, metadata={}),
        lambda: TorchTrainer.restore("path"),
    ):
        with pytest.raises(DeprecationWarning):
            removed()
