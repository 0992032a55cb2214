"""Ray's first page on PyTorch: an image classifier of two workers, with a checkpoint an epoch."""

import os
import tempfile

import torch
from torch.nn import CrossEntropyLoss
from torch.optim import Adam
from torch.utils.data import DataLoader, TensorDataset

import ray.train.torch
from ray.train import Checkpoint, RunConfig, ScalingConfig

outcome = {}
torch.manual_seed(0)
WEIGHTS = torch.nn.Sequential(
    torch.nn.Conv2d(1, 4, 3), torch.nn.ReLU(), torch.nn.Flatten(), torch.nn.Linear(144, 3)
).state_dict()


def train_func():
    model = torch.nn.Sequential(torch.nn.Conv2d(1, 4, 3), torch.nn.ReLU(), torch.nn.Flatten(), torch.nn.Linear(144, 3))
    model.load_state_dict(WEIGHTS)
    model = ray.train.torch.prepare_model(model)
    criterion = CrossEntropyLoss()
    optimizer = Adam(model.parameters(), lr=0.01)
    generator = torch.Generator().manual_seed(1)
    labels = torch.arange(90) % 3
    images = torch.randn(90, 1, 8, 8, generator=generator) + labels.reshape(-1, 1, 1, 1)
    loader = ray.train.torch.prepare_data_loader(DataLoader(TensorDataset(images, labels), batch_size=16, shuffle=True))
    for epoch in range(3):
        if ray.train.get_context().get_world_size() > 1:
            loader.sampler.set_epoch(epoch)
        for inputs, targets in loader:
            loss = criterion(model(inputs), targets)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        metrics = {"loss": loss.item(), "epoch": epoch, "batches": len(loader)}
        with tempfile.TemporaryDirectory() as folder:
            torch.save(model.module.state_dict(), os.path.join(folder, "model.pt"))
            ray.train.report(metrics, checkpoint=Checkpoint.from_directory(folder))
        if ray.train.get_context().get_world_rank() == 0:
            print(metrics)


trainer = ray.train.torch.TorchTrainer(
    train_func,
    scaling_config=ScalingConfig(num_workers=2, use_gpu=False),
    run_config=RunConfig(storage_path=os.path.abspath("results"), name="images"),
)
result = trainer.fit()
with result.checkpoint.as_directory() as folder:
    state = torch.load(os.path.join(folder, "model.pt"))
model = torch.nn.Sequential(torch.nn.Conv2d(1, 4, 3), torch.nn.ReLU(), torch.nn.Flatten(), torch.nn.Linear(144, 3))
model.load_state_dict(state)
outcome["metrics"] = result.metrics
outcome["history"] = result.metrics_dataframe[["loss", "epoch", "batches"]].values.tolist()
outcome["weights"] = {name: value.double().sum().item() for name, value in state.items()}
outcome["checkpoints"] = len(result.best_checkpoints)
outcome["folder"] = os.path.relpath(result.path, os.path.abspath("results"))
