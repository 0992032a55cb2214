"""Where the contestants live: the peers' own Python environment, Paceline's build folder, this machine, versions."""

import os
import pathlib
import re
import subprocess
import sys
import urllib.request
import venv

ROOT = pathlib.Path(__file__).resolve().parent.parent
OUTPUT = ROOT / "build" / "bench"
QUICK_OUTPUT = OUTPUT / "quick"
PEERS = OUTPUT / "peers"
RELEASE = ROOT / "build" / "release"
CPU_WHEELS = "https://download.pytorch.org/whl/cpu"


def pinned_versions() -> dict[str, str]:
    text = (ROOT / "versions.env").read_text()
    return dict(re.findall(r"^(\w+)=(\S+)$", text, re.MULTILINE))


def install_peers() -> None:
    """Ray Train, Ray Data, CPU torch (with torchrun), py-spy and memray in an environment of their own; nothing if they are there."""
    pins = pinned_versions()
    packages = [f"ray[data,default,train]=={pins['RAY_VERSION']}", f"numpy=={pins['NUMPY_VERSION']}",
                f"pyarrow=={pins['PYARROW_VERSION']}", f"pandas=={pins['PANDAS_VERSION']}",
                f"py-spy=={pins['PY_SPY_VERSION']}", f"memray=={pins['MEMRAY_VERSION']}"]
    torch = f"torch=={pins['TORCH_VERSION']}"
    # Its models alone: what it depends on they do not need (examples/vision/torchvision_models.py).
    torchvision = f"torchvision=={pins['TORCHVISION_VERSION']}"
    stamp, wanted = PEERS / ".installed", "\n".join([torch, *packages, torchvision])
    if stamp.is_file() and stamp.read_text() == wanted:
        return
    print(f"installing the peers into {PEERS.relative_to(ROOT)}: {torch} {' '.join(packages)}", file=sys.stderr)
    venv.create(PEERS, with_pip=True)
    pip = [str(PEERS / "bin" / "pip"), "install", "-qq", "--disable-pip-version-check", "--progress-bar", "off"]
    # CPU torch from PyTorch's own index where it can be reached, otherwise from what pip is configured with.
    try:
        urllib.request.urlopen(f"{CPU_WHEELS}/torch/", timeout=5).close()
        subprocess.run([*pip, torch, "--index-url", CPU_WHEELS], check=True)
    except OSError:
        subprocess.run([*pip, torch], check=True)
    subprocess.run([*pip, torch, *packages], check=True)
    subprocess.run([*pip, "--no-deps", torchvision], check=True)
    stamp.write_text(wanted)


def build_programs(programs: set[str]) -> None:
    if not (RELEASE / "build.ninja").is_file():
        subprocess.run(["cmake", "--preset", "release"], cwd=ROOT, check=True, stdout=subprocess.DEVNULL)
    subprocess.run(["ninja", "-C", str(RELEASE), "--quiet", *sorted(programs)], check=True)


def fetch_mnist() -> None:
    subprocess.run([ROOT / "tools" / "fetch_mnist", ROOT / "data"], cwd=ROOT, check=True)


def tables_folder(quick: bool) -> pathlib.Path:
    return OUTPUT / "data" / ("quick" if quick else "full")


def make_tables(quick: bool) -> None:
    """The folders that data_sets.py writes; nothing if they are there."""
    subprocess.run([PEERS / "bin" / "python", "-B", ROOT / "benchmarks" / "data_sets.py", tables_folder(quick),
                    *(["--quick"] if quick else [])], check=True)


def program_environment(ray_folder: pathlib.Path) -> dict[str, str]:
    """Environment of every measured program: one thread, loopback, nothing of the caller's Ray or torchrun."""
    theirs = re.compile(r"^(RAY_|PACELINE_|OMP_|MKL_|GLOO_|NCCL_|TORCH|BENCHMARK_|PYTHON|VIRTUAL_ENV$|RANK$|LOCAL_RANK$"
                        r"|WORLD_SIZE$|LOCAL_WORLD_SIZE$|MASTER_ADDR$|MASTER_PORT$)")
    environment = {name: value for name, value in os.environ.items() if not theirs.match(name)}
    return environment | {
        "OMP_NUM_THREADS": "1",
        "GLOO_SOCKET_IFNAME": "lo",
        "PYTHONUNBUFFERED": "1",
        "RAY_TMPDIR": str(ray_folder),
        "RAY_USAGE_STATS_ENABLED": "0",
        "PACELINE_STATE_DIR": str(OUTPUT / "state"),  # measured runs are not the user's
    }


def missing_gpu() -> str:
    """Why the rows of GPUs cannot be measured; "" when they can."""
    seen = subprocess.run([ROOT / ".venv" / "bin" / "python", "-B", ROOT / "tools" / "gpu.py"], capture_output=True, text=True)
    return "" if seen.returncode == 0 else seen.stdout.strip() or seen.stderr.strip()


def versions_in_use(needs_gpu: bool) -> dict[str, str]:
    """What was measured, for the records."""
    commit = subprocess.run(["git", "describe", "--always", "--dirty"], cwd=ROOT, capture_output=True, text=True)
    interpreter = ROOT / ".venv" / "bin" / "python" if needs_gpu else PEERS / "bin" / "python"
    script = "import torch, platform; print(platform.python_version(), torch.__version__)"
    if not needs_gpu:
        script += "; import ray; print(ray.__version__)"
    found = subprocess.run([interpreter, "-c", script], capture_output=True, text=True, check=True).stdout.split()
    python, torch, *ray = found
    return {"paceline": commit.stdout.strip() or "unknown", "libtorch": torch if needs_gpu else libtorch_version(),
            "torch": torch, **({"ray": ray[0]} if ray else {}), "python": python}


def libtorch_version() -> str:
    """Of the LibTorch that the release build links: an unpacked archive's, otherwise that of the wheel in .venv."""
    cache = (RELEASE / "CMakeCache.txt").read_text()
    archive = re.search(r"^Torch_DIR:PATH=(.*)/share/cmake/Torch$", cache, re.MULTILINE)
    version_files = [pathlib.Path(archive[1]) / "build-version"] if archive else []
    version_files += ROOT.glob(".venv/lib/python3*/site-packages/torch/version.py")
    for file in version_files:
        if file.is_file():
            return re.search(r"\d+\.\d+\.\d+[^'\"\s]*", file.read_text())[0]
    return "unknown"


def machine() -> str:
    """This machine in one line: cores, processor, memory, kernel."""
    cpu = re.search(r"^model name\s*:\s*(.*)$", pathlib.Path("/proc/cpuinfo").read_text(), re.MULTILINE)
    memory = int(re.search(r"^MemTotal:\s*(\d+)", pathlib.Path("/proc/meminfo").read_text())[1]) / 2**20
    kernel = os.uname().release.partition("-")[0]
    return f"{os.cpu_count()} × {cpu[1] if cpu else 'unknown processor'}, {memory:.0f} GiB, Linux {kernel}" + gpus()


def gpus() -> str:
    """", NVIDIA H200" for each GPU; "" without one."""
    try:
        query = subprocess.run(["nvidia-smi", "--query-gpu=name", "--format=csv,noheader"], capture_output=True, text=True)
    except FileNotFoundError:
        return ""
    return "".join(f", {name}" for name in query.stdout.splitlines()) if query.returncode == 0 else ""
