"""The process that workers are forked from never uses CUDA, so that each of its forks can."""

import gc
import os

import torch

import paceline.train as train
from paceline.train import Checkpoint, ScalingConfig
from paceline.train.torch import TorchCheckpoint, TorchTrainer, get_device, prepare_model


def fit(loop, settings, **options):
    return TorchTrainer(loop, scaling_config=ScalingConfig(use_gpu=True), run_config=settings, **options).fit()


def gpu_files(pid):
    folder = f"/proc/{pid}/fd"
    return [os.readlink(f"{folder}/{name}") for name in os.listdir(folder) if os.path.lexists(f"{folder}/{name}")]


def test_cuda_begins_in_the_worker(run_config):
    def loop():
        warm = []
        for pid in filter(str.isdigit, os.listdir("/proc")):
            try:
                with open(f"/proc/{pid}/cmdline") as file:
                    if "paceline._warm" in file.read():
                        warm.append([name for name in gpu_files(pid) if name == "/dev/nvidia-uvm"])
            except OSError:
                continue  # it has ended
        total = torch.ones(3, device=get_device()).sum().item()
        return {"forked": gc.get_freeze_count() > 0, "warm": warm, "total": total}

    for _ in range(2):  # the second worker is forked after torch._dynamo was imported
        seen = fit(loop, run_config()).return_value
        assert seen["forked"] and seen["total"] == 3
        assert seen["warm"] and not any(seen["warm"])


def test_checkpoints_go_on_there_and_on_the_cpu(run_config):
    def loop():
        model = prepare_model(torch.nn.Linear(4, 1))
        optimizer = torch.optim.AdamW(model.parameters(), 1e-2)
        if checkpoint := train.get_checkpoint():
            state = checkpoint.to_dict()
            model.module.load_state_dict(state["model"])
            optimizer.load_state_dict(state["optimizer"])
            average = optimizer.state[model.module.weight]["exp_avg"]
            assert average.device == get_device()
            return [model.module.weight.tolist(), average.tolist()]
        model(torch.ones(8, 4, device=get_device())).mean().backward()
        optimizer.step()
        state = {"model": model.module.state_dict(), "optimizer": optimizer.state_dict()}
        train.report({"step": 1}, checkpoint=Checkpoint.from_dict(state))
        return [model.module.weight.tolist(), optimizer.state[model.module.weight]["exp_avg"].tolist()]

    trained = fit(loop, run_config(name="trained"))
    again = fit(loop, run_config(name="again"), resume_from_checkpoint=trained.checkpoint)
    assert again.return_value == trained.return_value


def test_a_models_state_is_read_without_its_gpu(run_config):
    def loop():
        model = prepare_model(torch.nn.Linear(4, 1))
        train.report({"step": 1}, checkpoint=TorchCheckpoint.from_state_dict(model.state_dict()))
        return model.module.weight.tolist()

    result = fit(loop, run_config())
    model = TorchCheckpoint(result.checkpoint.path).get_model(torch.nn.Linear(4, 1))
    assert model.weight.device.type == "cpu" and model.weight.tolist() == result.return_value
