"""Ray Train as a peer: one function a row, called in the driver. run.py sets Ray's folder (RAY_TMPDIR)."""

import os
import pathlib
import signal
import sys
import tempfile
import time

import ray
import ray.train
import ray.train.collective
import ray.train.torch

import workloads
from measurement import arguments, now_ns, own_megabytes, print_samples, read_rank, seconds_to_last_rank, write_rank


def fit(train_loop, options, scaling=None, **config) -> None:
    """Trains with two workers; `config` reaches the train loop beside `scratch`."""
    scratch = str(config.pop("scratch", options.scratch))
    ray.train.torch.TorchTrainer(
        train_loop,
        train_loop_config={"scratch": scratch} | config,
        scaling_config=ray.train.ScalingConfig(num_workers=2, **(scaling or {})),
        run_config=ray.train.RunConfig(
            storage_path=str(pathlib.Path(scratch) / "results"),
            failure_config=ray.train.FailureConfig(max_failures=1),
            checkpoint_config=ray.train.CheckpointConfig(num_to_keep=2),
        ),
    ).fit()


def rank() -> int:
    return ray.train.get_context().get_world_rank()


def startup_cpp(options) -> None:
    """fit() in a cluster that runs already, once before: Ray at its best."""
    seconds = seconds_of_fits(first_line, options)
    print_samples([seconds["second"]], {"Ray Train, first `fit()` in a cluster": seconds["first"]})


def startup_python_warm(options) -> None:
    startup_cpp(options)


def startup_python_cold(options) -> None:
    print_samples([seconds_of_fits(first_line, options)["first"]])


def first_step_python(options) -> None:
    def train_loop(config):
        import torch

        workloads.first_step(ray.train.torch.prepare_model(torch.nn.Linear(10, 10)))
        write_rank(config["scratch"], rank(), {"now_ns": now_ns()})

    seconds = seconds_of_fits(train_loop, options)
    print_samples([seconds["second"]], {"Ray Train, first `fit()` in a cluster": seconds["first"]})


def first_line(config):
    write_rank(config["scratch"], rank(), {"now_ns": now_ns()})


def seconds_of_fits(train_loop, options, scaling=None) -> dict:
    seconds = {}
    for fits in ("first", "second"):
        scratch = pathlib.Path(options.scratch) / fits
        scratch.mkdir()
        start_ns = now_ns()
        fit(train_loop, options, scaling, scratch=scratch)
        seconds[fits] = seconds_to_last_rank(scratch, start_ns)
    return seconds


def startup_ray(options) -> None:
    """startup_cpp with each worker on a node of its own."""
    from ray_nodes import two_nodes

    with two_nodes() as address:
        ray.init(address=address, log_to_driver=False)
        seconds = seconds_of_fits(first_line, options, {"resources_per_worker": {"CPU": 1}, "placement_strategy": "STRICT_SPREAD"})
        ray.shutdown()
    print_samples([seconds["second"]], {"Ray Train, first `fit()` in a cluster": seconds["first"]})


def report_metrics(options) -> None:
    def train_loop(config):
        seconds = []
        for step in range(config["warm_up"] + config["reports"]):
            time.sleep(0.001)
            start = time.monotonic()
            ray.train.report({"step": step})
            seconds.append(time.monotonic() - start)
        write_rank(config["scratch"], rank(), {"seconds": seconds[config["warm_up"]:]})

    # The first reports fill the queue and do not wait.
    fit(train_loop, options, warm_up=2, reports=options.iterations)
    print_samples([seconds * 1e6 for seconds in read_rank(options.scratch, 0)["seconds"]])


def report_checkpoint(options) -> None:
    def train_loop(config):
        seconds = []
        for step in range(config["warm_up"] + config["reports"]):
            with tempfile.TemporaryDirectory(dir=config["scratch"]) as folder:
                (pathlib.Path(folder) / f"rank_{rank()}.bin").write_bytes(bytes(1000))
                start = time.monotonic()
                ray.train.report({"step": step}, ray.train.Checkpoint.from_directory(folder))
                seconds.append(time.monotonic() - start)
        write_rank(config["scratch"], rank(), {"seconds": seconds[config["warm_up"]:]})

    fit(train_loop, options, warm_up=2, reports=options.iterations)
    print_samples([seconds * 1e3 for seconds in read_rank(options.scratch, 0)["seconds"]])


def restart_after_kill(options) -> None:
    def train_loop(config):
        killed, entered = pathlib.Path(config["scratch"]) / "killed", pathlib.Path(config["scratch"]) / "entered"
        if killed.exists():
            write_rank(config["scratch"], rank(), {"now_ns": now_ns()})
            return
        with tempfile.TemporaryDirectory(dir=config["scratch"]) as folder:
            (pathlib.Path(folder) / f"rank_{rank()}.bin").write_bytes(bytes(1000))
            ray.train.report({"step": 0}, ray.train.Checkpoint.from_directory(folder))
        if rank() == 0:
            entered.touch()
            time.sleep(60)
        while not entered.exists():
            time.sleep(0.01)
        time.sleep(config["delay_s"])
        killed.with_suffix(".unfinished").write_text(str(now_ns()))
        killed.with_suffix(".unfinished").rename(killed)
        os.kill(os.getpid(), signal.SIGKILL)

    # Different moments within Ray's polls, which come every two seconds.
    fit(train_loop, options, delay_s=2 + 0.45 * options.round)
    killed_ns = int((pathlib.Path(options.scratch) / "killed").read_text())
    print_samples([seconds_to_last_rank(options.scratch, killed_ns)])


