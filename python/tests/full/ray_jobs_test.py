"""Jobs of real Ray clusters: `ray job submit`, `paceline run --engine ray`, and a cluster that grows with what is asked of it."""

import importlib.util
import json
import os
import pathlib
import re
import shutil
import signal
import socket
import subprocess
import sys

import pytest
from ray_cluster import (
    HAS_RAY,
    PROJECT,
    end,
    ends,
    folder_of_ray,
    leaves_no_worker,  # noqa: F401  a fixture
    mark,  # noqa: F401  a fixture
    needs_ray,
    of_runs,
    ray_command,
    run_where_ray_is,
    wait_for,
    wanted,
)

pytestmark = wanted

if not HAS_RAY:

    def test_jobs():
        run_where_ray_is(__file__)


EXAMPLES = PROJECT / "examples/python"
PROGRAMS = pathlib.Path(os.environ.get("PACELINE_EXAMPLES", PROJECT / "build/release/examples"))  # in C++

needs_programs = pytest.mark.skipif(not PROGRAMS.is_dir(), reason=f"the examples in C++ are not built: {PROGRAMS}")


@pytest.fixture(scope="module")
def dashboard(mark):
    """Of a cluster with two nodes of one CPU beside its head."""
    for needed in ("aiohttp_cors", "colorful", "opencensus"):
        if importlib.util.find_spec(needed) is None:
            pytest.skip(f'jobs need Ray\'s dashboard, which needs {needed}: pip install "ray[default]"')
    from ray.cluster_utils import Cluster

    with folder_of_ray() as folder:
        head = {"num_cpus": 0, "temp_dir": folder, "include_dashboard": True, "dashboard_port": 0}
        cluster = Cluster(initialize_head=True, head_node_args=head)
        try:
            for _ in range(2):
                cluster.add_node(num_cpus=1)
            dashboard = f"http://{cluster.webui_url}"
            wait_for(lambda: submit(dashboard, "--", "true").returncode == 0, 120)  # its head takes jobs some seconds later
            yield dashboard
        finally:
            cluster.shutdown()


EVERYWHERE = """
import ray
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy as On
ray.init()
nodes = [node["NodeID"] for node in ray.nodes() if node["Alive"]]
here = ray.remote(lambda: None)
ray.get([here.options(num_cpus=0, scheduling_strategy=On(node, soft=False)).remote() for node in nodes])
"""


def unpack(dashboard, folder, tmp_path):
    """Ray unpacks the folder of a job on each node, anew for the first job there. Here nodes share a disk, and remove what
    others have unpacked, with the working directory of the driver. So an earlier job sees to it.
    """
    (tmp_path / "everywhere.py").write_text(EVERYWHERE)
    done = submit(dashboard, "--working-dir", folder, "--", "python", tmp_path / "everywhere.py")
    assert done.returncode == 0, done.stdout + done.stderr


def submit(dashboard, *words, **settings):
    command = ray_command("job", "submit", "--address", dashboard, *words)
    return subprocess.run(command, capture_output=True, text=True, timeout=280, **settings)


def status_of(dashboard, job):
    done = subprocess.run(ray_command("job", "status", "--address", dashboard, job), capture_output=True, text=True)
    return done.stdout + done.stderr


@needs_ray
def test_a_submitted_job_trains_on_the_clusters_nodes(dashboard, tmp_path):
    unpack(dashboard, EXAMPLES, tmp_path)
    words = ["--working-dir", EXAMPLES, "--", "python", "ray_job.py", "--num-workers", 2]
    done = submit(dashboard, *words, "--storage-path", tmp_path / "results")
    assert done.returncode == 0 and "y = 3.00 x + -1.00" in done.stdout, done.stdout + done.stderr


@needs_ray
def test_the_script_of_the_examples_submits_it(dashboard, tmp_path):
    unpack(dashboard, EXAMPLES, tmp_path)
    (tmp_path / "ray").write_text('#!/bin/sh\nexec python -m ray.scripts.scripts "$@"\n')  # this environment may have none
    (tmp_path / "ray").chmod(0o755)
    path = os.pathsep.join([str(tmp_path), os.environ["PATH"]])
    environment = {**os.environ, "RAY_API_SERVER_ADDRESS": dashboard, "PATH": path}
    command = ["bash", EXAMPLES / "submit_ray_job.sh", tmp_path / "results", "2"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=280)
    assert done.returncode == 0 and "y = 3.00 x + -1.00" in done.stdout, done.stdout + done.stderr


