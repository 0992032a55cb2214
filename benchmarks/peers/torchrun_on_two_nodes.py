"""torchrun on two nodes, both of them this machine: `torchrun_on_two_nodes.py ARGUMENTS` for torchrun, behind the nodes' own."""

import pathlib
import socket
import subprocess
import sys

with socket.socket() as free:
    free.bind(("127.0.0.1", 0))
    port = free.getsockname()[1]
command = [pathlib.Path(sys.executable).parent / "torchrun", "--nnodes", "2", "--nproc-per-node", "1", "--local-addr", "127.0.0.1",
           "--master-addr", "127.0.0.1", "--master-port", str(port)]
nodes = [subprocess.Popen([*command, "--node-rank", str(node), *sys.argv[1:]]) for node in range(2)]
sys.exit(max(node.wait() for node in nodes))
