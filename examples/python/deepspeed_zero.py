"""Trains a Transformer with DeepSpeed, whose ZeRO shards the optimizer (stage 1), also the gradients (stage 2), or also
the parameters (stage 3) over the workers.

    python examples/python/deepspeed_zero.py                         # about half a minute on two cores
    python examples/python/deepspeed_zero.py --stage 3
    python examples/python/deepspeed_zero.py --kill-at-step 70       # a worker dies: the run goes on by itself
    python examples/python/deepspeed_zero.py --name mine             # interrupt it, run it again: it goes on

The train loop is DeepSpeed's own; it needs no launcher and no hostfile. All workers write their shards, report() makes
one checkpoint of them, and load_checkpoint() finds them again. The program needs `pip install deepspeed`. Without GPUs
it runs on CPUs.
"""

import argparse
import os
import signal
import sys
import tempfile
import warnings

import torch

from language.text import batch_of, documentation
from language.transformer import Transformer, loss_of
from paceline.train import Checkpoint, FailureConfig, RunConfig, ScalingConfig, get_checkpoint, get_context, report
from paceline.train.torch import TorchTrainer, get_device

LENGTH = 64  # bytes that it looks back at


def deepspeed_settings(config, world_size):
    settings = {
        "train_batch_size": config["batch_size"],
        "train_micro_batch_size_per_gpu": config["batch_size"] // world_size,
        # PyTorch's AdamW: DeepSpeed's own is compiled when it is first used.
        "optimizer": {"type": "AdamW", "params": {"lr": 3e-3, "weight_decay": 0.01, "torch_adam": True}},
        "gradient_clipping": 1.0,
        "zero_optimization": {"stage": config["stage"]},
    }
    if config["bfloat16"]:
        settings["bf16"] = {"enabled": True}
    return settings


def compile_nothing():
    """What DeepSpeed would compile for CPUs, at the first start, is for inference."""
    from deepspeed import ops

    ops.__compatible_ops__ = {}


def train_loop(config):
    import deepspeed

    warnings.simplefilter("ignore", FutureWarning)  # DeepSpeed calls collectives by their older names
    context, device = get_context(), get_device()
    if device.type == "cpu":
        compile_nothing()
    torch.manual_seed(0)
    model = Transformer(length=LENGTH)
    engine, *_ = deepspeed.initialize(
        model=model, model_parameters=model.parameters(), config=deepspeed_settings(config, context.get_world_size())
    )

    start = 0
    if checkpoint := get_checkpoint():
        with checkpoint.as_directory() as folder:
            _, state = engine.load_checkpoint(folder)
        start = state["step"]
        print(f"attempt {context.get_attempt()} goes on with step {start}")

    text = documentation()
    for step in range(start, config["steps"]):
        pieces = batch_of(text, step, config["batch_size"], LENGTH + 1, context.get_world_rank(), context.get_world_size())
        loss = loss_of(engine, pieces.to(device))
        engine.backward(loss)
        engine.step()
        done = step + 1
        metrics = {"step": done, "loss": loss.item()}
        if done % config["checkpoint_every"] == 0 or done == config["steps"]:
            with tempfile.TemporaryDirectory() as folder:  # of this worker
                engine.save_checkpoint(folder, client_state={"step": done})
                report(metrics, Checkpoint.from_directory(folder), reduce="mean")
        else:
            report(metrics, reduce="mean")
        if done == config["kill_at_step"] and context.get_attempt() == 1 and context.get_world_rank() == 0:
            print(f"step {done}: this worker kills itself", flush=True)
            os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description="Trains a Transformer that is sharded over the workers with DeepSpeed's ZeRO.",
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    parser.add_argument("--stage", type=int, default=2, choices=(1, 2, 3), help="stage of ZeRO: how much is sharded")
    parser.add_argument("--num-workers", type=int, default=2, choices=(1, 2, 4, 8), help="worker processes; they share a batch")
    parser.add_argument("--use-gpu", action="store_true", help="one GPU for each worker")
    parser.add_argument("--steps", type=int, default=100, help="batches to learn from")
    parser.add_argument("--batch-size", type=int, default=32, help="pieces of text in a batch, of all workers together")
    parser.add_argument("--bfloat16", action="store_true", help="compute in bfloat16; the optimizer keeps float32")
    parser.add_argument("--checkpoint-every", type=int, default=25, help="steps from one checkpoint to the next")
    parser.add_argument("--kill-at-step", type=int, default=0, help="step at which a worker is killed; 0: never")
    parser.add_argument("--name", help="name of the run; the name of an unfinished run continues it")
    parser.add_argument("--storage-path", default="results", help="folder of the runs")
    options = parser.parse_args()
    for name in ("steps", "checkpoint_every"):
        if getattr(options, name) < 1:
            parser.error(f"argument --{name.replace('_', '-')}: {getattr(options, name)}; allowed: 1 or more")
    if options.batch_size < 1 or options.batch_size % options.num_workers:
        parser.error(f"argument --batch-size: {options.batch_size}; allowed: multiples of {options.num_workers}, the workers")
    if options.use_gpu and (gpus := torch.cuda.device_count()) < options.num_workers:
        parser.error(f"argument --use-gpu: GPUs needed: {options.num_workers}, one for each worker; found: {gpus}")

    os.environ.setdefault("DS_ACCELERATOR", "cuda" if options.use_gpu else "cpu")  # read by this import
    import deepspeed  # noqa: F401: workers have at once what the driver has imported

    result = TorchTrainer(
        train_loop,
        train_loop_config=vars(options),
        scaling_config=ScalingConfig(num_workers=options.num_workers, use_gpu=options.use_gpu),
        run_config=RunConfig(
            name=options.name, storage_path=options.storage_path, failure_config=FailureConfig(max_failures=3)
        ),
    ).fit()
    if result.exit_code:  # SIGTERM has stopped it, for example
        sys.exit(result.exit_code)
    print(f"\nloss {result.metrics['loss']:.3f} after {result.metrics['step']:.0f} steps with ZeRO stage {options.stage}")
    print(f"checkpoint {result.checkpoint.path}")
