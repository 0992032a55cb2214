"""Exported checkpoints are read with torch.load(weights_only=True) and safetensors.

Usage: export_test.py CHECKPOINT_TEST_PROGRAM
"""

import json
import os
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

import safetensors.torch
import torch

EXPECTED = {
    "weight": torch.arange(6, dtype=torch.float32).reshape(2, 3),
    "step": torch.tensor([1234567890123]),
    "brain": torch.tensor([1, -2], dtype=torch.bfloat16),
    "half": torch.tensor([1], dtype=torch.float16),
    "mask": torch.tensor([True, False, True]),
    "double": torch.tensor([0.5], dtype=torch.float64),
    "complex": torch.tensor([1 + 2j], dtype=torch.complex64),
    "empty": torch.empty(0, 4, dtype=torch.uint8),
}


def check(tensors):
    assert set(tensors) == set(EXPECTED), tensors.keys()
    for name, expected in EXPECTED.items():
        assert tensors[name].dtype == expected.dtype, name
        assert tensors[name].shape == expected.shape and torch.equal(tensors[name], expected), (name, tensors[name])


with tempfile.TemporaryDirectory() as folder:
    subprocess.run([sys.argv[1], "--gtest_filter=ExportForPython.*"], check=True,
                   env={**os.environ, "PACELINE_EXPORT_TO": folder}, stdout=subprocess.DEVNULL)
    check(torch.load(f"{folder}/model.pt", weights_only=True))
    check(torch.load(f"{folder}/model.pt", weights_only=True, mmap=True))
    assert zipfile.ZipFile(f"{folder}/model.pt").testzip() is None, "every CRC fits"
    sharded = torch.load(f"{folder}/sharded.pt", weights_only=True)
    assert sharded["weight"].tolist() == [[0, 2], [1, 3]]
    check(safetensors.torch.load_file(f"{folder}/whole/model.safetensors"))
    with safetensors.safe_open(f"{folder}/whole/model.safetensors", framework="pt") as opened:
        assert opened.metadata() == {"format": "pt"}
    index = json.loads(Path(folder, "shards", "model.safetensors.index.json").read_text())
    together = {}
    for file in set(index["weight_map"].values()):
        together |= safetensors.torch.load_file(f"{folder}/shards/{file}")
    check(together)
