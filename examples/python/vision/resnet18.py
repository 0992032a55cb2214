"""ResNet-18 as torchvision defines it: the same layers, parameter names and initial distribution."""

import torch
from torch import nn
from torch.nn import functional


class Convolution(nn.Conv2d):
    """A 3×3 convolution padded by 1.

    Where each pixel of its output sees the whole image, as it does on the last two stages of a 28×28 image, it is a
    linear layer of one part of the kernel for each: the same numbers, but more than half of the whole training step
    where oneDNN has no AVX-512, for then it is slow on such small images.
    """

    def __init__(self, in_channels: int, out_channels: int, stride: int):
        super().__init__(in_channels, out_channels, kernel_size=3, stride=stride, padding=1, bias=False)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        height, width = images.shape[2:]
        if height > 2 or width > 2:
            return super().forward(images)
        stride = self.stride[0]
        rows, columns = range(0, height, stride), range(0, width, stride)
        parts = [self.weight[:, :, 1 - y : 1 - y + height, 1 - x : 1 - x + width].flatten(1) for y in rows for x in columns]
        kernel = torch.stack(parts, 1).flatten(0, 1)  # out_channels·pixels × in_channels·pixels
        return functional.linear(images.flatten(1), kernel).view(len(images), -1, len(rows), len(columns))


class BasicBlock(nn.Module):
    """Two 3×3 convolutions beside a shortcut, which is a 1×1 convolution where the shape changes."""

    def __init__(self, in_channels: int, out_channels: int, stride: int):
        super().__init__()
        self.conv1 = Convolution(in_channels, out_channels, stride)
        self.bn1 = nn.BatchNorm2d(out_channels)
        self.conv2 = Convolution(out_channels, out_channels, 1)
        self.bn2 = nn.BatchNorm2d(out_channels)
        self.downsample = None
        if stride != 1 or in_channels != out_channels:
            shortcut = nn.Conv2d(in_channels, out_channels, kernel_size=1, stride=stride, bias=False)
            self.downsample = nn.Sequential(shortcut, nn.BatchNorm2d(out_channels))

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        output = self.bn1(self.conv1(images)).relu_()
        output = self.bn2(self.conv2(output))
        output += images if self.downsample is None else self.downsample(images)
        return output.relu_()


class ResNet18(nn.Module):
    """He et al., "Deep Residual Learning for Image Recognition" (2015), the 18-layer network: 11.2 million parameters.

    Args:
        num_classes: Of the images.
        in_channels: 1 for grey images, 3 for colours.

    Example:
        >>> logits = ResNet18(num_classes=10)(torch.randn(64, 1, 28, 28))   # [64, 10]
    """

    def __init__(self, num_classes: int, in_channels: int = 1):
        super().__init__()
        self.conv1 = nn.Conv2d(in_channels, 64, kernel_size=7, stride=2, padding=3, bias=False)
        self.bn1 = nn.BatchNorm2d(64)
        self.layer1 = nn.Sequential(BasicBlock(64, 64, 1), BasicBlock(64, 64, 1))
        self.layer2 = nn.Sequential(BasicBlock(64, 128, 2), BasicBlock(128, 128, 1))
        self.layer3 = nn.Sequential(BasicBlock(128, 256, 2), BasicBlock(256, 256, 1))
        self.layer4 = nn.Sequential(BasicBlock(256, 512, 2), BasicBlock(512, 512, 1))
        self.fc = nn.Linear(512, num_classes)
        for module in self.modules():
            if isinstance(module, nn.Conv2d):
                nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")
        # CPUs are faster with the channels of a pixel side by side; DDP wants gradients to lie as their weights do.
        self.to(memory_format=torch.channels_last)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        """``images``: [batch, in_channels, height, width] float32. Returns logits [batch, num_classes]."""
        images = self.conv1(images).contiguous(memory_format=torch.channels_last)
        images = self.bn1(images).relu_()
        images = functional.max_pool2d(images, kernel_size=3, stride=2, padding=1)
        images = self.layer4(self.layer3(self.layer2(self.layer1(images))))
        return self.fc(images.mean((2, 3)))
