"""Files of Paceline's are read with Python's safetensors, and the other way round.

Usage: safetensors_test.py CHECKPOINT_TEST_PROGRAM
"""

import struct
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy
import safetensors
import safetensors.numpy

program = sys.argv[1]


def ask(action, folder):
    return subprocess.run([program, "--child", action, folder], check=True, capture_output=True, text=True).stdout


def python_reads_ours(folder):
    ask("write_safetensors", folder)
    path = Path(folder) / "sample.safetensors"
    tensors = dict(safetensors.deserialize(path.read_bytes()))
    assert set(tensors) == {"mask", "weight", "brain", "step", "empty"}, tensors.keys()
    assert (tensors["brain"]["dtype"], tensors["brain"]["shape"]) == ("BF16", [2])
    assert bytes(tensors["brain"]["data"]) == struct.pack("<HH", 0x3F80, 0xC000)
    with safetensors.safe_open(path, framework="numpy") as opened:
        weight = opened.get_tensor("weight")
        assert weight.dtype == numpy.float32 and weight.tolist() == [[0, 1, 2], [3, 4, 5]]
        step = opened.get_tensor("step")
        assert step.dtype == numpy.int64 and step.shape == () and step == 1234567890123
        assert opened.get_tensor("mask").tolist() == [True, False, True]
        assert opened.get_tensor("empty").shape == (0, 4)


def we_read_pythons(folder):
    def counting(dtype, *shape):
        size = int(numpy.prod(shape)) * numpy.dtype(dtype).itemsize
        return numpy.arange(size, dtype=numpy.uint8).view(dtype).reshape(shape)

    tensors = {
        "half": counting(numpy.float16, 3),
        "double": counting(numpy.float64, 2, 2),
        "byte": counting(numpy.uint8, 5),
        "int": counting(numpy.int32, 1, 7),
        "scalar": counting(numpy.int64, 1).reshape(()),
    }
    safetensors.numpy.save_file(tensors, Path(folder) / "python.safetensors", metadata={"format": "pt"})
    lines = sorted(ask("read_safetensors", folder).splitlines())
    assert lines == ["byte U8 [5]", "double F64 [2, 2]", "half F16 [3]", "int I32 [1, 7]", "scalar I64 []"], lines


with tempfile.TemporaryDirectory() as folder:
    python_reads_ours(folder)
    we_read_pythons(folder)
