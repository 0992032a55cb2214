"""Loops that start threads and processes of their own, and a report from another thread."""

import multiprocessing
import os
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import torch

import ray.train
from ray.train import RunConfig, ScalingConfig
from ray.train.torch import TorchTrainer

outcome = {}


class Squares(torch.utils.data.Dataset):
    def __len__(self):
        return 8

    def __getitem__(self, index):
        return index * index


def train_func():
    seen = {}
    with ThreadPoolExecutor(2) as pool:
        seen["threads"] = list(pool.map(lambda value: value + ray.train.get_context().get_world_size(), range(3)))
    loader = torch.utils.data.DataLoader(Squares(), batch_size=4, num_workers=2)
    seen["loader"] = [batch.tolist() for batch in loader]
    seen["program"] = subprocess.run([sys.executable, "-c", "print(1 + 1)"], capture_output=True, text=True).stdout
    queue = multiprocessing.get_context("fork").SimpleQueue()
    child = multiprocessing.get_context("fork").Process(target=lambda: queue.put("forked"))
    child.start()
    seen["fork"] = queue.get()
    child.join()
    seen["main thread"] = isinstance(threading.current_thread(), threading.Thread)
    seen["code"] = child.exitcode
    return seen


outcome["returned"] = TorchTrainer(
    train_func,
    scaling_config=ScalingConfig(num_workers=1),
    run_config=RunConfig(name="threads", storage_path=os.path.abspath("results")),
).fit().return_value
