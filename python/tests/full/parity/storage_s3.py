"""Runs on S3, by URI and by a file system of pyarrow's with keys; paths and file systems that fit together."""

import logging
import os
import tempfile

import boto3
import pyarrow.fs
from moto.server import ThreadedMotoServer

import ray.train
from ray.train import Checkpoint, CheckpointConfig, Result, RunConfig, ScalingConfig
from ray.train.torch import TorchTrainer

outcome = {}


def train_func():
    rank = ray.train.get_context().get_world_rank()
    for step in range(3):
        with tempfile.TemporaryDirectory() as folder:
            with open(os.path.join(folder, f"rank_{rank}"), "w") as file:
                file.write(f"step {step}")
            ray.train.report({"step": step}, checkpoint=Checkpoint.from_directory(folder))
    with ray.train.get_checkpoint().as_directory() as folder:
        return open(os.path.join(folder, "rank_1")).read()


def described(result):
    with result.checkpoint.as_directory() as folder:
        listed = sorted(name for name in os.listdir(folder) if name.startswith("rank"))
    with result.filesystem.open_input_file(result.checkpoint.path + "/rank_0") as file:
        through = file.read().decode()
    again = Result.from_path(result.path, storage_filesystem=result.filesystem)
    return {
        "returned": result.return_value,
        "metrics": result.metrics,
        "path": result.path,
        "checkpoint": os.path.dirname(result.checkpoint.path),
        "files": listed,
        "through": through,
        "kept": [metrics["step"] for _, metrics in result.best_checkpoints],
        "again": again.metrics,
        "kind": result.filesystem.type_name,
    }


logging.getLogger("werkzeug").setLevel(logging.ERROR)
server = ThreadedMotoServer(ip_address="127.0.0.1", port=0)
server.start()
endpoint = "{}:{}".format(*server.get_host_and_port())
keys = {"AWS_ACCESS_KEY_ID": "a key", "AWS_SECRET_ACCESS_KEY": "a secret", "AWS_DEFAULT_REGION": "us-east-1"}
os.environ.update(keys)
boto3.client("s3", endpoint_url=f"http://{endpoint}").create_bucket(Bucket="bucket")
parts = {"scaling_config": ScalingConfig(num_workers=2)}
settings = {"checkpoint_config": CheckpointConfig(num_to_keep=2), "worker_runtime_env": {"env_vars": keys}}
uri = f"s3://bucket/sub?scheme=http&endpoint_override={endpoint}&region=us-east-1"
outcome["uri"] = described(
    TorchTrainer(train_func, run_config=RunConfig(name="by uri", storage_path=uri, **settings), **parts).fit()
)
filesystem = pyarrow.fs.S3FileSystem(
    access_key="a key", secret_key="a secret", endpoint_override=endpoint, scheme="http", region="us-east-1"
)
run_config = RunConfig(name="opened", storage_path="bucket/deep/er", storage_filesystem=filesystem, **settings)
result = TorchTrainer(train_func, run_config=run_config, **parts).fit()
outcome["filesystem"] = described(result)
server.stop()
