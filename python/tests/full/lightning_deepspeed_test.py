"""Lightning's DeepSpeed strategy on CPUs: as ../lightning_test.py for the other strategies."""

import os
import warnings

os.environ.setdefault("DS_ACCELERATOR", "cpu")

import deepspeed  # noqa: E402, F401
import deepspeed.ops  # noqa: E402
import pytest  # noqa: E402
from lightning_test import loop, losses_of_one_process  # noqa: E402, F401

from paceline.train import FailureConfig, ScalingConfig  # noqa: E402
from paceline.train.lightning import DeepSpeedStrategy  # noqa: E402
from paceline.train.torch import TorchTrainer  # noqa: E402


def loop_that_compiles_nothing(config):
    warnings.simplefilter("ignore", FutureWarning)  # DeepSpeed calls collectives by their older names
    deepspeed.ops.__compatible_ops__ = {}  # what it would compile for CPUs is for inference
    return loop(config)


@pytest.mark.parametrize("stage", [2, 3])
def test_a_run_whose_worker_is_killed_has_the_losses_of_one_process(run_config, losses_of_one_process, stage):  # noqa: F811
    result = TorchTrainer(
        loop_that_compiles_nothing,
        train_loop_config={"strategy": DeepSpeedStrategy, "arguments": {"stage": stage}, "kills": True},
        scaling_config=ScalingConfig(num_workers=2),
        run_config=run_config(failure_config=FailureConfig(max_failures=1)),
    ).fit()
    frame = result.metrics_dataframe
    assert [row["attempt"] for row in result.metrics_history.to_pylist() if row["rank"] == 0] == [1, 1, 2, 2]
    assert list(frame["step"]) == [4, 8, 12, 16]
    assert list(frame["loss"]) == pytest.approx(losses_of_one_process, rel=1e-4)
    files = os.listdir(f"{result.checkpoint.path}/checkpoint.ckpt/checkpoint")
    assert {f"zero_pp_rank_{rank}_mp_rank_00_optim_states.pt" for rank in range(2)} <= set(files)
