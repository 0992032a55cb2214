"""Checkpoints that are dictionaries: what comes back as it was, what is pickled, what is refused."""

import collections
import enum
import gc
import json
import math
import os
import subprocess
import threading

import numpy
import pytest
import torch

import paceline
import paceline.train as train
from paceline.train import Checkpoint, CheckpointUploadMode, ScalingConfig
from paceline.train.torch import TorchTrainer, prepare_model


def there_and_back(data, **how):
    back = Checkpoint.from_dict(data).to_dict(**how)
    for key in ("_timestamp", "_current_checkpoint_id", "_preprocessor"):
        back.pop(key)
    return back


def assert_same(back, value):
    """Equal, and of the same types, with tensors bit for bit."""
    assert type(back) is type(value)
    if isinstance(value, torch.Tensor):
        assert back.dtype == value.dtype and back.shape == value.shape
        one, other = (tensor.resolve_conj().contiguous().flatten().view(torch.uint8) for tensor in (back, value))
        assert torch.equal(one, other)
    elif isinstance(value, dict):
        assert list(back) == list(value)
        for key in value:
            assert_same(back[key], value[key])
    elif isinstance(value, (list, tuple)):
        assert len(back) == len(value)
        for one, other in zip(back, value):
            assert_same(one, other)
    else:
        assert back == value


def test_plain_values_come_back_as_they_were():
    data = {
        "none": None, "true": True, "int": 2**70, "float": 0.1, "infinite": -math.inf, "text": "ä\udcff", "list": [1, [2.0]],
        "tuple": (1, ("a", ())), "empty": {}, "nothing": [], "keys": {0: "a", True: 1, (1, 2): None, "$odd": 1, 2.5: {}},
        "ordered": collections.OrderedDict(b=1, a=(2,)), "counter": collections.Counter({30: 1, 60: 2}), "a/b": {"$tensor": 1},
    }  # fmt: skip
    assert_same(there_and_back(data), data)
    assert math.isnan(there_and_back({"nan": math.nan})["nan"])


def test_tensors_of_every_dtype_and_shape_come_back_bit_for_bit():
    data = {str(dtype): torch.arange(6).to(dtype).reshape(2, 3) for dtype in (
        torch.bool, torch.uint8, torch.int8, torch.int16, torch.uint16, torch.int32, torch.uint32, torch.int64, torch.uint64,
        torch.float16, torch.bfloat16, torch.float32, torch.float64, torch.complex64, torch.float8_e4m3fn,
    )}  # fmt: skip
    data |= {"scalar": torch.tensor(3.5), "none": torch.empty(0, 4), "strided": torch.arange(12.0).reshape(3, 4).t(),
             "every second": torch.arange(9)[::2], "conjugate": torch.tensor([1 + 2j]).conj()}  # fmt: skip
    assert_same(there_and_back(data), data)
    back = there_and_back({"weights": [{"a": torch.nn.Parameter(torch.ones(2))}]})["weights"][0]["a"]
    back += 1  # not a view of a file that must not change
    assert type(back) is torch.Tensor and back.tolist() == [2, 2]


def test_tied_tensors_are_stored_once_and_overlapping_ones_each():
    whole = torch.arange(1000.0)
    checkpoint = Checkpoint.from_dict({"a": whole, "b": whole.view(1000), "part": whole[10:20], "a/b": {"c": whole.t()}})
    back = checkpoint.to_dict()
    assert back["a"] is back["b"] and back["part"].tolist() == list(range(10, 20))
    with checkpoint.as_directory() as folder:
        assert os.path.getsize(os.path.join(folder, "dict_checkpoint.safetensors")) < 5000


def test_names_with_slashes_do_not_collide():
    data = {"a": {"b": torch.zeros(1)}, "a/b": torch.ones(1), 1: torch.ones(2), "1": torch.zeros(2)}
    assert_same(there_and_back(data), data)


def test_numpys_arrays_and_numbers_come_back():
    state = numpy.random.RandomState(7).get_state()
    back = there_and_back({"state": state, "f": numpy.float32(0.5), "d": numpy.float64(2), "b": numpy.array([[True]])})
    assert isinstance(back["state"], tuple) and (back["state"][1] == state[1]).all() and back["state"][1].dtype == "uint32"
    assert type(back["f"]) is numpy.float32 and back["f"] == 0.5 and type(back["d"]) is numpy.float64
    assert back["b"].tolist() == [[True]]


