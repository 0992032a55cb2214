"""The rows of `make bench`: what each measures, against whom, and what it has to reach.

A new row is an entry here, a program of ours in benchmarks/, and a function in benchmarks/peers/ for each peer.
Every program takes --scratch FOLDER --iterations N --round K --data FOLDER, and ends its output with one line of JSON:
{"samples": […]}, in the row's unit, "also" with further observations by description, and "peers" with the samples of what
the program has measured beside itself, by name: such a row needs no peer of its own.
"""

import dataclasses
import sys
import sysconfig

from environment import PEERS, RELEASE, ROOT
from record import PACELINE, Outcome, Target

BENCHMARKS = ROOT / "benchmarks"
COPYING = "copying as much on both ranks at once"


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
    needs_tables: bool = False  # the folders of data_sets.py, which --data then names


def ours(row: str, iterations: int = 1, quick_iterations: int = 1) -> Contestant:
    return Contestant((str(RELEASE / "benchmarks" / row),), iterations, quick_iterations)


def profiled(kind: str) -> Contestant:
    return Contestant(("env", f"PROFILE_KIND={kind}", str(RELEASE / "benchmarks" / "profile_cost")), 3, 1)


def profiler(name: str) -> Contestant:
    """A profiler of Python programs, at work in one."""
    return Contestant((str(PEERS / "bin" / "python"), str(BENCHMARKS / "peers" / "with_profilers.py"), name), 3, 1)


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


def agents(row: str, iterations: int = 1, quick_iterations: int = 1) -> Contestant:
    """Our Python package, from the build, over several nodes."""
    command = ("env", f"PYTHONPATH={RELEASE / 'python'}", str(ROOT / ".venv" / "bin" / "python"), "-B",
               str(BENCHMARKS / "with_agents.py"), row)
    return Contestant(command, iterations, quick_iterations)


def on_ray(row: str, iterations: int = 1, quick_iterations: int = 1) -> Contestant:
    """Our Python package, from the build, in the environment that has Ray."""
    path = f"{RELEASE / 'python'}:{sysconfig.get_path('purelib', vars={'base': str(ROOT / '.venv')})}"
    command = ("env", f"PYTHONPATH={path}", str(PEERS / "bin" / "python"), "-B", str(BENCHMARKS / "with_ray.py"), row)
    return Contestant(command, iterations, quick_iterations)


def torchrun_on_two_nodes(row: str, iterations: int = 1, quick_iterations: int = 1) -> Contestant:
    command = (str(PEERS / "bin" / "python"), str(BENCHMARKS / "peers" / "torchrun_on_two_nodes.py"),
               str(BENCHMARKS / "peers" / "with_torchrun.py"), row)
    return Contestant(command, iterations, quick_iterations)


def s3_upload(iterations: int, quick_iterations: int) -> Contestant:
    """All contestants, from the Python that has the server."""
    command = (str(ROOT / ".venv" / "bin" / "python"), str(BENCHMARKS / "s3_upload.py"),
               f"--program={RELEASE / 'benchmarks' / 's3_upload'}", f"--peer-python={PEERS / 'bin' / 'python'}")
    return Contestant(command, iterations, quick_iterations)


CHARTS = "a run of 1,000,000 reports, all charts (ms)"


def of_run_fits(row: Outcome) -> bool:
    charts = row.also.get(CHARTS)
    return charts is None or charts.value <= 500


def paint(iterations: int, quick_iterations: int) -> Contestant:
    """The dashboard that was built, in Debian's Chromium; needs `make setup-web`."""
    return Contestant(("node", str(ROOT / "web" / "tests" / "measure_paint.mjs")), iterations, quick_iterations)


FRAMES = ("frames/s of the page with 1,024 live ranks", "frames/s of the charts of a million reports")


def is_smooth(row: Outcome) -> bool:
    """60 frames a second, but for what counting them in five seconds leaves out."""
    return all(name not in row.also or row.also[name].value >= 59 for name in FRAMES)


def live(seconds: int, quick_seconds: int) -> Contestant:
    """The same of a run that goes on."""
    return Contestant(("node", str(ROOT / "web" / "tests" / "measure_live.mjs")), seconds, quick_seconds)


RAY_DATA, TUNED_RAY_DATA, DATALOADER, PYARROW = "Ray Data", "Ray Data, tuned", "DataLoader", "pyarrow, 2 threads"


