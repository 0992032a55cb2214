"""The rows of `make bench`: what each measures, against whom, and what it has to reach.

A new row is an entry here, a program of ours in benchmarks/, and a function in benchmarks/peers/ for each peer.
Every program takes --scratch FOLDER --iterations N --round K --data FOLDER, and ends its output with one line of JSON:
{"samples": […]}, in the row's unit, "also" with further observations by description, and "peers" with the samples of what
the program has measured beside itself, by name: such a row needs no peer of its own.
"""

import dataclasses
import sys

from environment import PEERS, RELEASE, ROOT
from record import Target

BENCHMARKS = ROOT / "benchmarks"


@dataclasses.dataclass(frozen=True)
class Contestant:
    command: tuple[str, ...]
    iterations: int = 1
    quick_iterations: int = 1


@dataclasses.dataclass(frozen=True)
class Row:
    name: str
    what: str
    unit: str
    target: Target
    ours: Contestant
    peers: dict[str, Contestant]
    runs: int = 5
    lower_is_better: bool = True
    needs_mnist: bool = False
    needs_gpu: bool = False  # left out but with GPU=1; its peers run in .venv, whose torch is for CUDA
    program: str = ""  # build target; by default that of the row's name
    programs: tuple[str, ...] = ()  # further ones
    beside: tuple[str, ...] = ()  # peers that the row's own program measures


def ours(row: str, iterations: int = 1, quick_iterations: int = 1) -> Contestant:
    return Contestant((str(RELEASE / "benchmarks" / row),), iterations, quick_iterations)


def ray(row: str, iterations: int = 1, quick_iterations: int = 1) -> Contestant:
    command = (str(PEERS / "bin" / "python"), str(BENCHMARKS / "peers" / "with_ray_train.py"), row)
    return Contestant(command, iterations, quick_iterations)


def python(row: str, iterations: int = 1, quick_iterations: int = 1) -> Contestant:
    """Our Python package, from the build."""
    command = ("env", f"PYTHONPATH={RELEASE / 'python'}", str(ROOT / ".venv" / "bin" / "python"), "-B",
               str(BENCHMARKS / "with_paceline.py"), row)
    return Contestant(command, iterations, quick_iterations)


def torchrun(row: str, iterations: int = 1, quick_iterations: int = 1) -> Contestant:
    command = (str(PEERS / "bin" / "torchrun"), "--standalone", "--local-addr", "127.0.0.1", "--nproc-per-node", "2",
               str(BENCHMARKS / "peers" / "with_torchrun.py"), row)
    return Contestant(command, iterations, quick_iterations)


def torchrun_on_gpu(row: str, iterations: int, quick_iterations: int) -> Contestant:
    """One rank over NCCL."""
    command = (str(ROOT / ".venv" / "bin" / "python"), "-m", "torch.distributed.run", "--standalone", "--local-addr", "127.0.0.1",
               "--nproc-per-node", "1", str(BENCHMARKS / "peers" / "with_torchrun.py"), row)
    return Contestant(command, iterations, quick_iterations)


def s3_upload(iterations: int, quick_iterations: int) -> Contestant:
    """All contestants, from the Python that has the server."""
    command = (str(ROOT / ".venv" / "bin" / "python"), str(BENCHMARKS / "s3_upload.py"),
               f"--program={RELEASE / 'benchmarks' / 's3_upload'}", f"--peer-python={PEERS / 'bin' / 'python'}")
    return Contestant(command, iterations, quick_iterations)


def helpers_memory(contestant: Contestant, baseline: tuple[str, ...]) -> Contestant:
    """`contestant`, with the memory beside its workers measured from outside."""
    measure = (sys.executable, str(BENCHMARKS / "helpers_memory.py"), *(f"--baseline={part}" for part in baseline))
    return dataclasses.replace(contestant, command=(*measure, "--", *contestant.command))


