"""The storage's conformance suite against object stores.

Usage: object_store_test.py OBJECT_STORE_TEST_PROGRAM s3|s3_with_faults|gcs|azure
"""

import os
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "testing"))
import object_servers

SKIPPED = 77
program, which = sys.argv[1:]

if which == "azure" and not object_servers.Azure.program():
    print("azurite is not installed (npm install azurite; it takes 365 MB)")
    sys.exit(SKIPPED)
try:
    servers = {"s3": object_servers.S3, "s3_with_faults": lambda: object_servers.S3(every_nth=4),
               "gcs": object_servers.Gcs, "azure": object_servers.Azure}
    with servers[which]() as server:
        environment = os.environ | server.environment | {
            "PACELINE_TEST_STORAGE": server.uri, "PACELINE_STORAGE_RETRY_S": "30"}
        sys.exit(subprocess.run([program], env=environment).returncode)
except ImportError as missing:
    print(f"{missing}: run `make setup`")
    sys.exit(SKIPPED)
