"""Behaviour 14 under torchrun: a script without workers of its own is one of torchrun's ranks."""

import pathlib
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from behaviours import program

LOCAL = """
    import os, sys
    import torch, torch.distributed as dist
    import paceline.train as train
    from paceline.train.torch import TorchTrainer, prepare_model

    def loop(config):
        context = train.get_context()
        total = torch.tensor([context.get_world_rank() + 1])
        if context.get_world_size() > 1:
            dist.all_reduce(total)
        prepare_model(torch.nn.Linear(1, 1))
        train.report({"total": total.item()})
        return [os.getpid(), context.get_world_size()]

    settings = train.RunConfig(storage_path=sys.argv[1], name="run")
    scaling = train.ScalingConfig(num_workers=0)
    result = TorchTrainer(loop, train_loop_config={}, scaling_config=scaling, run_config=settings).fit()
    assert result.return_value[0] == os.getpid() or os.environ.get("RANK", "0") != "0"
    if os.environ.get("RANK", "0") == "0":
        print(result.return_value[1], result.metrics)
"""


def test_14_without_workers_the_loop_is_a_rank_of_torchruns_group(tmp_path):
    path = program(tmp_path, LOCAL)
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--local-addr=127.0.0.1", "--nproc-per-node=2"]
    both = subprocess.run([*torchrun, path, tmp_path], capture_output=True, text=True, timeout=200)
    assert both.stdout.splitlines()[-1:] == ["2 {'total': 3}"], both.stderr
