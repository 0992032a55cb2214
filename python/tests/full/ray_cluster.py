"""What the tests on real Ray clusters share: several raylets on this machine (ray.cluster_utils).

Where the interpreter has no Ray, a test file runs in the benchmarks' environment, which has it. The files take a quarter of an
hour and start whole clusters, so they run where PACELINE_TEST_RAY is set.
"""

import contextlib
import importlib.util
import os
import pathlib
import signal
import subprocess
import sys
import sysconfig
import tempfile
import time
import uuid

import pytest

PROJECT = pathlib.Path(__file__).resolve().parents[3]
HAS_RAY = importlib.util.find_spec("ray") is not None
MARK = "PACELINE_TEST_MARK"

wanted = pytest.mark.skipif(not os.environ.get("PACELINE_TEST_RAY"), reason="PACELINE_TEST_RAY=1 runs them")
needs_ray = pytest.mark.skipif(not HAS_RAY, reason="runs where Ray is")


def run_where_ray_is(file):
    sys.path.insert(0, str(PROJECT / "benchmarks"))
    import environment

    try:
        environment.install_peers()
    except (OSError, subprocess.CalledProcessError) as error:
        pytest.skip(f"Ray is not installed, and cannot be: {error}")
    path = os.pathsep.join([os.environ["PYTHONPATH"], sysconfig.get_path("purelib")])
    command = [environment.PEERS / "bin/python", "-B", "-m", "pytest", "-q", "-rs", "-p", "no:cacheprovider", file]
    done = subprocess.run(command, env={**os.environ, "PYTHONPATH": path}, capture_output=True, text=True, timeout=2000)
    assert done.returncode == 0, done.stdout[-20000:] + done.stderr[-5000:]
    print(done.stdout)


def wait_for(is_so, seconds=60):
    deadline = time.monotonic() + seconds
    while not (found := is_so()):
        assert time.monotonic() < deadline, "it did not come to pass"
        time.sleep(0.05)
    return found


def ends(left, seconds=60):
    """Waits until nothing is left of what `left` lists, or tells what."""
    with contextlib.suppress(AssertionError):
        wait_for(lambda: not left(), seconds)
    assert not (found := left()), found


@pytest.fixture(scope="module", autouse=True)
def mark():
    """What the environments of all processes of these tests have."""
    os.environ[MARK] = uuid.uuid4().hex
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    os.environ["RAY_worker_niceness"] = "0"  # by default 15: beside other tests nothing would get on
    pathlib.Path(tempfile.gettempdir(), "ray").mkdir(exist_ok=True)  # Cluster writes into it, but nothing makes it
    os.environ["PATH"] = os.pathsep.join([os.path.dirname(sys.executable), os.environ["PATH"]])  # `python` of jobs
    return os.environ[MARK]


def marked(mark):
    """Process ids and command lines of what these tests have started, here or on a node."""
    for folder in pathlib.Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if f"{MARK}={mark}".encode() in (folder / "environ").read_bytes():
                yield int(folder.name), (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")


def of_runs(mark):
    """What runs of these tests have left: agents, and what they started."""
    return [
        f"{process}: {command}"
        for process, command in marked(mark)
        if " agent --token-file" in command or "paceline._w" in command or command.startswith("paceline ")
    ]


@pytest.fixture(autouse=True)
def leaves_no_worker(mark):
    yield
    ends(lambda: [one for one in of_runs(mark) if "paceline worker" in one], 30)


def agents_of_runs(mark):
    return [one for one in of_runs(mark) if " agent --token-file" in one]


@contextlib.contextmanager
def folder_of_ray():
    """Of a path that is short enough for its sockets."""
    with tempfile.TemporaryDirectory(prefix="ray-", ignore_cleanup_errors=True) as folder:
        yield folder


def end(mark, *words):
    """Kills the processes of these tests whose command lines have one of the words."""
    for process, command in marked(mark):
        if process != os.getpid() and any(word in command for word in words):
            with contextlib.suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)


def ray_command(*words):
    """Of Ray's command line, in this interpreter."""
    return [sys.executable, "-m", "ray.scripts.scripts", *map(str, words)]