def data(row: str, iterations: int, quick_iterations: int) -> Contestant:
    """Our engine for data, from the build."""
    command = ("env", f"PYTHONPATH={RELEASE / 'python'}", str(ROOT / ".venv" / "bin" / "python"), "-B",
               str(BENCHMARKS / "data_with_paceline.py"), row)
    return Contestant(command, iterations, quick_iterations)


def data_peers(row: str, iterations: int, quick_iterations: int, *labels: str) -> dict[str, Contestant]:
    """Those of the data rows. Ray Data is two: as it comes, and with the options that make it fastest here."""
    def peer(program: str, *variables: str) -> Contestant:
        command = ("env", *variables, str(PEERS / "bin" / "python"), "-B", str(BENCHMARKS / "peers" / program), row)
        return Contestant(command, iterations, quick_iterations)

    peers = {RAY_DATA: peer("data_with_ray.py"),
             TUNED_RAY_DATA: peer("data_with_ray.py", "RAY_DATA_USE_DATASOURCE_V2=0"),
             DATALOADER: peer("data_with_dataloader.py"),
             PYARROW: peer("data_with_pyarrow.py")}
    return {label: peers[label] for label in labels or peers}


def peak_memory(name: str, contestant: Contestant) -> Contestant:
    """`contestant`, with the memory of all its processes measured from outside."""
    measure = (sys.executable, str(BENCHMARKS / "peak_memory.py"), name)
    return dataclasses.replace(contestant, command=(*measure, "--", *contestant.command))


def times(row: Outcome, least: dict[str, float]) -> bool:
    """Whether we are better than each peer so many times."""
    return all(row.ratio(peer) >= ratio for peer, ratio in least.items())


def memory_fits(row: Outcome) -> bool:
    each = row.also.get("Paceline, kB of memory for each agent")
    return each is None or each.value <= 200


def collective_row(name: str, what: str, unit: str, target: Target) -> Row:
    """One whose program measures both backends in turns."""
    beside = ("Gloo",) if unit == "µs" else ("Gloo", COPYING)
    return Row(name, what, unit, target, Contestant((str(RELEASE / "benchmarks" / "collectives"), name), 20, 2), {},
               runs=3, program="collectives", beside=beside)


COMPUTE, ONE_PROCESS = "compute alone", "one process of two threads"
DROPPED, DROPPED_ALONE = "gradients dropped", "gradients dropped, compute alone"


