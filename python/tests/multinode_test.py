"""Programs for torchrun on two nodes, which are two `paceline run` processes of this machine."""

import pathlib
import subprocess
import sys

import pytest
from example_programs import ENVIRONMENT, EXAMPLES, PACELINE_RUN, run

PROGRAM = [sys.executable, "-m", "paceline", "run"]


def on_two_nodes(folder, command, **variables):
    """Runs the command on two nodes, the second first; gives what each has said. `{rank}` in it is the node's."""
    nodes = []
    for rank in (1, 0):
        own = folder / f"node_{rank}"
        own.mkdir()
        environment = {
            **ENVIRONMENT,
            "HOME": str(folder),
            "PACELINE_STATE_DIR": str(own / "state"),
            **{name: str(value).format(rank=rank) for name, value in variables.items()},
        }
        words = [str(word).format(rank=rank) for word in command]
        nodes.append(
            subprocess.Popen(words, cwd=own, env=environment, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        )
    said = [node.communicate() for node in nodes]
    assert [node.returncode for node in nodes] == [0, 0], said
    return {"first": said[1], "second": said[0]}


def epochs(text):
    return [line for line in text.splitlines() if line.startswith("epoch")]


@pytest.fixture(scope="module")
def on_one_node(tmp_path_factory):
    """What vanilla_ddp.py says of its epochs with two ranks on one node."""
    return epochs(run(tmp_path_factory.mktemp("one"), "vanilla_ddp.py", "--epochs", 2, launcher=PACELINE_RUN))


def test_two_nodes_compute_what_one_does(tmp_path, on_one_node):
    flags = ["--storage-path", "results", "--nnodes", "2", "--node-rank", "{rank}", "--master-port", "0"]
    said = on_two_nodes(tmp_path, [*PROGRAM, *flags, EXAMPLES / "vanilla_ddp.py", "--epochs", "2"])
    assert len(on_one_node) == 2 and epochs(said["first"][0]) == on_one_node
    assert "has joined a run" in said["second"][1] and not said["second"][0]


def test_torchruns_script_launches_on_several_machines(tmp_path, on_one_node):
    said = on_two_nodes(
        tmp_path,
        [EXAMPLES / "launch_multinode_ddp.sh", "--epochs", "2"],
        LAUNCHER=" ".join([*PROGRAM, "--storage-path", "results"]),
        NODE_RANK="{rank}",
        NPROC_PER_NODE="1",
        MASTER_PORT="0",
    )
    assert epochs(said["first"][0]) == on_one_node


ENDS = """
import os, signal, sys, time
import torch, torch.distributed as dist

dist.init_process_group("gloo")
if os.environ["TORCHELASTIC_RESTART_COUNT"] == "0" and dist.get_rank() == 1:
    sys.exit(5)
total = torch.ones(1)
dist.all_reduce(total)
print("total", total.item(), "interface", os.environ["GLOO_SOCKET_IFNAME"], flush=True)
dist.destroy_process_group()
"""


def test_a_rank_that_fails_on_another_node_costs_a_restart(tmp_path):
    path = pathlib.Path(tmp_path, "ends.py")
    path.write_text(ENDS)
    flags = ["--storage-path", "results", "--nnodes", "2", "--node-rank", "{rank}", "--master-port", "0"]
    said = on_two_nodes(tmp_path, [*PROGRAM, *flags, "--max-restarts", "1", path])
    assert said["first"][0].splitlines() == ["total 2.0 interface lo"] * 2
    assert "exited with code 5; trying again" in said["first"][1]
