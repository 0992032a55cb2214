"""Paceline on a Ray cluster as `make bench` measures it."""

import pathlib
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).parent / "peers"))

import paceline
import paceline.train
from paceline.train.torch import TorchTrainer

from measurement import arguments, now_ns, print_samples, seconds_to_last_rank, write_rank
from ray_nodes import two_nodes


def first_line(config):
    write_rank(config["scratch"], paceline.train.get_context().get_world_rank(), {"now_ns": now_ns()})


def startup_ray(options) -> None:
    """The second run of a driver, and the first."""
    seconds = []
    with two_nodes() as address, paceline.init(address=address, log_to_driver=False):
        for number in range(2):
            scratch = pathlib.Path(options.scratch) / f"fit_{number}"
            scratch.mkdir()
            start_ns = now_ns()
            TorchTrainer(
                first_line,
                train_loop_config={"scratch": str(scratch)},
                scaling_config=paceline.train.ScalingConfig(num_workers=2, placement_strategy="STRICT_SPREAD"),
                run_config=paceline.train.RunConfig(storage_path=str(scratch / "results"), quiet=True),
            ).fit()
            seconds.append(seconds_to_last_rank(scratch, start_ns))
            time.sleep(3)
    print_samples(seconds[1:], {"Paceline, first `fit()` of a program": seconds[0]})


ROWS = {row.__name__: row for row in (startup_ray,)}

if __name__ == "__main__":
    options = arguments(ROWS)
    ROWS[options.row](options)
