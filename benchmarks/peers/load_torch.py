"""The baseline of memory_beside_workers for Python: a process that only loads torch."""

import sys

import torch

print(torch.__version__, flush=True)
sys.stdin.read()
