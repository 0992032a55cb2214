"""Prints the orders of PyTorch's DistributedSampler as JSON, for sampler_test.cpp to compare with."""

import itertools
import json

from torch.utils.data.distributed import DistributedSampler


def cases():
    sizes = [0, 1, 2, 3, 7, 8, 64, 101]
    worlds = [1, 2, 3, 8]
    for size, world_size, seed, epoch, shuffle, drop_last in itertools.product(
        sizes, worlds, [0, 17], [0, 1, 5], [False, True], [False, True]
    ):
        if size == 0:
            continue  # the sampler divides by the size
        for rank in range(world_size):
            sampler = DistributedSampler(
                range(size), num_replicas=world_size, rank=rank, shuffle=shuffle, seed=seed, drop_last=drop_last
            )
            sampler.set_epoch(epoch)
            yield {
                "size": size,
                "world_size": world_size,
                "rank": rank,
                "seed": seed,
                "epoch": epoch,
                "shuffle": shuffle,
                "drop_last": drop_last,
                "order": list(sampler),
            }
    sampler = DistributedSampler(range(60000), num_replicas=2, rank=1, shuffle=True, seed=0, drop_last=True)
    yield {
        "size": 60000,
        "world_size": 2,
        "rank": 1,
        "seed": 0,
        "epoch": 0,
        "shuffle": True,
        "drop_last": True,
        "order": list(sampler),
    }


print(json.dumps(list(cases())))
