"""The warm process that workers are forked from: `python -m paceline._warm '["torch", …]'`, started by the guardian.

It imports torch and what the driver has imported, once. It has one thread whenever it forks: if an import starts
threads or opens a GPU, it begins again without that import, since CUDA cannot be used in a fork of a process that has
used it. While nobody waits, it imports what only some workers need; meanwhile a fork of it serves in its place. Workers
share its memory as long as they do not write to it.
"""

import os

# numpy's OpenBLAS and Arrow's jemalloc start threads when they are loaded, unless they are told not to. A module that asks
# torch.cuda.is_available() shall be answered without CUDA.
os.environ.update(
    OPENBLAS_NUM_THREADS="1", JE_ARROW_MALLOC_CONF="background_thread:false", PYTORCH_NVML_BASED_CUDA_CHECK="1"
)

import gc  # noqa: E402

gc.disable()  # while it imports: what is there stays, and looking at it again and again takes a tenth of the time

import importlib  # noqa: E402
import json  # noqa: E402
import sys  # noqa: E402
import weakref  # noqa: E402

from paceline import _random_state  # noqa: E402


def _threads() -> int:
    """Those that do not block every signal: jemalloc's housekeeping inside libarrow does."""
    count = 0
    for task in os.listdir("/proc/self/task"):
        with open(f"/proc/self/task/{task}/status") as status:
            blocked = next(line for line in status if line.startswith("SigBlk:")).split()[1]
        count += int(blocked, 16) & 0x3FFFFFFF != 0x3FFFFFFF
    return count


def _has_opened_a_gpu(folder="/proc/self/fd"):
    """Whether CUDA has begun in this process. That NVML only counts the GPUs does not open this one."""
    for name in os.listdir(folder):
        try:
            if os.readlink(os.path.join(folder, name)) == "/dev/nvidia-uvm":
                return True
        except OSError:
            pass  # of the listing itself
    return False


def _import(modules, without):
    """Begins again, without the module that has started a thread or opened a GPU."""
    left_out = set(without)
    for name in modules:
        if name in sys.modules or not left_out.isdisjoint((name, name.partition(".")[0])):
            continue
        try:
            importlib.import_module(name)
        except BaseException:
            left_out.add(name)  # the worker that imports it will say why
        if _threads() > 1 or _has_opened_a_gpu():
            os.execv(sys.executable, [sys.executable, "-m", "paceline._warm", json.dumps(modules), *without, name])


def _idle():
    # What torch.nn.parallel.DistributedDataParallel() would import in each worker.
    gc.disable()
    try:
        import torch._dynamo  # noqa: F401
    except Exception:
        pass
    _settle()


def _settle():
    """What is there belongs to this process: workers neither collect it nor finalize it when they end."""
    for finalizer in list(weakref.finalize._registry.values()):
        finalizer.atexit = False
    _random_state.find()
    gc.freeze()
    gc.enable()


def main():
    _random_state.watch()
    import torch  # noqa: F401

    _random_state.watch_torch()
    import torch.distributed  # noqa: F401
    import torch.nn.parallel  # noqa: F401

    import paceline.train.torch  # noqa: F401
    from paceline import _worker
    from paceline._native import native

    _import(json.loads(sys.argv[1]), sys.argv[2:])
    _settle()
    environment = native.serve_forks(os.fork, _idle)
    if environment is None:
        return
    _become_worker(environment)
    _worker.main()


def _become_worker(environment):
    os.environ.clear()
    os.environ.update(environment)
    _random_state.renew()


if __name__ == "__main__":
    main()
