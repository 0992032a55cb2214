"""Profilers of Python programs as peers: by how many percent the step of the VisionTransformer is longer while each watches."""

import contextlib
import os
import pathlib
import statistics
import subprocess
import sys
import time

import torch
import torch.nn.functional as F

import workloads
from measurement import arguments, print_samples

SECONDS = 10


@contextlib.contextmanager
def py_spy(scratch: str):
    """From outside, as `py-spy record` does unless it is told otherwise."""
    program = pathlib.Path(sys.executable).parent / "py-spy"
    recording = subprocess.Popen([program, "record", "--rate", "99", "--duration", str(2 * SECONDS), "--format", "raw",
                                  "--output", "/dev/null", "--pid", str(os.getpid())],
                                 stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    time.sleep(1)  # it looks for the interpreter first
    try:
        yield
        if recording.poll() is not None:
            raise RuntimeError(f"py-spy has ended early, with exit code {recording.returncode}")
    finally:
        recording.kill()
        recording.wait()


@contextlib.contextmanager
def memray(scratch: str):
    from memray import Tracker

    with Tracker(pathlib.Path(scratch) / f"allocations_{time.monotonic_ns()}"):
        yield


def steps_for(seconds: float, step) -> list[float]:
    """Milliseconds of each."""
    milliseconds, end = [], time.monotonic() + seconds
    while time.monotonic() < end:
        start = time.monotonic()
        step()
        milliseconds.append((time.monotonic() - start) * 1e3)
    return milliseconds


def main() -> None:
    profilers = {"py-spy": py_spy, "memray": memray}
    options = arguments(profilers)
    torch.set_num_threads(1)
    model = workloads.vision_transformer()
    optimizer = torch.optim.AdamW(model.parameters(), 1e-3, weight_decay=1e-2, fused=True)
    images, labels = torch.randn(16, 3, 32, 32), torch.randint(10, (16,))

    def step() -> None:
        loss = F.cross_entropy(model(images), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    steps_for(SECONDS / 2, step)
    longer, without = [], []
    for _ in range(options.iterations):
        without.append(statistics.median(steps_for(SECONDS, step)))
        with profilers[options.row](options.scratch):
            watched = statistics.median(steps_for(SECONDS, step))
        longer.append(max(0.0, 100 * (watched / without[-1] - 1)))
    print_samples(longer, {f"{options.row}: a step without it (ms)": statistics.median(without)})


main()
