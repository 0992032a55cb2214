"""The training whose runs are the fixtures: two spirals, learned by two ranks. record.py starts it several times.

    python train.py --name spirals --steps 1200
"""

import argparse
import math
import os
import signal
import sys
import tempfile
import threading
import time

import numpy
import torch

import paceline.data
from paceline.train import Checkpoint, CheckpointConfig, DebugConfig, FailureConfig, RunConfig, ScalingConfig
from paceline.train import get_checkpoint, get_context, get_dataset_shard, report
from paceline.train.torch import TorchTrainer, prepare_model


def spirals(points, seed):
    numbers = numpy.random.default_rng(seed)
    label = numpy.arange(points) % 2
    radius = numbers.random(points)
    angle = 2 * math.pi * radius + math.pi * label + 0.2 * numbers.standard_normal(points)
    place = numpy.stack([radius * numpy.cos(angle), radius * numpy.sin(angle)], 1).astype(numpy.float32)
    return [{"point": place[i], "label": int(label[i])} for i in range(points)]


def scaled(row):
    return {"point": row["point"] * 2, "label": row["label"]}


def scaled_slowly(row):
    time.sleep(0.005)
    return scaled(row)


def wait_for_what_never_comes():
    threading.Event().wait()


def train_loop(config):
    context = get_context()
    rank = context.get_world_rank()
    batches = get_dataset_shard("spirals").iter_torch_batches(batch_size=32, drop_last=True)
    torch.manual_seed(0)
    model = prepare_model(
        torch.nn.Sequential(
            torch.nn.Linear(2, config["width"]), torch.nn.ReLU(),
            torch.nn.Linear(config["width"], config["width"]), torch.nn.ReLU(), torch.nn.Linear(config["width"], 2),
        )
    )  # fmt: skip
    optimizer = torch.optim.Adam(model.parameters(), lr=config["learning_rate"])
    done = 0
    if checkpoint := get_checkpoint():
        with checkpoint.as_directory() as folder:
            state = torch.load(os.path.join(folder, "state.pt"), weights_only=True)
        model.module.load_state_dict(state["model"])
        optimizer.load_state_dict(state["optimizer"])
        done = state["step"]
        print(f"attempt {context.get_attempt()} continues after step {done}", flush=True)

    while done < config["steps"]:
        for batch in batches:
            done += 1
            started = time.monotonic()
            learning_rate = config["learning_rate"] * 0.5 * (1 + math.cos(math.pi * done / config["steps"]))
            for group in optimizer.param_groups:
                group["lr"] = learning_rate
            scores = model(batch["point"])
            loss = torch.nn.functional.cross_entropy(scores, batch["label"])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            accuracy = (scores.argmax(1) == batch["label"]).float().mean().item()
            if rank == 1 and done == config["raise_at"]:
                raise ValueError(f"label {int(batch['label'][0]) + 7} is outside of the 2 classes (row {done * 32})")
            if rank == 1 and done == config["hang_at"]:
                wait_for_what_never_comes()
            if rank == 0 and done == config["kill_at"] and context.get_attempt() == 1:
                print(f"step {done}: this worker kills itself", flush=True)
                os.kill(os.getpid(), signal.SIGKILL)
            if done % 20 == 0:
                color = "\x1b[32m" if accuracy > 0.9 else "\x1b[33m"
                print(f"step {done:5d}  loss {loss.item():.4f}  accuracy {color}{accuracy:.3f}\x1b[0m", flush=True)
            time.sleep(config["pause"])
            metrics = {
                "loss": loss.item(), "eval": {"accuracy": accuracy}, "learning_rate": learning_rate,
                "step_seconds": time.monotonic() - started,
            }  # fmt: skip
            if done % config["checkpoint_every"]:
                report(metrics)
            else:
                with tempfile.TemporaryDirectory() as folder:
                    kept = None
                    if rank == 0:
                        state = {"model": model.module.state_dict(), "optimizer": optimizer.state_dict(), "step": done}
                        torch.save(state, os.path.join(folder, "state.pt"))
                        kept = Checkpoint.from_directory(folder)
                    report(metrics, kept)
            if done >= config["steps"]:
                break


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--name", required=True)
    parser.add_argument("--storage-path", default="results")
    parser.add_argument("--steps", type=int, default=1200)
    parser.add_argument("--width", type=int, default=64)
    parser.add_argument("--learning-rate", type=float, default=0.01)
    parser.add_argument("--checkpoint-every", type=int, default=200)
    parser.add_argument("--raise-at", type=int, default=0)
    parser.add_argument("--kill-at", type=int, default=0)
    parser.add_argument("--hang-at", type=int, default=0)
    parser.add_argument("--hang-floor", type=float, default=30, help="seconds after which what hangs is found")
    parser.add_argument("--slow-data", action="store_true")
    parser.add_argument("--max-failures", type=int, default=0)
    parser.add_argument("--pause", type=float, default=0)
    options = parser.parse_args()
    transform = scaled_slowly if options.slow_data else scaled
    result = TorchTrainer(
        train_loop,
        train_loop_config={key: value for key, value in vars(options).items() if key not in ("name", "storage_path")},
        datasets={"spirals": paceline.data.from_items(spirals(4096, seed=1)).random_shuffle(seed=0).map(transform)},
        scaling_config=ScalingConfig(num_workers=2, threads_per_worker=1),
        run_config=RunConfig(
            name=options.name,
            storage_path=options.storage_path,
            failure_config=FailureConfig(max_failures=options.max_failures),
            debug_config=DebugConfig(hang_action="fail", hang_floor_s=options.hang_floor),
            checkpoint_config=CheckpointConfig(
                num_to_keep=4, checkpoint_score_attribute="loss", checkpoint_score_order="min"
            ),
        ),
    ).fit()
    sys.exit(result.exit_code)
