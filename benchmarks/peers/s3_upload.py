"""s3_upload's peer: seconds of Ray Train's upload of a checkpoint, by the code that its workers run in report(). No
cluster is started, so that neither Ray's polls nor its actors count.

Usage: s3_upload.py ENDPOINT BUCKET FOLDER NAME
"""

import sys
import time

import pyarrow.fs
from ray.train import Checkpoint
from ray.train.v2._internal.execution.storage import StorageContext

endpoint, bucket, folder, name = sys.argv[1:]
files = pyarrow.fs.S3FileSystem(endpoint_override=endpoint, scheme="http", region="us-east-1")
storage = StorageContext(storage_path=f"{bucket}/ray", experiment_dir_name="run", storage_filesystem=files)
checkpoint = Checkpoint.from_directory(folder)
start = time.monotonic()
storage.persist_current_checkpoint(checkpoint, name)
print(time.monotonic() - start)
