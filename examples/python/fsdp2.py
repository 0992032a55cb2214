"""Trains a Transformer whose parameters, gradients and optimizer are sharded over the workers, with PyTorch's FSDP2.

    python examples/python/fsdp2.py                                  # about half a minute on two cores
    python examples/python/fsdp2.py --bfloat16 --cpu-offload
    python examples/python/fsdp2.py --kill-at-step 120               # a worker dies: the run goes on by itself
    python examples/python/fsdp2.py --name mine                      # interrupt it, run it again: it goes on

Each worker holds its part of every block. It gathers a whole block when it needs it, and frees the other parts
afterwards. Checkpoints are PyTorch's distributed ones: every worker writes its part, report() makes one checkpoint of
the parts, and any number of workers can read it again. A worker that dies costs the steps since the last checkpoint.
"""

import argparse
import os
import signal
import sys
import tempfile

import torch
import torch.distributed.checkpoint as dcp
from torch.distributed.checkpoint.state_dict import StateDictOptions, get_model_state_dict, get_state_dict, set_state_dict
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import CPUOffloadPolicy, MixedPrecisionPolicy, fully_shard

from language.text import batch_of, documentation
from language.transformer import Transformer, continued, loss_of
from paceline.train import Checkpoint, FailureConfig, RunConfig, ScalingConfig, get_checkpoint, get_context, report
from paceline.train.torch import TorchTrainer, get_device

LENGTH = 64  # bytes that it looks back at


def train_loop(config):
    context, device = get_context(), get_device()
    torch.manual_seed(0)
    model = Transformer(length=LENGTH)

    # What is shared out together is gathered together: each block by itself, and what is left.
    mesh = init_device_mesh(device.type, (context.get_world_size(),))
    settings = {"mesh": mesh, "reshard_after_forward": not config["keep_gathered"]}
    if config["bfloat16"]:  # parameters and gradients on the way, not those that the optimizer has
        settings["mp_policy"] = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
    if config["cpu_offload"]:  # parts wait in the host's memory; without GPUs they are there anyway
        settings["offload_policy"] = CPUOffloadPolicy(pin_memory=device.type == "cuda")
    for block in model.blocks:
        fully_shard(block, **settings)
    fully_shard(model, **settings)
    if not config["cpu_offload"]:
        model = model.to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)

    start = 0
    if checkpoint := get_checkpoint():
        start = load(checkpoint, model, optimizer)
        print(f"attempt {context.get_attempt()} goes on with step {start}")

    text = documentation()
    for step in range(start, config["steps"]):
        pieces = batch_of(text, step, config["batch_size"], LENGTH + 1, context.get_world_rank(), context.get_world_size())
        loss = loss_of(model, pieces.to(device))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        done = step + 1
        if done % config["checkpoint_every"] == 0 or done == config["steps"]:
            with tempfile.TemporaryDirectory() as folder:
                save(folder, model, optimizer, done)
                report({"step": done, "loss": loss.item()}, Checkpoint.from_directory(folder), reduce="mean")
        else:
            report({"step": done, "loss": loss.item()}, reduce="mean")
        if done == config["kill_at_step"] and context.get_attempt() == 1 and context.get_world_rank() == 0:
            print(f"step {done}: this worker kills itself", flush=True)
            os.kill(os.getpid(), signal.SIGKILL)

    # The whole model on rank 0, as one process would have it.
    whole = get_model_state_dict(model, options=StateDictOptions(full_state_dict=True, cpu_offload=True))
    if context.get_world_rank() == 0:
        alone = Transformer(length=LENGTH)
        alone.load_state_dict(whole)
        return continued(alone, "The ", 200)


def save(folder, model, optimizer, step):
    """Writes this rank's part of the state into a folder of its own."""
    model_state, optimizer_state = get_state_dict(model, optimizer)
    dcp.save({"model": model_state, "optimizer": optimizer_state, "step": step}, checkpoint_id=folder)


def load(checkpoint, model, optimizer):
    """Reads what this rank needs, whoever wrote it. Returns the steps that were made."""
    model_state, optimizer_state = get_state_dict(model, optimizer)
    state = {"model": model_state, "optimizer": optimizer_state, "step": 0}
    with checkpoint.as_directory() as folder:
        dcp.load(state, checkpoint_id=folder)
    set_state_dict(model, optimizer, model_state_dict=state["model"], optim_state_dict=state["optimizer"])
    return state["step"]


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description="Trains a Transformer that is sharded over the workers with FSDP2.",
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    parser.add_argument("--num-workers", type=int, default=2, choices=(1, 2, 4, 8), help="worker processes; they share a batch")
    parser.add_argument("--use-gpu", action="store_true", help="one GPU for each worker")
    parser.add_argument("--steps", type=int, default=200, help="batches to learn from")
    parser.add_argument("--batch-size", type=int, default=32, help="pieces of text in a batch, of all workers together")
    parser.add_argument("--bfloat16", action="store_true", help="compute in bfloat16; the optimizer keeps float32")
    parser.add_argument("--cpu-offload", action="store_true", help="keep parameters in host memory while unused")
    parser.add_argument("--keep-gathered", action="store_true", help="keep blocks gathered until their backward")
    parser.add_argument("--checkpoint-every", type=int, default=50, help="steps from one checkpoint to the next")
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
    print(f"\nloss {result.metrics['loss']:.3f} after {result.metrics['step']:.0f} steps, and what it writes:\n")
    print(result.return_value)
    print(f"\ncheckpoint {result.checkpoint.path}")
