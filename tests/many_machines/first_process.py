"""The first process of a machine (network.py), in namespaces of its own: gives the machine its name and its disk, and
takes in processes that have lost their parents. It ends when standard input does, and all processes of the machine with it.

Usage: first_process.py NAME DISK DISK_BYTES
"""

import os
import signal
import socket
import subprocess
import sys


def reap(*_):
    try:
        while os.waitpid(-1, os.WNOHANG)[0] > 0:
            pass
    except ChildProcessError:
        pass


name, disk, disk_bytes = sys.argv[1:]
socket.sethostname(name)
subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={disk_bytes}", "tmpfs", disk], check=True)
subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
signal.signal(signal.SIGCHLD, reap)
reap()
print("ready", flush=True)
sys.stdin.read()
