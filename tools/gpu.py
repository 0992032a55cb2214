#!/usr/bin/env python3
"""Says which GPU PyTorch sees, or why it sees none: what tests, benchmarks and `make test-gpu` tell their users.

    .venv/bin/python tools/gpu.py       # exit code 1 without a GPU
"""
import sys


def missing() -> str:
    """Why nothing can be run on a GPU; "" when it can."""
    import torch

    if torch.version.cuda is None:
        return f"no CUDA device: torch {torch.__version__} was built without CUDA"
    if not torch.cuda.is_available():
        return (f"no CUDA device: torch {torch.__version__} sees none; `nvidia-smi -L` and CUDA_VISIBLE_DEVICES tell "
                "which there are")
    return ""


def description() -> str:
    """One line: the GPUs, their memory, torch and its CUDA."""
    import torch

    devices = [torch.cuda.get_device_properties(device) for device in range(torch.cuda.device_count())]
    names = ", ".join(f"{device.name} with {device.total_memory / 2**30:.0f} GiB" for device in devices)
    return f"{names}; torch {torch.__version__}, CUDA {torch.version.cuda}"


if __name__ == "__main__":
    print(missing() or description())
    sys.exit(1 if missing() else 0)
