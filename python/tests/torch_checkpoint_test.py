"""TorchCheckpoint: a model's state, or the model itself, in model.pt."""

import os

import pytest
import torch

import paceline.train as train
from paceline.train import Checkpoint, ScalingConfig
from paceline.train.torch import TorchCheckpoint, TorchTrainer, prepare_model


def test_a_state_comes_back_without_ddps_prefix(run_config):
    def loop():
        model = prepare_model(torch.nn.Linear(2, 1))
        torch.nn.init.constant_(model.module.weight, 3)
        train.report({"n": 1}, checkpoint=TorchCheckpoint.from_state_dict(model.state_dict()))

    result = TorchTrainer(loop, scaling_config=ScalingConfig(num_workers=2), run_config=run_config()).fit()
    model = TorchCheckpoint(result.checkpoint.path).get_model(torch.nn.Linear(2, 1))
    assert model.weight.tolist() == [[3, 3]]
    assert os.path.exists(os.path.join(result.checkpoint.path, "model.pt"))


def test_a_model_is_unpickled_only_when_that_is_allowed():
    checkpoint = TorchCheckpoint.from_model(torch.nn.Linear(2, 1))
    with pytest.raises(ValueError, match="allow_pickle=True"):
        checkpoint.get_model()
    assert isinstance(checkpoint.get_model(allow_pickle=True), torch.nn.Linear)


def test_what_is_missing_is_said(tmp_path):
    with pytest.raises(ValueError, match=r"get_model\(model\)"):
        TorchCheckpoint.from_state_dict({}).get_model()
    with pytest.raises(RuntimeError, match="has no model.pt"):
        TorchCheckpoint(tmp_path).get_model()
    with pytest.raises(ValueError, match="preprocessor"):
        TorchCheckpoint.from_state_dict({}, preprocessor=str)
    assert isinstance(TorchCheckpoint.from_dict({}), Checkpoint)
