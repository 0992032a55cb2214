"""The quick start on a Ray cluster: its workers are on the cluster's nodes.

    ray job submit --address http://HEAD:8265 --working-dir examples/python -- \\
        python ray_job.py --num-workers 4 --storage-path /shared/results

On a machine of the cluster `python ray_job.py …` does the same. The storage path is a folder that all nodes share, or an
object store.
"""

import argparse
import sys

import paceline
from paceline.train import RunConfig, ScalingConfig
from paceline.train.torch import TorchTrainer
from quick_start import train_loop

if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description="Fits a line on the nodes of a Ray cluster.", formatter_class=argparse.ArgumentDefaultsHelpFormatter
    )
    parser.add_argument("--address", default="auto", help="address of the cluster")
    parser.add_argument("--num-workers", type=int, default=2, help="worker processes")
    parser.add_argument("--epochs", type=int, default=10, help="passes over the points")
    parser.add_argument("--storage-path", required=True, help="folder of the runs, which all nodes share")
    parser.add_argument("--name", help="name of the run; the name of a run that was stopped continues it")
    arguments = parser.parse_args()
    with paceline.init(address=arguments.address):
        result = TorchTrainer(
            train_loop,
            train_loop_config={"learning_rate": 0.3, "epochs": arguments.epochs},
            scaling_config=ScalingConfig(num_workers=arguments.num_workers, placement_strategy="SPREAD"),
            run_config=RunConfig(name=arguments.name, storage_path=arguments.storage_path),
        ).fit()
    if result.exit_code:  # SIGTERM has stopped it, for example
        sys.exit(result.exit_code)
    weight, bias = result.return_value
    print(f"y = {weight:.2f} x + {bias:.2f}")