def test_models_and_optimizers_go_on_from_their_state_dicts():
    def steps(model, optimizer, scheduler, count):
        for step in range(count):
            optimizer.zero_grad()
            model(torch.full((4, 3), float(step))).square().sum().backward()
            optimizer.step()
            scheduler.step()

    def make():
        torch.manual_seed(0)
        model = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.BatchNorm1d(4), torch.nn.Linear(4, 1))
        optimizer = torch.optim.Adam(model.parameters(), 0.1, amsgrad=True)
        return model, optimizer, torch.optim.lr_scheduler.MultiStepLR(optimizer, [2, 4])

    straight = make()
    steps(*straight, 6)
    first = make()
    steps(*first, 3)
    back = Checkpoint.from_dict({"states": [part.state_dict() for part in first]}).to_dict()
    second = make()
    for part, state in zip(second, back["states"]):
        part.load_state_dict(state)
    assert back["states"][0]._metadata == first[0].state_dict()._metadata
    for step in range(3, 6):
        second[1].zero_grad()
        second[0](torch.full((4, 3), float(step))).square().sum().backward()
        second[1].step()
        second[2].step()
    assert_same(second[0].state_dict(), straight[0].state_dict())


class Color(enum.Enum):
    RED = 1


def test_what_is_pickled_is_named_and_read_only_when_allowed():
    checkpoint = Checkpoint.from_dict({"fine": 1, "nested": [{"color": Color.RED}], "model": torch.nn.Linear(1, 1)})
    with pytest.raises(ValueError, match=r"data\['nested'\]\[0\]\['color'\] \(a .*Color\), data\['model'\].*allow_pickle=True"):
        checkpoint.to_dict()
    back = checkpoint.to_dict(allow_pickle=True)
    assert back["nested"] == [{"color": Color.RED}] and isinstance(back["model"], torch.nn.Linear)


def test_nothing_is_unpickled_unless_it_is_allowed(tmp_path):
    class Trap:
        def __reduce__(self):
            return (os.mkdir, (str(tmp_path / "sprung"),))

    checkpoint = Checkpoint.from_dict({"keys": {1: Trap()}})
    with pytest.raises(ValueError, match=r"data\['keys'\]\[1\]"):
        checkpoint.to_dict()
    assert not (tmp_path / "sprung").exists()
    checkpoint.to_dict(allow_pickle=True)
    assert (tmp_path / "sprung").exists()


def test_what_cannot_be_kept_is_named():
    with pytest.raises(TypeError, match=r"data\['a'\]\[0\]\['lock'\], a lock, cannot be kept"):
        Checkpoint.from_dict({"a": [{"lock": threading.Lock()}]})
    with pytest.raises(TypeError, match="takes a dict; this is of type list"):
        Checkpoint.from_dict([1])


def test_a_shard_of_a_tensor_is_refused(run_config):
    def loop():
        model = prepare_model(torch.nn.Linear(4, 4), parallel_strategy="fsdp")
        with pytest.raises(TypeError) as caught:
            Checkpoint.from_dict({"model": model.state_dict()})
        return str(caught.value)

    scaling = ScalingConfig(num_workers=2)
    said = TorchTrainer(loop, scaling_config=scaling, run_config=run_config()).fit().return_value
    assert "data['model']['weight'] is of type DTensor" in said and "full_tensor()" in said


def test_a_folder_of_files_is_no_dictionary(tmp_path):
    with pytest.raises(ValueError, match="as_directory"):
        Checkpoint.from_directory(tmp_path).to_dict()


def test_a_later_version_is_refused():
    checkpoint = Checkpoint.from_dict({})
    with checkpoint.as_directory() as folder, open(os.path.join(folder, "dict_checkpoint.json"), "w") as file:
        json.dump({"version": 2, "entries": {}}, file)
    with pytest.raises(ValueError, match="version 2"):
        checkpoint.to_dict()


def test_the_folder_goes_with_the_object():
    checkpoint = Checkpoint.from_dict({"a": 1})
    folder = checkpoint.path
    assert os.path.isdir(folder)
    del checkpoint
    gc.collect()
    assert not os.path.exists(folder)