ROWS = [
    Row("startup_cpp", "`fit()` to the first line of the train loop on both of 2 workers", "s",
        Target("≤ 0.05 s, ≥ 10 × faster than Ray Train and torchrun",
               lambda row: row.ours.value <= 0.05 and all(row.ratio(peer) >= 10 for peer in row.peers)),
        ours("startup_cpp"), {"Ray Train": ray("startup_cpp"), "torchrun": torchrun("startup_cpp")},
        programs=("load_libtorch",)),
    Row("report_metrics", "`report(metrics)` as the step sees it, 2 workers", "µs",
        Target("≤ 20 µs", lambda row: row.ours.value <= 20),
        ours("report_metrics", 3000, 300), {"Ray Train": ray("report_metrics", 8, 3)}, runs=3),
    Row("report_checkpoint", "`report` with a 1 kB checkpoint, 2 workers", "ms",
        Target("≤ 10 ms", lambda row: row.ours.value <= 10),
        ours("report_checkpoint", 100, 10), {"Ray Train": ray("report_checkpoint", 8, 3)}, runs=3),
    Row("checkpoint_stall", "how long an asynchronous checkpoint of 256 MB holds up the step, 2 workers", "ms",
        Target("≤ 1.2 × one memory copy of the bytes", lambda row: row.ratio("one memcpy()") >= 1 / 1.2),
        ours("checkpoint_stall", 9, 2), {}, beside=("one memcpy()",)),
    Row("checkpoint_write", "1 GB from a model to the local disk, synced", "MB/s",
        Target("≥ 80 % of dd with fsync", lambda row: row.ratio("dd with fsync") >= 0.8),
        ours("checkpoint_write", 3, 1), {}, runs=3, lower_is_better=False, beside=("dd with fsync",)),
    Row("checkpoint_load", "1 GB from the local disk into a model, every byte's checksum compared", "MB/s",
        Target("≥ 80 % of the rate of read()", lambda row: row.ratio("read()") >= 0.8),
        ours("checkpoint_load", 3, 1), {}, runs=3, lower_is_better=False, beside=("read()",)),
    Row("s3_upload", "checkpoint of 64 files of 1 MiB into a server of S3's protocol, 20 ms added to each request", "MB/s",
        Target("≥ 2 × Ray Train's rate", lambda row: row.ratio("Ray Train") >= 2),
        s3_upload(5, 1), {}, runs=3, lower_is_better=False, beside=("Ray Train", "moto's ceiling, no proxy")),
    Row("restart_after_kill", "SIGKILL of one of 2 workers to the train loop running again on both", "s",
        Target("≤ 0.15 s", lambda row: row.ours.value <= 0.15),
        ours("restart_after_kill"), {"Ray Train": ray("restart_after_kill")}),
    Row("ddp_step_gloo", "DDP step with 84 MB of gradients, 2 workers of one thread, Gloo", "ms",
        Target("≤ 1.0 × the peer's time, within the spread", lambda row: row.within_spread()),
        ours("ddp_step_gloo", 40, 5), {"torchrun": torchrun("ddp_step_gloo", 40, 5)}, runs=7),
    Row("check_ranks", "DDP step with 84 MB of weights that the ranks compare in it (`DebugConfig.check_ranks_every`), 2 "
        "workers of one thread, Gloo", "ms",
        Target("every hundredth step: ≤ 1 % more in all", lambda row: row.ratio("the step without it") >= 1 / 2),
        ours("check_ranks", 20, 3), {}, runs=5, beside=("the step without it",)),
    Row("memory_beside_workers",
        "memory that all processes but 2 workers have written, beyond a program that only loads (Lib)Torch", "MB",
        Target("≤ 60 MB", lambda row: row.ours.value <= 60),
        helpers_memory(ours("memory_beside_workers", 200, 200), (str(RELEASE / "benchmarks" / "load_libtorch"),)),
        {"Ray Train": helpers_memory(ray("memory_beside_workers", 3, 1),
                                     (str(PEERS / "bin" / "python"), str(BENCHMARKS / "peers" / "load_torch.py")))},
        runs=3, programs=("load_libtorch",)),
    Row("mnist_images", "images/s of ResNet-18 on MNIST in the steady state, 2 workers of one thread, global batch 128",
        "images/s",
        Target("≥ 1.0 × torchrun and Ray Train, within the spread", lambda row: row.within_spread()),
        ours("mnist_images", 40, 4),
        {"torchrun": torchrun("mnist_images", 40, 4), "Ray Train": ray("mnist_images", 40, 4)},
        lower_is_better=False, needs_mnist=True),
    Row("controller_scale", "what 10,000 simulated ranks that report once a second cost the driver's controller", "cores",
        Target("≤ 0.5 of a core", lambda row: row.ours.value <= 0.5),
        ours("controller_scale", 10, 2), {}, runs=3, beside=("simulated ranks and agent",)),
    Row("list_runs", "`paceline list` with 10,000 runs", "ms",
        Target("≤ 100 ms", lambda row: row.ours.value <= 100),
        ours("list_runs", 20, 3),
        {"ls -l": Contestant((sys.executable, str(BENCHMARKS / "peers" / "list_folders.py")), 20, 3)},
        runs=3, programs=("paceline",)),
    Row("vit_step_cpp", "step of the VisionTransformer of `030_cifar10_vit` with 16 photographs a worker, 2 workers of "
        "one thread; the peer's model is torchvision's", "ms",
        Target("≤ 1.0 × the peer's time, within the spread", lambda row: row.within_spread()),
        ours("vit_step_cpp", 8, 2), {"torchrun": torchrun("vit_step_cpp", 8, 2)}),
    Row("startup_python_warm", "Python: `fit()` to the first line of the train loop on both of 2 workers, not the first "
        "`fit()` of the program; torchrun: its whole start", "s",
        Target("≤ 0.25 s", lambda row: row.ours.value <= 0.25),
        python("startup_python_warm"), {"Ray Train": ray("startup_python_warm"), "torchrun": torchrun("startup_cpp")},
        program="paceline_python"),
    Row("startup_python_second", "the same for a `fit()` that follows the program's first at once", "s",
        Target("≤ 0.25 s", lambda row: row.ours.value <= 0.25),
        python("startup_python_second"), {"Ray Train": ray("startup_python_warm")}, program="paceline_python"),
    Row("startup_python_cold", "the same for the first `fit()` of the program; Ray Train: of a cluster that runs already", "s",
        Target("≤ 1.2 × `import torch`", lambda row: row.ratio("`import torch`") >= 1 / 1.2),
        python("startup_python_cold"), {"Ray Train": ray("startup_python_cold")}, program="paceline_python", beside=("`import torch`",)),
    Row("first_step_python", "`fit()` to the end of the first step with DistributedDataParallel on both of 2 workers, not "
        "the first `fit()` of the program; torchrun: from the start of the command", "s",
        Target("faster than both", lambda row: all(row.ratio(peer) > 1 for peer in row.peers)),
        python("first_step_python"), {"Ray Train": ray("first_step_python"), "torchrun": torchrun("first_step_python")},
        program="paceline_python"),
    Row("report_python", "`report(metrics)` in Python as the step sees it, 2 workers", "µs",
        Target("≤ 50 µs", lambda row: row.ours.value <= 50),
        python("report_python", 3000, 300), {"Ray Train": ray("report_metrics", 8, 3)}, runs=3, program="paceline_python"),
    Row("restart_python", "Python: SIGKILL of one of 2 workers to the train loop running again on both", "s",
        Target("≤ 0.5 s", lambda row: row.ours.value <= 0.5),
        python("restart_python"), {"Ray Train": ray("restart_after_kill")}, program="paceline_python"),
    Row("worker_memory_python", "memory that a worker shares with no other process, after its first step with "
        "DistributedDataParallel, the larger of 2 workers", "MB",
        Target("≤ 60 MB", lambda row: row.ours.value <= 60),
        python("worker_memory_python"),
        {"Ray Train": ray("worker_memory_python"), "torchrun": torchrun("worker_memory_python")}, runs=3, program="paceline_python"),
    Row("images_python", "Python: images/s of ResNet-18 on MNIST in the steady state, 2 workers of one thread, global batch "
        "128, the same model and loader", "images/s",
        Target("≥ 1.0 × torchrun, within the spread", lambda row: row.within_spread()),
        python("images_python", 40, 4), {"torchrun": torchrun("mnist_images", 40, 4)},
        lower_is_better=False, needs_mnist=True, program="paceline_python"),
    Row("gpu_step_resnet", "step of ResNet-18 with 128 images of 224 × 224 in float32, one worker with a GPU; the peer is "
        "DistributedDataParallel with one rank over NCCL", "ms",
        Target("≤ 1.0 × the peer's time, within the spread", lambda row: row.within_spread()),
        ours("gpu_step_resnet", 10, 2), {"torchrun": torchrun_on_gpu("gpu_step_resnet", 10, 2)}, needs_gpu=True),
    Row("gpu_step_vit", "step of the VisionTransformer of `030_cifar10_vit` with 512 photographs in bfloat16, likewise; the "
        "peer's model is torchvision's", "ms",
        Target("≤ 1.0 × the peer's time, within the spread", lambda row: row.within_spread()),
        ours("gpu_step_vit", 10, 2), {"torchrun": torchrun_on_gpu("gpu_step_vit", 10, 2)}, needs_gpu=True),
    Row("installed_size", "what the Python package adds to torch and pyarrow, with cloudpickle; Ray Train: the package `ray` "
        "alone", "MB",
        Target("≤ 0.25 × Ray Train's", lambda row: row.ratio("Ray Train") >= 4),
        python("installed_size"), {"Ray Train": ray("installed_size")}, runs=1, program="paceline_python"),
]
