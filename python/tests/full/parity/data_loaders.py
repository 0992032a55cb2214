"""prepare_data_loader on loaders of every kind: which rows each rank sees, and what the loader is afterwards."""

import os

import torch
from torch.utils.data import DataLoader, IterableDataset, RandomSampler, TensorDataset, WeightedRandomSampler
from torch.utils.data.distributed import DistributedSampler

import ray.train
import ray.train.torch
from ray.train import RunConfig, ScalingConfig
from ray.train.torch import TorchTrainer

outcome = {}


class Stream(IterableDataset):
    def __iter__(self):
        yield from range(6)


class Pairs(torch.utils.data.Dataset):
    def __len__(self):
        return 6

    def __getitem__(self, index):
        return {"x": torch.tensor(float(index)), "name": f"row {index}", "nested": (index, [index])}


def rows(loader):
    return [batch[0].tolist() if isinstance(batch, (list, tuple)) else batch.tolist() for batch in loader]


def train_func():
    data = TensorDataset(torch.arange(10))
    prepare = ray.train.torch.prepare_data_loader
    mine = {}
    ordered = prepare(DataLoader(data, batch_size=2))
    mine["ordered"] = rows(ordered)
    mine["length"] = [len(ordered), len(ordered.dataset), isinstance(ordered.sampler, DistributedSampler), ordered.batch_size]
    shuffled = prepare(DataLoader(data, batch_size=2, shuffle=True))
    for epoch in range(2):
        shuffled.sampler.set_epoch(epoch)
        mine[f"epoch {epoch}"] = rows(shuffled)
    mine["dropped"] = rows(prepare(DataLoader(data, batch_size=3, drop_last=True)))
    mine["all"] = rows(prepare(DataLoader(data, batch_size=4), add_dist_sampler=False))
    mine["stream"] = rows(prepare(DataLoader(Stream(), batch_size=2)))
    mine["processes"] = rows(prepare(DataLoader(data, batch_size=2, num_workers=2)))
    mine["collated"] = rows(prepare(DataLoader(data, batch_size=2, collate_fn=lambda batch: [torch.stack([row[0] for row in batch]) * 10])))
    own = DistributedSampler(data, shuffle=False)
    mine["own sampler"] = rows(prepare(DataLoader(data, batch_size=2, sampler=own)))
    random = prepare(DataLoader(data, batch_size=5, sampler=RandomSampler(data)))
    random.sampler.set_epoch(0)
    mine["random sampler"] = rows(random)
    weighted = prepare(DataLoader(data, batch_size=5, sampler=WeightedRandomSampler([1.0] * 10, 10)))
    mine["weighted sampler"] = isinstance(weighted.sampler, DistributedSampler)
    batch = next(iter(prepare(DataLoader(Pairs(), batch_size=2))))
    mine["nested"] = [batch["x"].tolist(), list(batch["name"]), batch["nested"][0].tolist(), batch["nested"][1][0].tolist()]
    unmoved = prepare(DataLoader(data, batch_size=5), move_to_device=False, auto_transfer=False)
    mine["unmoved"] = rows(unmoved)
    everybody = [None] * 2
    torch.distributed.all_gather_object(everybody, mine)
    return everybody


outcome["ranks"] = TorchTrainer(
    train_func,
    scaling_config=ScalingConfig(num_workers=2),
    run_config=RunConfig(name="loaders", storage_path=os.path.abspath("results")),
).fit().return_value