def test_a_run_keeps_dictionaries_and_goes_on_from_them(run_config, tmp_path):
    def loop():
        start = 0
        if checkpoint := train.get_checkpoint():
            start = checkpoint.to_dict()["epoch"] + 1
        model = prepare_model(torch.nn.Linear(2, 2))
        for epoch in range(start, 3):
            data = {"model": model.state_dict(), "epoch": epoch}
            if epoch == 1:
                data["class"] = torch.nn.ReLU()
            asynchronous = {"checkpoint_upload_mode": CheckpointUploadMode.ASYNC} if epoch == 2 else {}
            train.report({"epoch": epoch}, checkpoint=Checkpoint.from_dict(data), **asynchronous)

    def fit(**more):
        settings = run_config(worker_runtime_env={"env_vars": {"TMPDIR": str(tmp_path / "scratch")}})
        return TorchTrainer(loop, scaling_config=ScalingConfig(num_workers=2), run_config=settings, **more).fit()

    (tmp_path / "scratch").mkdir()
    result = fit()
    data = result.checkpoint.to_dict()
    assert data["epoch"] == 2 and data["_current_checkpoint_id"] == 3 and data["_preprocessor"] is None
    torch.nn.Linear(2, 2).load_state_dict(data["model"])  # without DDP's prefix
    manifests = [json.load(open(os.path.join(checkpoint.path, "paceline_manifest.json"))) for checkpoint, _ in result.best_checkpoints]
    assert data["_timestamp"] == int(manifests[-1]["time"])
    assert ["dict_checkpoint.pickle" in manifest["files"] for manifest in manifests] == [False, True, False]
    exported = str(tmp_path / "model.pt")
    program = os.path.join(os.path.dirname(paceline.__file__), "bin/paceline")
    subprocess.run([program, "checkpoint", "export", result.checkpoint.path, "-o", exported], check=True, timeout=60)
    weights = torch.load(exported, weights_only=True)
    assert_same(dict(sorted(weights.items())), dict(sorted(data["model"].items())))
    resumed = fit(resume_from_checkpoint=Checkpoint.from_dict({"epoch": 1}))
    assert [metrics["epoch"] for _, metrics in resumed.best_checkpoints] == [2]
    assert not any((tmp_path / "scratch").glob("paceline_checkpoint_*"))


def test_of_a_failed_attempt_no_folder_is_left(run_config, tmp_path):
    def loop():
        def upload(checkpoint, dir_name):
            raise OSError("the bucket is gone")

        data = {"checkpoint": Checkpoint.from_dict({"a": 1}), "checkpoint_upload_fn": upload}
        train.report({}, checkpoint_upload_mode=CheckpointUploadMode.ASYNC, **data)
        while True:
            train.collective.barrier()

    (tmp_path / "scratch").mkdir()
    settings = run_config(worker_runtime_env={"env_vars": {"TMPDIR": str(tmp_path / "scratch")}})
    with pytest.raises(train.WorkerGroupError, match="the bucket is gone"):
        TorchTrainer(loop, scaling_config=ScalingConfig(num_workers=1), run_config=settings).fit()
    assert not any((tmp_path / "scratch").glob("paceline_checkpoint_*"))


def test_what_ray_train_has_removed_says_what_to_use():
    with pytest.raises(AttributeError, match=r"from_uri.*Checkpoint\(uri\)"):
        Checkpoint.from_uri("s3://bucket/path")
    checkpoint = Checkpoint.from_dict({})
    for name in ("to_uri", "to_bytes", "get_preprocessor"):
        assert not hasattr(checkpoint, name)
        with pytest.raises(AttributeError, match=f"{name} does not exist: (use|see) "):
            getattr(checkpoint, name)
    assert checkpoint.filesystem.type_name == "local"
    assert Checkpoint(checkpoint.path, filesystem=checkpoint.filesystem) == checkpoint


def test_a_model_is_loaded_strictly_or_not(tmp_path):
    def loop():
        torch.manual_seed(1)
        model = torch.nn.Sequential(torch.nn.Linear(2, 3), torch.nn.BatchNorm1d(3))
        train.report({}, checkpoint=Checkpoint.from_dict({"model": model.state_dict(), "optimizer": {"lr": 0.1}}))
        train.report({}, checkpoint=Checkpoint.from_dict({"epoch": 1}))

    run = train.RunConfig(storage_path=str(tmp_path))
    result = TorchTrainer(loop, scaling_config=ScalingConfig(num_workers=0), run_config=run).fit()
    (checkpoint, _), (without_model, _) = result.best_checkpoints
    model = torch.nn.Sequential(torch.nn.Linear(2, 3), torch.nn.BatchNorm1d(3))
    loaded = checkpoint.load(model)
    assert (loaded.missing_keys, loaded.unexpected_keys) == ([], [])
    for name, tensor in checkpoint.to_dict()["model"].items():
        assert_same(model.state_dict()[name], tensor)

    other = torch.nn.Sequential(torch.nn.Linear(2, 3), torch.nn.Identity(), torch.nn.Linear(3, 1))
    with pytest.raises(RuntimeError, match="Missing key.*2.weight"):
        checkpoint.load(other)
    loaded = checkpoint.load(other, strict=False)
    assert loaded.missing_keys == ["2.weight", "2.bias"]
    assert loaded.unexpected_keys == sorted(f"1.{name}" for name in model[1].state_dict())
    assert torch.equal(other[0].weight, model[0].weight)
    with pytest.raises(ValueError, match='has no "model"'):
        without_model.load(other)
