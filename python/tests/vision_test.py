"""The models and datasets of examples/python/vision: the models are torchvision's, and those of the C++ examples."""

import signal
import subprocess
import sys

import pyarrow.parquet
import pytest
import torch
from example_programs import EXAMPLES, PROJECT
from small_data import make_photographs

sys.path[:0] = [str(EXAMPLES), str(PROJECT / "examples/vision")]

import torchvision_models  # noqa: E402
from torchvision.models import resnet18  # noqa: E402
from vision.cifar10 import Cifar10  # noqa: E402
from vision.cifar10_parquet import cifar10_parquet  # noqa: E402
from vision.mnist import Mnist  # noqa: E402
from vision.resnet18 import ResNet18  # noqa: E402
from vision.vision_transformer import VisionTransformer  # noqa: E402


def assert_same(ours, theirs, images):
    """The same parameters in the same order, logits and gradients."""
    assert list(ours.state_dict()) == list(theirs.state_dict())
    for (name, mine), (_, reference) in zip(ours.named_parameters(), theirs.named_parameters()):
        if mine.numel() >= 1000:
            assert mine.std().item() == pytest.approx(reference.std().item(), rel=0.1, abs=1e-6), name
    for parameter in theirs.parameters():  # much of a new model is zero, and zeros hide mistakes
        parameter.data += 0.1 * torch.randn_like(parameter)
    ours.load_state_dict(theirs.state_dict())
    results = []
    for model in (ours.double(), theirs.double()):
        logits = model(images.double())
        torch.nn.functional.cross_entropy(logits, torch.arange(len(images)) % 5).backward()
        results.append([logits, *(parameter.grad for parameter in model.parameters())])
    for mine, reference in zip(*results):
        torch.testing.assert_close(mine, reference)


def test_resnet18_is_torchvisions_also_on_small_images():
    torch.manual_seed(0)
    theirs = resnet18(num_classes=10)
    theirs.conv1 = torch.nn.Conv2d(1, 64, kernel_size=7, stride=2, padding=3, bias=False)
    torch.nn.init.kaiming_normal_(theirs.conv1.weight, mode="fan_out", nonlinearity="relu")
    assert_same(ResNet18(num_classes=10), theirs, torch.randn(6, 1, 28, 28))


def test_the_vision_transformer_is_torchvisions():
    torch.manual_seed(0)
    sizes = dict(image_size=16, patch_size=4, num_layers=2, num_heads=2, hidden_dim=64, mlp_dim=96, num_classes=5)
    assert_same(VisionTransformer(**sizes), torchvision_models.VisionTransformer(**sizes), torch.randn(3, 3, 16, 16))
    assert sum(parameter.numel() for parameter in VisionTransformer().parameters()) == pytest.approx(14.3e6, rel=0.01)


def test_digits_are_read_normalised_and_limited(tmp_path):
    pixels = bytes(range(256)) * 13  # more than four images take
    for prefix, count in (("train", 4), ("t10k", 2)):
        sizes = b"".join(size.to_bytes(4, "big") for size in (0x0803, count, 28, 28))
        (tmp_path / f"{prefix}-images-idx3-ubyte").write_bytes(sizes + pixels[: count * 784])
        (tmp_path / f"{prefix}-labels-idx1-ubyte").write_bytes(b"\0\0\x08\x01" + count.to_bytes(4, "big") + bytes(range(count)))
    digits = Mnist(str(tmp_path), limit=3)
    image, label = digits[2]
    assert (len(digits), len(Mnist(str(tmp_path), train=False)), label) == (3, 2, 2)
    assert image.shape == (1, 28, 28)
    assert image[0, 0, 0].item() == pytest.approx((pixels[2 * 784] / 255 - 0.1307) / 0.3081)


def test_photographs_are_read(tmp_path):
    make_photographs(tmp_path)
    photographs = Cifar10(str(tmp_path))
    image, label = photographs[13]  # the fourth of the second file
    assert (len(photographs), len(Cifar10(str(tmp_path), train=False, limit=7)), label) == (48, 7, 3)
    assert image.shape == (3, 32, 32) and -1 <= image.min() < image.max() <= 1


def test_what_a_killed_conversion_leaves_is_written_over(tmp_path):
    make_photographs(tmp_path)
    program = f"""if True:
        import os, signal, sys
        sys.path.insert(0, {str(EXAMPLES)!r})
        import pyarrow.parquet
        from vision.cifar10_parquet import cifar10_parquet

        def killed(table, path, **options):
            with open(path, "wb") as file:
                file.write(bytes(1 << 20))
            os.kill(os.getpid(), signal.SIGTERM)

        pyarrow.parquet.write_table = killed
        cifar10_parquet({str(tmp_path)!r})"""
    folder = tmp_path / "cifar-10-parquet"
    for _ in range(2):
        assert subprocess.run([sys.executable, "-c", program]).returncode == -signal.SIGTERM
        assert len(list(folder.iterdir())) == 1  # whatever number of them are killed
    path = cifar10_parquet(str(tmp_path))
    assert [str(file) for file in folder.iterdir()] == [path]
    assert pyarrow.parquet.read_table(path).num_rows == 48


@pytest.mark.parametrize("content", [b"", b"\0\0\x08\x01\0\0\0\x09\x01"], ids=["empty", "cut short"])
def test_files_that_are_not_the_data_sets_are_named(tmp_path, content):
    for name in ("train-images-idx3-ubyte", "train-labels-idx1-ubyte", "t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte"):
        (tmp_path / name).write_bytes(content)
    with pytest.raises(ValueError, match="train-images-idx3-ubyte is not an IDX file"):
        Mnist(str(tmp_path))
    make_photographs(tmp_path)
    (tmp_path / "cifar-10-batches-bin/test_batch.bin").write_bytes(content)
    with pytest.raises(ValueError, match="test_batch.bin is not a file of CIFAR-10"):
        Cifar10(str(tmp_path), train=False)