def gap_fits(row: Outcome) -> bool:
    """Between two epochs passes no more than the time of a batch."""
    gap, a_batch = (row.also.get(f"Paceline, {what}") for what in ("gap between epochs (ms)", "a batch (ms)"))
    return gap is None or gap.value <= a_batch.value


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
    Row("profile_cost", "by how much a step of the VisionTransformer of `030_cifar10_vit` with 16 photographs a worker is longer "
        "while `paceline profile` samples both workers, of one thread each (99 Hz); py-spy: the same model in Python, one process",
        "%", Target("≤ 2 %", lambda row: row.ours.value <= 2),
        profiled("cpu"), {"py-spy": profiler("py-spy")}, runs=5),
    Row("memory_profile_cost", "the same while `paceline profile --memory` notes what operators allocate; memray: as py-spy",
        "%", Target("≤ 10 %", lambda row: row.ours.value <= 10),
        profiled("memory"), {"memray": profiler("memray")}, runs=5, program="profile_cost"),
    Row("profile_pause", "the longest time that a thread which multiplies matrices stands still while `paceline profile` watches "
        "its worker in each of its ways, or `paceline stacks` is called; one worker, 2 s each", "ms",
        Target("≤ 100 ms", lambda row: row.ours.value <= 100),
        ours("profile_pause", 2, 1), {}, runs=3),
    Row("profile_pause_python", "the same in Python, where py-spy and memray watch, beside a thread that allocates at 4,096 places", "ms",
        Target("≤ 100 ms", lambda row: row.ours.value <= 100),
        python("profile_pause_python", 2, 1), {}, runs=3, program="paceline_python", programs=("paceline",)),
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
    Row("startup_hosts", "Python: `fit()` to the first line of the train loop on both of 2 workers, on 2 nodes whose agents wait; "
        "torchrun: its whole start on 2 nodes", "s",
        Target("≤ 0.5 s", lambda row: row.ours.value <= 0.5),
        agents("startup_hosts"), {"torchrun": torchrun_on_two_nodes("startup_cpp")}, program="paceline_python"),
    Row("startup_ray", "second `fit()` on a running Ray cluster, to the first line of the train loop on both of 2 workers, on 2 nodes",
        "s", Target("≤ 1.5 s, ≥ 5 × sooner than Ray Train", lambda row: row.ours.value <= 1.5 and row.ratio("Ray Train") >= 5),
        on_ray("startup_ray"), {"Ray Train": ray("startup_ray")}, program="paceline_python"),
    Row("report_remote", "`report(metrics)` in Python as the step sees it, 2 workers on 2 nodes", "µs",
        Target("≤ 20 µs", lambda row: row.ours.value <= 20),
        agents("report_remote", 3000, 300), {"Ray Train": ray("report_metrics", 8, 3)}, runs=3, program="paceline_python"),
    Row("ddp_step_two_nodes", "Python: DDP step with 84 MB of gradients, 2 workers of one thread on 2 nodes, Gloo", "ms",
        Target("≤ 1.0 × the peer's time, within the spread", lambda row: row.within_spread()),
        agents("ddp_step_two_nodes", 40, 5), {"torchrun": torchrun_on_two_nodes("ddp_step_gloo", 40, 5)}, runs=7,
        program="paceline_python"),
    Row("node_loss", "one of 2 nodes is killed, with agent and worker, to the train loop running again on the other and a spare "
        "one; Ray Train: a raylet and its worker", "s",
        Target("≤ 10 s to notice and 3 s from there, ≥ 5 × sooner than Ray Train",
               lambda row: row.ours.value <= 13 and row.ratio("Ray Train") >= 5),
        agents("node_loss"), {"Ray Train": ray("node_loss")}, runs=3, program="paceline_python"),
    Row("agents_1000", "what 1,000 agents over TLS (node_timeout_s 60), each with a rank that reports once a second, cost the driver", "cores",
        Target("≤ 0.3 of a core, ≤ 200 kB for each agent",
               lambda row: row.ours.value <= 0.3 and memory_fits(row)),
        ours("agents_1000", 10, 3), {}, runs=3),
    collective_row("all_reduce_in_place", "all-reduce of 64 MiB of memory that the ranks share, 2 ranks", "ms",
                   Target("≥ 15 × as fast as Gloo", lambda row: row.ratio("Gloo") >= 15)),
    collective_row("all_reduce_private", "the same of memory of each rank's own", "ms",
                   Target("≥ 5 × as fast as Gloo", lambda row: row.ratio("Gloo") >= 5)),
    collective_row("all_reduce_small", "all-reduce of 8 kB, 2 ranks", "µs",
                   Target("≤ 5 µs, ≥ 50 × as fast as Gloo", lambda row: row.ours.value <= 5 and row.ratio("Gloo") >= 50)),
    collective_row("reduce_scatter", "reduce-scatter of 64 MiB, 2 ranks", "ms",
                   Target("≥ 15 × as fast as Gloo", lambda row: row.ratio("Gloo") >= 15)),
    collective_row("all_gather", "all-gather of 64 MiB in all, 2 ranks", "ms",
                   Target("≥ 15 × as fast as Gloo", lambda row: row.ratio("Gloo") >= 15)),
    Row("bandwidth_share", "bytes of an all-reduce in place by its time, as a part of what copying on both ranks at once moves in "
        "it (as c10d calls it, the least of 4, 16 and 64 MiB), 2 ranks", "×",
        Target("≥ 0.7 ×", lambda row: row.ours.value >= 0.7),
        Contestant((str(RELEASE / "benchmarks" / "collectives"), "bandwidth_share"), 20, 2), {},
        runs=3, lower_is_better=False, program="collectives"),
    Row("ddp_step_shm", "forward and backward of a DDP step with 84 MB of gradients, 2 workers of one thread, shared memory, "
        "gradients that are views of the buckets and stay (`zero_grad(false)`); the peer is DistributedDataParallel over Gloo, "
        "likewise; beside: those that `zero_grad()` drops are copied into the buckets", "ms",
        Target("≤ 1.12 × compute alone, ≥ 1.6 × faster than the peer",
               lambda row: row.ratio(COMPUTE) >= 1 / 1.12 and row.ratio("torchrun") >= 1.6),
        ours("ddp_step_shm", 40, 5), {"torchrun": torchrun("ddp_step_shm", 40, 5)},
        beside=(COMPUTE, DROPPED, DROPPED_ALONE)),
    Row("ddp_step_shm_python", "the same in Python, under PyTorch's DistributedDataParallel", "ms",
        Target("≤ 1.12 × compute alone, ≥ 1.6 × faster than the peer",
               lambda row: row.ratio(COMPUTE) >= 1 / 1.12 and row.ratio("torchrun") >= 1.6),
        python("ddp_step_shm_python", 40, 5), {"torchrun": torchrun("ddp_step_shm", 40, 5)}, program="paceline_python",
        beside=(COMPUTE,)),
    Row("fsdp2_step_shm", "Python: step of PyTorch's FSDP2 with 21 million parameters, 2 workers of one thread, shared memory; the "
        "peer's is over Gloo", "ms",
        Target("≥ 1.8 × faster than the peer", lambda row: row.ratio("torchrun") >= 1.8),
        python("fsdp2_step_shm", 40, 5), {"torchrun": torchrun("fsdp2_step_shm", 40, 5)}, program="paceline_python"),
    Row("vit_images", "images/s of the VisionTransformer of `030_cifar10_vit`, 2 workers of one thread, 16 photographs each; "
        "the peers' model is torchvision's, over Gloo", "images/s",
        Target("≥ 0.95 × one process of two threads, and more than both peers",
               lambda row: row.ratio(ONE_PROCESS) >= 0.95 and all(row.ratio(peer) > 1 for peer in ("torchrun", "Ray Train"))),
        ours("vit_images", 12, 2), {"torchrun": torchrun("vit_images", 12, 2), "Ray Train": ray("vit_images", 12, 2)},
        lower_is_better=False, beside=(ONE_PROCESS,)),
    Row("gpu_step_resnet", "step of ResNet-18 with 128 images of 224 × 224 in float32, one worker with a GPU; the peer is "
        "DistributedDataParallel with one rank over NCCL", "ms",
        Target("≤ 1.0 × the peer's time, within the spread", lambda row: row.within_spread()),
        ours("gpu_step_resnet", 10, 2), {"torchrun": torchrun_on_gpu("gpu_step_resnet", 10, 2)}, needs_gpu=True),
    Row("gpu_step_vit", "step of the VisionTransformer of `030_cifar10_vit` with 512 photographs in bfloat16, likewise; the "
        "peer's model is torchvision's", "ms",
        Target("≤ 1.0 × the peer's time, within the spread", lambda row: row.within_spread()),
        ours("gpu_step_vit", 10, 2), {"torchrun": torchrun_on_gpu("gpu_step_vit", 10, 2)}, needs_gpu=True),
    Row("ledger_cost", "what it takes to note a collective in the ledger: kind, type, size and times", "ns",
        Target("≤ 100 ns", lambda row: row.ours.value <= 100),
        ours("ledger_cost", 10, 2), {}),
    Row("sampling_cost", "what an agent takes to sample its node and 8 workers each second, for the dashboard", "% of a core",
        Target("≤ 0.5 % of a core", lambda row: row.ours.value <= 0.5),
        ours("sampling_cost", 20, 2), {}),
    Row("dashboard_paint", "from the start of the navigation to the first rows of the list of 10,000 runs, in Chromium without a "
        "window and without a cache; of a run with a million reports to its last chart", "ms",
        Target("≤ 300 ms; ≤ 500 ms for the run", lambda row: row.ours.value <= 300 and of_run_fits(row)),
        paint(7, 1), {}, runs=3, program="paceline", programs=("paceline_python",)),
    Row("dashboard_live", "what the dashboard's server takes while a page shows the workers of a live run of 1,024 ranks that "
        "report once a second; frames of that page, and of charts of a million reports under a moving pointer, in Chromium "
        "without a window, which draws without a GPU", "% of a core",
        Target("≤ 5 % of a core; 60 frames/s", lambda row: row.ours.value <= 5 and is_smooth(row)),
        live(10, 2), {}, runs=3, program="simulated_run", programs=("paceline", "paceline_python")),
    Row("installed_size", "what the Python package adds to torch and pyarrow, with cloudpickle; Ray Train: the package `ray` "
        "alone", "MB",
        Target("≤ 0.25 × Ray Train's", lambda row: row.ratio("Ray Train") >= 4),
        python("installed_size"), {"Ray Train": ray("installed_size")}, runs=1, program="paceline_python"),
    Row("parquet_scalars", "Parquet to torch: 5.2 million rows in 104 files, an int64 and 20 float32 of each, in batches of "
        "1024, whole epochs with the time to their first batch", "M rows/s",
        Target("≥ 8 × Ray Data, ≥ 3 × tuned, ≥ 2.5 × DataLoader, ≥ 1.0 × pyarrow",
               lambda row: times(row, {RAY_DATA: 8, TUNED_RAY_DATA: 3, DATALOADER: 2.5, PYARROW: 1})),
        data("parquet_scalars", 2, 2), data_peers("parquet_scalars", 2, 2),
        lower_is_better=False, needs_tables=True, program="paceline_python"),
    Row("parquet_tensors", "the same with vectors of 64 float32 and an int64, 1.4 GB", "M rows/s",
        Target("≥ 30 × Ray Data, ≥ 12 × tuned, ≥ 8 × DataLoader, ≥ 3 × pyarrow",
               lambda row: times(row, {RAY_DATA: 30, TUNED_RAY_DATA: 12, DATALOADER: 8, PYARROW: 3})),
        data("parquet_tensors", 2, 2), data_peers("parquet_tensors", 2, 2),
        lower_is_better=False, needs_tables=True, program="paceline_python"),
    Row("first_batch", "time to the first batch of these vectors in a program that has imported all; daemons run", "s",
        Target("≤ 0.1 s, ≥ 40 × faster than Ray Data, ≥ 1.3 × than tuned; between epochs at most the time of a batch",
               lambda row: row.ours.value <= 0.1 and times(row, {RAY_DATA: 40, TUNED_RAY_DATA: 1.3}) and gap_fits(row)),
        data("first_batch", 5, 1), data_peers("first_batch", 1, 1), needs_tables=True, program="paceline_python"),
    Row("shuffle_cost", "rate of shuffled epochs by the rate of epochs in order, the table of `parquet_scalars`; peers shuffle "
        "in windows of 65,536 rows", "×",
        Target("≥ 0.9 ×", lambda row: row.ours.value >= 0.9),
        data("shuffle_cost", 3, 1), data_peers("shuffle_cost", 1, 1),
        lower_is_better=False, needs_tables=True, program="paceline_python"),
    Row("memory_budget", "peak memory of all processes beyond their memory while idle: an epoch of the vectors, a budget of "
        "600 MB (Ray Data: of its object store; the others know none), a reader that stops for 3 s", "MB",
        Target("≤ 630 MB", lambda row: row.ours.value <= 630),
        peak_memory(PACELINE, data("memory_budget", 1000, 10)),
        {label: peak_memory(label, peer) for label, peer in data_peers("memory_budget", 1000, 10).items()},
        runs=3, needs_tables=True, program="paceline_python"),
    Row("python_batches", "batches of 1 MiB through a Python function in other processes that returns them as they are", "GB/s",
        Target("≥ 5 GB/s, ≥ 3 × Ray Data, tuned or not",
               lambda row: row.ours.value >= 5 and times(row, {RAY_DATA: 3, TUNED_RAY_DATA: 3})),
        data("python_batches", 64, 4), data_peers("python_batches", 64, 4, RAY_DATA, TUNED_RAY_DATA, DATALOADER),
        lower_is_better=False, needs_tables=True, program="paceline_python"),
    Row("trainer_jitter", "99th percentile of a training step's time, one thread, beside the loader of the vectors: by that of "
        "steps with a batch that is there already", "×",
        Target("≤ 1.03 ×", lambda row: row.ours.value <= 1.03),
        data("trainer_jitter", 600, 10), data_peers("trainer_jitter", 600, 10), needs_tables=True, program="paceline_python"),
    Row("resume_first_batch", "time to the first batch in a new process that goes on in the middle of an epoch of the vectors; "
        "peers read and drop what was seen", "s",
        Target("≤ 1.2 × our cold first batch", lambda row: row.ratio("cold first batch") >= 1 / 1.2),
        data("resume_first_batch", 2500, 20),
        data_peers("resume_first_batch", 2500, 20, RAY_DATA, TUNED_RAY_DATA, DATALOADER),
        needs_tables=True, program="paceline_python", beside=("cold first batch",)),
]
