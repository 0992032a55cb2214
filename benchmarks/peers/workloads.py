"""What the peers train: the same models, batches and optimizers as Paceline's programs in benchmarks/."""

import pathlib
import sys
import time

import torch
import torch.nn.functional as F
from torch import nn

GLOBAL_BATCH_SIZE = 128
WARM_UP_STEPS = 5


class Conv3x3(nn.Conv2d):
    """Padded by 1. On images of two pixels or less a linear layer, as in examples/vision/resnet18.cpp."""

    def __init__(self, planes_in: int, planes: int, stride: int):
        super().__init__(planes_in, planes, 3, stride, 1, bias=False)

    def forward(self, images):
        height, width = images.shape[2:]
        if height > 2 or width > 2:
            return super().forward(images)
        rows, columns = range(0, height, self.stride[0]), range(0, width, self.stride[0])
        kernels = [self.weight.narrow(2, 1 - y, height).narrow(3, 1 - x, width).flatten(1) for y in rows for x in columns]
        output = F.linear(images.flatten(1), torch.stack(kernels, 1).flatten(0, 1))
        return output.view(len(images), -1, len(rows), len(columns))


class BasicBlock(nn.Module):
    def __init__(self, planes_in: int, planes: int, stride: int):
        super().__init__()
        self.conv1 = Conv3x3(planes_in, planes, stride)
        self.bn1 = nn.BatchNorm2d(planes)
        self.conv2 = Conv3x3(planes, planes, 1)
        self.bn2 = nn.BatchNorm2d(planes)
        self.downsample = None
        if stride != 1 or planes_in != planes:
            self.downsample = nn.Sequential(nn.Conv2d(planes_in, planes, 1, stride, bias=False), nn.BatchNorm2d(planes))

    def forward(self, x):
        out = self.bn2(self.conv2(F.relu(self.bn1(self.conv1(x)), inplace=True)))
        out += x if self.downsample is None else self.downsample(x)
        return F.relu(out, inplace=True)


class ResNet18(nn.Module):
    """torchvision's ResNet-18 with one input channel."""

    def __init__(self, num_classes: int = 10):
        super().__init__()
        self.conv1 = nn.Conv2d(1, 64, 7, 2, 3, bias=False)
        self.bn1 = nn.BatchNorm2d(64)
        self.maxpool = nn.MaxPool2d(3, 2, 1)
        blocks, planes_in = [], 64
        for planes, stride in ((64, 1), (128, 2), (256, 2), (512, 2)):
            blocks += [BasicBlock(planes_in, planes, stride), BasicBlock(planes, planes, 1)]
            planes_in = planes
        self.layers = nn.Sequential(*blocks)
        self.fc = nn.Linear(512, num_classes)

    def forward(self, x):
        x = self.conv1(x).contiguous(memory_format=torch.channels_last)
        x = self.layers(self.maxpool(F.relu(self.bn1(x), inplace=True)))
        return self.fc(torch.flatten(F.adaptive_avg_pool2d(x, 1), 1))


class Mnist(torch.utils.data.Dataset):
    """The training digits, whole in memory; a batch is made at once, as examples/vision/mnist.h does."""

    def __init__(self, folder: str):
        images = bytearray((pathlib.Path(folder) / "train-images-idx3-ubyte").read_bytes()[16:])
        labels = bytearray((pathlib.Path(folder) / "train-labels-idx1-ubyte").read_bytes()[8:])
        self.pixels = torch.frombuffer(images, dtype=torch.uint8).view(-1, 1, 28, 28)
        self.labels = torch.frombuffer(labels, dtype=torch.uint8).long()

    def __len__(self):
        return len(self.labels)

    def __getitems__(self, rows):
        rows = torch.tensor(rows)
        return (self.pixels[rows].float() / 255 - 0.1307) / 0.3081, self.labels[rows]


def mnist_loader(folder: str) -> torch.utils.data.DataLoader:
    """Batches of one of two ranks, read in the training thread."""
    dataset = Mnist(folder)
    sampler = torch.utils.data.DistributedSampler(dataset, drop_last=True)
    return torch.utils.data.DataLoader(dataset, GLOBAL_BATCH_SIZE // 2, sampler=sampler, drop_last=True,
                                       collate_fn=lambda batch: batch)