@needs_ray
def test_the_runtime_env_of_a_job_reaches_its_workers(dashboard, tmp_path):
    folder = tmp_path / "sent"
    folder.mkdir()
    (folder / "travels.py").write_text("WHERE = __file__\n")
    (folder / "program.py").write_text(f"""
import os
import paceline
from paceline.train import RunConfig, ScalingConfig
from paceline.train.torch import TorchTrainer

def train_loop():
    import travels
    return [travels.WHERE, os.getcwd(), os.environ["COLOUR"]]

with paceline.init():
    print("RETURNED", *TorchTrainer(
        train_loop,
        scaling_config=ScalingConfig(num_workers=2, placement_strategy="SPREAD"),
        run_config=RunConfig(storage_path={str(tmp_path / "results")!r}, quiet=True),
    ).fit().return_value)
""")
    unpack(dashboard, folder, tmp_path)
    variables = json.dumps({"env_vars": {"COLOUR": "red"}})
    done = submit(dashboard, "--working-dir", folder, "--runtime-env-json", variables, "--", "python", "program.py")
    assert done.returncode == 0, done.stdout + done.stderr
    where, directory, colour = re.search(r"RETURNED (\S+) (\S+) (\S+)", done.stdout).groups()
    assert colour == "red" and where == os.path.join(directory, "travels.py") and "_ray_pkg_" in directory


@needs_ray
def test_a_job_that_is_stopped_ends_its_run_in_order(dashboard, tmp_path, mark):
    unpack(dashboard, EXAMPLES, tmp_path)
    settings = json.dumps({"env_vars": {"RAY_JOB_STOP_WAIT_TIME_S": "60"}})
    words = ["--no-wait", "--submission-id", "to_be_stopped", "--working-dir", EXAMPLES, "--runtime-env-json", settings, "--"]
    words += ["python", "ray_job.py", "--num-workers", 2, "--epochs", 1_000_000, "--name", "stopped"]
    done = submit(dashboard, *words, "--storage-path", tmp_path / "results")
    assert done.returncode == 0, done.stdout + done.stderr
    wait_for((tmp_path / "results/stopped/checkpoint_000001").exists, 120)
    done = subprocess.run(
        ray_command("job", "stop", "--address", dashboard, "to_be_stopped"), capture_output=True, text=True, timeout=120
    )
    assert "stopped" in done.stdout + done.stderr, done.stdout + done.stderr
    ends(lambda: of_runs(mark), 60)
    assert "STOPPED" in status_of(dashboard, "to_be_stopped").upper()
    last = (tmp_path / "results/stopped/journal.jsonl").read_text()
    assert '"aborted"' in last, "not killed"