def node_loss(options) -> None:
    """Of three nodes of one CPU beside the head, one with a worker is killed."""
    from ray.cluster_utils import Cluster

    def train_loop(config):
        killed = pathlib.Path(config["scratch"]) / "killed"
        if killed.exists():
            write_rank(config["scratch"], rank(), {"now_ns": now_ns()})
            return
        with tempfile.TemporaryDirectory(dir=config["scratch"]) as folder:
            (pathlib.Path(folder) / f"rank_{rank()}.bin").write_bytes(bytes(1000))
            ray.train.report({"step": 0}, ray.train.Checkpoint.from_directory(folder))
        if rank() == 0:
            time.sleep(600)
        time.sleep(2 + 0.45 * config["round"])
        killed.write_text(str(now_ns()))
        os.kill(os.getppid(), signal.SIGKILL)
        os.kill(os.getpid(), signal.SIGKILL)

    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False})
    for _ in range(3):
        cluster.add_node(num_cpus=1)
    ray.init(address=cluster.address, log_to_driver=False)
    fit(train_loop, options, scaling={"resources_per_worker": {"CPU": 1}, "placement_strategy": "STRICT_SPREAD"}, round=options.round)
    killed_ns = int((pathlib.Path(options.scratch) / "killed").read_text())
    print_samples([seconds_to_last_rank(options.scratch, killed_ns)])
    sys.stdout.flush()
    os._exit(0)  # at its own end Ray's driver would say that it has lost a node, and exit with 1; run.py ends the nodes


def memory_beside_workers(options) -> None:
    def train_loop(config):
        for step in range(config["reports"]):
            ray.train.report({"step": step})
        with tempfile.TemporaryDirectory(dir=config["scratch"]) as folder:
            (pathlib.Path(folder) / f"rank_{rank()}.bin").write_bytes(bytes(1000))
            ray.train.report({"step": -1}, ray.train.Checkpoint.from_directory(folder))
        write_rank(config["scratch"], rank(), {"pid": os.getpid()})
        while not (pathlib.Path(config["scratch"]) / "measured").exists():
            time.sleep(0.05)

    fit(train_loop, options, reports=options.iterations)


def worker_memory_python(options) -> None:
    def train_loop(config):
        import torch

        workloads.first_step(ray.train.torch.prepare_model(torch.nn.Linear(10, 10)))
        ray.train.collective.barrier()
        write_rank(config["scratch"], rank(), {"megabytes": own_megabytes()})
        ray.train.collective.barrier()

    fit(train_loop, options)
    print_samples([max(read_rank(options.scratch, one)["megabytes"] for one in range(2))])


def installed_size(options) -> None:
    """Ray alone, without what `ray[train]` depends on."""
    print_samples([workloads.megabytes_of(pathlib.Path(ray.__file__).parent)])


def mnist_images(options) -> None:
    def train_loop(config):
        import torch

        torch.set_num_threads(1)
        model = ray.train.torch.prepare_model(workloads.ResNet18())
        loader = ray.train.torch.prepare_data_loader(workloads.mnist_loader(config["data"]))
        write_rank(config["scratch"], rank(), {"speeds": workloads.train_mnist(model, loader, config["steps"])})

    fit(train_loop, options, data=options.data, steps=options.iterations)
    print_samples(read_rank(options.scratch, 0)["speeds"])


def vit_images(options) -> None:
    def train_loop(config):
        import torch

        torch.set_num_threads(1)
        model = ray.train.torch.prepare_model(workloads.vision_transformer())
        write_rank(config["scratch"], rank(), {"speeds": workloads.vision_transformer_speeds(model, config["steps"])})

    fit(train_loop, options, steps=options.iterations)
    print_samples(read_rank(options.scratch, 0)["speeds"])


ROWS = {row.__name__: row for row in (startup_cpp, startup_python_warm, startup_python_cold, first_step_python,
                                      report_metrics, report_checkpoint, restart_after_kill, memory_beside_workers,
                                      worker_memory_python, installed_size, mnist_images, node_loss, startup_ray,
                                      vit_images)}

if __name__ == "__main__":
    options = arguments(ROWS)
    if options.row == "installed_size":
        sys.exit(installed_size(options))
    if options.row in ("node_loss", "startup_ray"):  # with clusters of their own
        sys.exit(ROWS[options.row](options))
    ray.init(num_cpus=max(2, os.cpu_count()), include_dashboard=False, log_to_driver=False)
    try:
        ROWS[options.row](options)
    finally:
        ray.shutdown()