def train_mnist(model: nn.Module, loader, steps: int) -> list[float]:
    """Images per second of both ranks together, in windows of steps after warm-up."""
    window = max(1, min(10, steps // 2))
    optimizer = torch.optim.Adam(model.parameters(), 1e-3, fused=True)
    speeds, start = [], time.monotonic()
    for step, (images, labels) in enumerate(loader):
        loss = F.cross_entropy(model(images), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        done = step + 1 - WARM_UP_STEPS
        if done >= 0 and done % window == 0:
            now = time.monotonic()
            if done > 0:
                speeds.append(window * GLOBAL_BATCH_SIZE / (now - start))
            start = now
        if done >= steps:
            return speeds
    raise RuntimeError("the dataset is too small for so many steps")


def first_step(model: nn.Module) -> None:
    """The first step of a small model."""
    optimizer = torch.optim.SGD(model.parameters(), 0.01)
    model(torch.randn(8, 10)).sum().backward()
    optimizer.step()


def megabytes_of(*folders: pathlib.Path) -> float:
    files = (file for folder in folders for file in folder.rglob("*") if file.is_file() and "__pycache__" not in file.parts)
    return sum(file.stat().st_size for file in files) / 1e6


WIDTH = 1448
DEPTH = 10


def wide_model() -> nn.Module:
    """84 MB of float32 parameters: ten square layers."""
    layers = []
    for _ in range(DEPTH):
        layers += [nn.Linear(WIDTH, WIDTH), nn.ReLU()]
    return nn.Sequential(*layers)


def time_kept_gradients(model: nn.Module, optimizer: torch.optim.Optimizer, batch: torch.Tensor) -> float:
    """Milliseconds of forward and backward, into gradients that stay where they are. Both ranks begin together."""
    optimizer.zero_grad(set_to_none=False)
    torch.distributed.barrier()
    start = time.perf_counter()
    model(batch).square().mean().backward()
    milliseconds = (time.perf_counter() - start) * 1e3
    optimizer.step()
    return milliseconds


def train_kept_gradients(model: nn.Module, steps: int) -> list[float]:
    optimizer = torch.optim.SGD(model.parameters(), 0.01, fused=True)
    batch = torch.randn(32, WIDTH)
    return [time_kept_gradients(model, optimizer, batch) for _ in range(WARM_UP_STEPS + steps)][WARM_UP_STEPS:]


def train_wide_model(model: nn.Module, steps: int, *, fused: bool = True) -> list[float]:
    """`fused`: not with the sharded tensors of FSDP2."""
    optimizer = torch.optim.SGD(model.parameters(), 0.01, fused=fused)
    batch = torch.randn(32, WIDTH)
    return time_steps(lambda: model(batch).square().mean(), optimizer, WARM_UP_STEPS, steps)


def train_in_turns(model: nn.Module, alone: nn.Module, steps: int) -> dict[str, list[float]]:
    """Likewise of `model`, whose gradients are averaged, and of `alone`, whose are not."""
    batch = torch.randn(32, WIDTH)
    milliseconds = {"together": [], "alone": []}
    models = {"together": model, "alone": alone}
    optimizers = {name: torch.optim.SGD(one.parameters(), 0.01, fused=True) for name, one in models.items()}
    for step in range(WARM_UP_STEPS + steps):
        for name, one in models.items():
            found = time_kept_gradients(one, optimizers[name], batch)
            milliseconds[name] += [found] if step >= WARM_UP_STEPS else []
    return milliseconds


def fully_sharded() -> nn.Module:
    """wide_model() under FSDP2, each layer a unit."""
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard

    mesh = init_device_mesh("cpu", (torch.distributed.get_world_size(),))
    model = wide_model()
    for layer in model:
        if isinstance(layer, nn.Linear):
            fully_shard(layer, mesh=mesh)
    return fully_shard(model, mesh=mesh)


def vision_transformer() -> nn.Module:
    """That of examples/030_cifar10_vit, from torchvision."""
    sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "examples" / "vision"))
    from torchvision_models import VisionTransformer

    return VisionTransformer(image_size=32, patch_size=4, num_layers=12, num_heads=8, hidden_dim=384, mlp_dim=768,
                             num_classes=10)


def train_vision_transformer(model: nn.Module, steps: int) -> list[float]:
    optimizer = torch.optim.AdamW(model.parameters(), 1e-3, weight_decay=1e-2, fused=True)
    images, labels = torch.randn(16, 3, 32, 32), torch.randint(10, (16,))
    return time_steps(lambda: F.cross_entropy(model(images), labels), optimizer, 3, steps)


VIT_GLOBAL_BATCH_SIZE = 32


def vision_transformer_speeds(model: nn.Module, steps: int) -> list[float]:
    """Images per second of both ranks together."""
    return [VIT_GLOBAL_BATCH_SIZE * 1e3 / milliseconds for milliseconds in train_vision_transformer(model, steps)]


def time_steps(compute_loss, optimizer: torch.optim.Optimizer, warm_up: int, steps: int) -> list[float]:
    """Milliseconds of each step after warm-up: forward, backward with its all-reduce, optimizer."""
    milliseconds = []
    for step in range(warm_up + steps):
        start = time.monotonic()
        loss = compute_loss()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step >= warm_up:
            milliseconds.append((time.monotonic() - start) * 1e3)
    return milliseconds


def train_resnet_on_gpu(model: nn.Module, windows: int) -> list[float]:
    optimizer = torch.optim.Adam(model.parameters(), 1e-3, fused=True)
    images, labels = torch.randn(128, 1, 224, 224, device="cuda"), torch.randint(10, (128,), device="cuda")
    return time_gpu_steps(lambda: F.cross_entropy(model(images), labels), optimizer, windows)


def train_vision_transformer_on_gpu(model: nn.Module, windows: int) -> list[float]:
    optimizer = torch.optim.AdamW(model.parameters(), 1e-3, weight_decay=1e-2, fused=True)
    images, labels = torch.randn(512, 3, 32, 32, device="cuda"), torch.randint(10, (512,), device="cuda")

    def compute_loss():
        with torch.autocast("cuda", torch.bfloat16):
            return F.cross_entropy(model(images), labels)

    return time_gpu_steps(compute_loss, optimizer, windows)


def time_gpu_steps(compute_loss, optimizer: torch.optim.Optimizer, windows: int) -> list[float]:
    """Milliseconds of a step in windows of ten after the first, by the time that passes until the GPU has done all ten."""
    milliseconds, steps = [], 10
    for window in range(windows + 1):
        start = time.monotonic()
        for _ in range(steps):
            loss = compute_loss()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        torch.cuda.synchronize()
        if window > 0:
            milliseconds.append((time.monotonic() - start) * 1e3 / steps)
    return milliseconds
