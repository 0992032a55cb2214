"""torchrun and DistributedDataParallel as a peer: one function a row, run on every rank."""

import os

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

import workloads
from measurement import arguments, now_ns, own_megabytes, print_samples, read_rank, seconds_to_last_rank, write_rank


def startup_cpp(options) -> None:
    write_rank(options.scratch, dist.get_rank(), {"now_ns": now_ns()})
    dist.barrier()
    if dist.get_rank() == 0:
        print_samples([seconds_to_last_rank(options.scratch, int(os.environ["BENCHMARK_START_NS"]))])


def first_step_python(options) -> None:
    workloads.first_step(DistributedDataParallel(torch.nn.Linear(10, 10)))
    startup_cpp(options)


def worker_memory_python(options) -> None:
    workloads.first_step(DistributedDataParallel(torch.nn.Linear(10, 10)))
    dist.barrier()
    write_rank(options.scratch, dist.get_rank(), {"megabytes": own_megabytes()})
    dist.barrier()
    if dist.get_rank() == 0:
        print_samples([max(read_rank(options.scratch, rank)["megabytes"] for rank in range(2))])


def ddp_step_gloo(options) -> None:
    model = DistributedDataParallel(workloads.wide_model())
    milliseconds = workloads.train_wide_model(model, options.iterations)
    if dist.get_rank() == 0:
        print_samples(milliseconds)


def ddp_step_shm(options) -> None:
    model = DistributedDataParallel(workloads.wide_model(), gradient_as_bucket_view=True)
    milliseconds = workloads.train_kept_gradients(model, options.iterations)
    if dist.get_rank() == 0:
        print_samples(milliseconds)


def mnist_images(options) -> None:
    model = DistributedDataParallel(workloads.ResNet18())
    speeds = workloads.train_mnist(model, workloads.mnist_loader(options.data), options.iterations)
    if dist.get_rank() == 0:
        print_samples(speeds)


def vit_step_cpp(options) -> None:
    model = DistributedDataParallel(workloads.vision_transformer())
    milliseconds = workloads.train_vision_transformer(model, options.iterations)
    if dist.get_rank() == 0:
        print_samples(milliseconds)


def fsdp2_step_shm(options) -> None:
    milliseconds = workloads.train_wide_model(workloads.fully_sharded(), options.iterations, fused=False)
    if dist.get_rank() == 0:
        print_samples(milliseconds)


def vit_images(options) -> None:
    speeds = workloads.vision_transformer_speeds(DistributedDataParallel(workloads.vision_transformer()), options.iterations)
    if dist.get_rank() == 0:
        print_samples(speeds)


def gpu_step_resnet(options) -> None:
    model = DistributedDataParallel(workloads.ResNet18().cuda(), device_ids=[torch.cuda.current_device()])
    print_samples(workloads.train_resnet_on_gpu(model, options.iterations))


def gpu_step_vit(options) -> None:
    model = DistributedDataParallel(workloads.vision_transformer().cuda(), device_ids=[torch.cuda.current_device()])
    print_samples(workloads.train_vision_transformer_on_gpu(model, options.iterations))


ON_CPU = (startup_cpp, first_step_python, worker_memory_python, ddp_step_gloo, ddp_step_shm, fsdp2_step_shm, mnist_images, vit_images,
          vit_step_cpp)
ON_GPU = (gpu_step_resnet, gpu_step_vit)
ROWS = {row.__name__: row for row in (*ON_CPU, *ON_GPU)}

if __name__ == "__main__":
    options = arguments(ROWS)
    row = ROWS[options.row]
    if row in ON_GPU:
        torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
        dist.init_process_group("nccl")
    else:
        dist.init_process_group("gloo")
        torch.set_num_threads(1)
    row(options)
    dist.destroy_process_group()
