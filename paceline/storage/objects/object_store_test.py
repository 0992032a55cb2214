"""The storage's conformance suite against object stores.

Usage: object_store_test.py OBJECT_STORE_TEST_PROGRAM s3|s3_with_faults|gcs|azure FOLDER

FOLDER keeps what a server needs that is installed at its first use: npm's azurite.
"""

import os
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2] / "testing"))
import object_servers

SKIPPED = 77
program, which, folder = sys.argv[1:]
# While an object is replaced, azurite's readers get the new length with the old content. Checkpoints are never replaced.
LEFT_OUT = {"azure": "*.ReplacesAtOnce"}

if which == "azure" and not object_servers.Azure.install(folder):
    print("azurite could not be installed: it needs npm, and its registry")
    sys.exit(SKIPPED)
try:
    servers = {"s3": object_servers.S3, "s3_with_faults": lambda: object_servers.S3(every_nth=4),
               "gcs": object_servers.Gcs, "azure": lambda: object_servers.Azure(folder)}
    with servers[which]() as server:
        environment = os.environ | server.environment | {
            "PACELINE_TEST_STORAGE": server.uri, "PACELINE_STORAGE_RETRY_S": "30"}
        sys.exit(subprocess.run([program, f"--gtest_filter=-{LEFT_OUT.get(which, '')}"], env=environment).returncode)
except ImportError as missing:
    print(f"{missing}: run `make setup`")
    sys.exit(SKIPPED)
