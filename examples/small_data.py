"""Small data for the tests of examples, in the formats of the real."""

import pathlib
import random


def make_photographs(folder: pathlib.Path) -> None:
    """Puts 48 photographs to train on and 40 to test with into `folder`, as CIFAR-10 does; each label has its colour."""
    numbers = random.Random(1)
    colours = [[numbers.randrange(256) for _ in range(3)] for _ in range(10)]
    (folder / "cifar-10-batches-bin").mkdir(parents=True)
    for name, count in [*((f"data_batch_{number}.bin", 10) for number in range(1, 5)), ("data_batch_5.bin", 8),
                        ("test_batch.bin", 40)]:
        content = bytearray()
        for i in range(count):
            content.append(i % 10)
            for plane in colours[i % 10]:
                content += bytes(min(255, max(0, plane + numbers.randrange(-40, 40))) for _ in range(1024))
        (folder / "cifar-10-batches-bin" / name).write_bytes(content)


def take_digits(source: pathlib.Path, folder: pathlib.Path, train: int, test: int = 10_000) -> None:
    """Gives `folder` the first MNIST digits of `source` as if they were all. IDX: a magic number, the count, the rest."""
    folder.mkdir()
    for prefix, count in (("train", train), ("t10k", test)):
        for name, header, size in ((f"{prefix}-images-idx3-ubyte", 16, 28 * 28), (f"{prefix}-labels-idx1-ubyte", 8, 1)):
            whole = (source / name).read_bytes()
            (folder / name).write_bytes(whole[:4] + count.to_bytes(4, "big") + whole[8 : header + count * size])
