"""Prints how torchrun's own parser reads command lines, as JSON, for run_flags_test.cpp to compare with."""

import contextlib
import io
import json
import os

from torch.distributed import run

CASES = [
    "train.py",
    "--nproc-per-node 2 train.py --lr 0.1",
    "--nproc_per_node=2 train.py --nproc_per_node=3",
    "--nproc_per_node=2 --nnodes=1 --standalone train.py",
    "--nnodes 2 --node-rank 1 --master-addr 10.0.0.1 --master-port 29501 --nproc-per-node 8 train.py",
    "--nnodes=1:4 --nproc_per_node=2 --rdzv-id=job --rdzv-backend=c10d --rdzv-endpoint=node0:29400 train.py",
    "--nnodes 3 --local-addr 10.0.0.7 --rdzv_endpoint node0:7 train.py",
    "--standalone --nproc-per-node=4 --max-restarts=3 -m my.module -m x",
    "--no-python --nproc_per_node 8 ./my_program -n 3",
    "--no_python -- ./my_program -- --flag",
    "--rdzv-backend=c10d --rdzv-endpoint=localhost:0 --rdzv_id=job7 train.py",
    "--master_addr 127.0.0.1 --master_port 29501 train.py",
    "--role trainer --virtual-local-rank --monitor-interval 2.5 train.py a b",
    "-r 3 -t 0:1 --log-dir /tmp/x train.py",
    "-r3 -t=1 train.py",
    "--redirects=3 --tee 3 --local-ranks-filter 0 train.py",
    "--start-method fork --signals-to-handle SIGTERM,SIGUSR1 --shutdown-timeout 5 train.py",
    "--node-rank 0 --local-addr 127.0.0.1 --rdzv-conf timeout=5 train.py",
    "--run-path /tmp/train.py --epochs=1",
    "--standal train.py",
    # Refused.
    "",
    "--nproc-per-node",
    "--unknown train.py",
    "--standalone=1 train.py",
    "--max-restarts x train.py",
    "--start-method sideways train.py",
    "--role",
]
VARIABLES = {"PET_NPROC_PER_NODE": "3", "PET_MAX_RESTARTS": "2", "PET_STANDALONE": "1", "PET_VIRTUAL_LOCAL_RANK": "0"}
OF_NODES = {"PET_NNODES": "4", "PET_NODE_RANK": "3", "PET_MASTER_ADDR": "10.0.0.1"}


def parse(arguments):
    try:
        with contextlib.redirect_stderr(io.StringIO()):
            parsed = run.parse_args(arguments)
    except SystemExit:
        return None
    return {
        "nproc": parsed.nproc_per_node,
        "max_restarts": parsed.max_restarts,
        "module": parsed.module,
        "no_python": parsed.no_python,
        "role": parsed.role,
        "rdzv_id": parsed.rdzv_id,
        "master_addr": parsed.master_addr,
        "master_port": parsed.master_port or 0,
        "nnodes": parsed.nnodes,
        "node_rank": parsed.node_rank,
        "rdzv_endpoint": parsed.rdzv_endpoint,
        "local_addr": parsed.local_addr or "",
        "virtual_local_rank": parsed.virtual_local_rank,
        "words": [parsed.training_script, *parsed.training_script_args],
    }


results = [{"arguments": case.split(), "variables": {}, "torchrun": parse(case.split())} for case in CASES]
for variables, cases in [
    (VARIABLES, ["train.py", "--nproc-per-node 2 train.py"]),
    (OF_NODES, ["train.py", "--nnodes 5 train.py"]),
]:
    for name in VARIABLES:
        os.environ.pop(name, None)
    os.environ.update(variables)
    for case in cases:
        results.append({"arguments": case.split(), "variables": variables, "torchrun": parse(case.split())})
print(json.dumps(results))
