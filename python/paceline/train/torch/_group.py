"""A worker's torch.distributed process group, and the variables that programs look for."""

import contextlib
import datetime
import os
import socket
import weakref

import torch
import torch.distributed as dist

# Before there is a group: default arguments in it keep the one that is there when something imports it first, as
# DistributedDataParallel does, and its threads abort a Python that ends (pytorch/pytorch#190489).
import torch.distributed.nn  # noqa: F401
from torch.optim.optimizer import register_optimizer_step_post_hook

from paceline._native import native


def joined(torch_config, store=None):
    """The context in which the train loop has its group: in a worker that of this generation, over `store`; without a
    store, in the driver's own process, torchrun's, one for itself alone, or the one that is there already."""
    return _joined_without_workers(torch_config) if store is None else _joined_over(store, torch_config)


@contextlib.contextmanager
def _joined_over(store, torch_config):
    from paceline.train.torch import _watched_groups

    context = native.get_context()
    device = torch.device(native.get_device())
    rank = context.get_world_rank()
    address, interface, master = native.group_place()
    port = _master_port(store, rank, address)
    os.environ.update(_variables(context, device, master, port, interface))
    if "nccl" in _backend(torch_config, device):
        if not {"TORCH_NCCL_ASYNC_ERROR_HANDLING", "TORCH_NCCL_BLOCKING_WAIT"} & os.environ.keys():
            os.environ["TORCH_NCCL_ASYNC_ERROR_HANDLING"] = "1"
    if device.type == "cuda":
        torch.cuda.set_device(device)
    _watched_groups.watch()
    _init(torch_config, store, rank, context.get_world_size())
    with _steps_counted():
        yield


@contextlib.contextmanager
def _steps_counted():
    """Steps of optimizers count as the loop's, where no loader counts: of several, as in a GAN, a step is over when one
    steps again."""
    stepped = weakref.WeakSet()

    def on_step(optimizer, *_):
        if torch.compiler.is_compiling():  # a compiled step has no Python in it
            return
        if not stepped or optimizer in stepped:
            stepped.clear()
            native.count_step()
        stepped.add(optimizer)

    handle = register_optimizer_step_post_hook(on_step)
    try:
        yield
    finally:
        handle.remove()


@contextlib.contextmanager
def _joined_without_workers(torch_config):
    if dist.is_initialized():
        yield
        return
    context = native.get_context()
    rank, world_size = context.get_world_rank(), context.get_world_size()
    if world_size > 1:  # the session's own group has met at this store before
        address, port = os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])
        start = os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")
        store = dist.PrefixStore(f"paceline/python_{start}", dist.TCPStore(address, port, is_master=False))
    else:
        store = dist.HashStore()
    _init(torch_config, store, rank, world_size)
    try:
        yield
    finally:
        dist.destroy_process_group()


def _init(torch_config, store, rank, world_size):
    import paceline.comm  # noqa: F401  its backend

    timeout = datetime.timedelta(seconds=torch_config.get("timeout_s", 1800))
    backend = _backend(torch_config, torch.device(native.get_device()))
    dist.init_process_group(backend, store=store, rank=rank, world_size=world_size, timeout=timeout)


def _backend(torch_config, device):
    chosen = torch_config.get("backend") or native.default_backend(str(device))
    # Of one for each kind of device a CPU build of torch could not make them all.
    return native.backend_for(chosen, "cpu") if device.type == "cpu" else chosen


def _variables(context, device, master, master_port, interface):
    given = os.environ.get
    variables = {
        "RANK": str(context.get_world_rank()),
        "WORLD_SIZE": str(context.get_world_size()),
        "LOCAL_RANK": str(context.get_local_rank()),
        "LOCAL_WORLD_SIZE": str(context.get_local_world_size()),
        "NODE_RANK": str(context.get_node_rank()),
        "MASTER_ADDR": master,
        "MASTER_PORT": master_port,
        "ACCELERATE_TORCH_DEVICE": str(device),
        # Connections of ranks on one machine stay on it.
        "GLOO_SOCKET_IFNAME": given("GLOO_SOCKET_IFNAME", interface),
        "NCCL_SOCKET_IFNAME": given("NCCL_SOCKET_IFNAME", interface),
        # For what this worker starts, and for libraries that would share the machine's cores out themselves.
        "OMP_NUM_THREADS": given("OMP_NUM_THREADS", str(torch.get_num_threads())),
    }
    if device.type == "cpu":
        variables["ACCELERATE_USE_CPU"] = given("ACCELERATE_USE_CPU", "true")  # else it looks for GPUs, or is alone
    return variables


def _master_port(store, rank, address):
    """For programs that make a TCPStore of their own: free when rank 0 looked."""
    if rank == 0:
        family = socket.AF_INET6 if ":" in address else socket.AF_INET
        with socket.socket(family) as probe:
            probe.bind((address, 0))
            store.set("master_port", str(probe.getsockname()[1]))
    return store.get("master_port").decode()