def paceline_run(dashboard, folder, tmp_path, *words):
    """The command, once the nodes have the folder (unpack() says why)."""
    from paceline import __main__ as command_line

    command = [command_line.PROGRAM, "run", "--engine", "ray", "--address", dashboard, "--working-dir", folder]
    first = list(map(str, [*command, "--storage-path", tmp_path / "first", "--nnodes", 2, "true"]))
    with subprocess.Popen(first, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        try:
            process.wait(60)
        except subprocess.TimeoutExpired:  # what served it lost its working directory
            process.send_signal(signal.SIGINT)
            process.wait(60)
    return list(map(str, [*command, "--storage-path", tmp_path / "results", *words]))


def finished(command, **settings):
    done = subprocess.run(command, capture_output=True, text=True, timeout=280, **settings)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture
def programs(tmp_path):
    """A folder with programs in C++ that a cluster gets."""
    folder = tmp_path / "programs"
    folder.mkdir()
    for name in ("040_resume_after_failure", "050_existing_torchrun_program"):
        shutil.copy(PROGRAMS / name, folder)
    return folder


@needs_ray
@needs_programs
def test_a_program_in_cpp_trains_on_the_clusters_nodes(dashboard, programs, tmp_path, mark):
    """It has two runs, one of which loses a worker."""
    command = paceline_run(dashboard, programs, tmp_path, "-n", 2, "--", "./040_resume_after_failure")
    shown = finished(command)
    rows = [line.split() for line in shown.partition("loss with 1 failure")[2].splitlines() if line.strip()]
    assert len(rows) == 8 and all(undisturbed == killed for _, undisturbed, killed in rows), shown
    for journal in tmp_path.glob("results/*/journal.jsonl"):
        events = map(json.loads, journal.read_text().splitlines())
        assert len({event["node"]["name"] for event in events if event["event"] == "node_ready"}) == 2
    ends(lambda: of_runs(mark), 60)


@needs_ray
@needs_programs
def test_a_program_for_torchrun_gets_ranks_on_the_clusters_nodes(dashboard, programs, tmp_path, mark):
    shown = finished(paceline_run(dashboard, programs, tmp_path, "--nnodes", 2, "--", "./050_existing_torchrun_program"))
    assert "loss" in shown, shown
    shown = finished(paceline_run(dashboard, EXAMPLES, tmp_path, "-n", 2, "vanilla_ddp.py", "--epochs", 2))
    assert "new points are on the spiral" in shown, shown
    ends(lambda: of_runs(mark), 60)


@needs_ray
@needs_programs
def test_ctrl_c_stops_a_program_in_cpp_on_all_nodes(dashboard, tmp_path, mark):
    script = tmp_path / "work/forever.sh"
    script.parent.mkdir()
    script.write_text("touch $MARKS/$RANK\nwhile :; do sleep 1; done\n")
    marks = tmp_path / "marks"
    marks.mkdir()
    (tmp_path / "runtime_env.json").write_text(json.dumps({"env_vars": {"MARKS": str(marks)}}))
    words = ["--runtime-env", tmp_path / "runtime_env.json", "-n", 2, "sh", "forever.sh"]
    command = paceline_run(dashboard, script.parent, tmp_path, *words)
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
        wait_for(lambda: len(list(marks.iterdir())) == 2, 120)
        process.send_signal(signal.SIGINT)
        shown, _ = process.communicate(timeout=120)
    assert process.returncode == 130, shown
    ends(lambda: of_runs(mark), 60)


@needs_ray
def test_more_than_the_cluster_has_is_refused_with_its_table(dashboard, tmp_path):
    command = paceline_run(dashboard, EXAMPLES, tmp_path, "--resources-per-worker", "CPU=9", "vanilla_ddp.py")
    environment = {**os.environ, "RAY_API_SERVER_ADDRESS": ""}
    process = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    with process:
        wait_for(lambda: "waiting for Ray to give 1 × {CPU: 9}" in process.stdout.readline(), 120)
        process.terminate()
        process.communicate(timeout=120)
    assert process.returncode == 143


AUTOSCALER = {
    "cluster_name": "grows",
    "max_workers": 2,
    "provider": {
        "type": "fake_multinode", "use_node_id_as_ip": True, "disable_node_updaters": True, "disable_launch_config_check": True,
    },
    "available_node_types": {
        "ray.head.default": {"resources": {"CPU": 0}, "node_config": {}, "max_workers": 0},
        "small": {"resources": {"CPU": 1}, "node_config": {}, "min_workers": 0, "max_workers": 2},
    },
    "head_node_type": "ray.head.default",
    "upscaling_speed": 1.0,
    "idle_timeout_minutes": 5,
    "auth": {},
    "file_mounts": {},
    "cluster_synced_files": [],
    "file_mounts_sync_continuously": False,
    "initialization_commands": [],
    "setup_commands": [],
    "head_setup_commands": [],
    "worker_setup_commands": [],
    "head_start_ray_commands": [],
    "worker_start_ray_commands": [],
}  # fmt: skip


@needs_ray
def test_a_run_waits_for_an_autoscaler(tmp_path, mark):
    """Ray's fake provider starts raylets on this machine, when its autoscaler has seen what is asked for."""
    import ray

    with socket.create_server(("127.0.0.1", 0)) as free:  # the provider has to know it before the head does
        port = free.getsockname()[1]
    provider = AUTOSCALER["provider"] | {"gcs_address": f"{ray.util.get_node_ip_address()}:{port}", "launch_multiple": True}
    config = tmp_path / "autoscaler.json"
    config.write_text(json.dumps(AUTOSCALER | {"provider": provider}))
    with folder_of_ray() as folder:
        start = ["start", "--head", "--block", "--port", port, "--num-cpus", 0, "--include-dashboard", "false"]
        command = ray_command(*start, "--temp-dir", folder, "--autoscaling-config", config)
        environment = {**os.environ, "AUTOSCALER_UPDATE_INTERVAL_S": "1", "RAY_FAKE_CLUSTER": "1", "RAY_AUTH_MODE": "disabled"}
        with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as head:
            try:
                address = wait_for(lambda: re.search(r"--address='([\d.:]+)'", head.stdout.readline()), 60)[1]
                command = [sys.executable, EXAMPLES / "ray_job.py", "--address", address, "--num-workers", 2]
                command += ["--storage-path", tmp_path / "results"]
                done = subprocess.run(list(map(str, command)), capture_output=True, text=True, timeout=240)
                assert done.returncode == 0 and "y = 3.00 x + -1.00" in done.stdout, done.stdout + done.stderr
                assert "waiting for Ray to give 2 × {CPU: 1} (SPREAD)" in done.stderr
            finally:
                head.terminate()
                head.communicate(timeout=60)
                end(mark, folder)
