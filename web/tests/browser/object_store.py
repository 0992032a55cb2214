"""moto's S3 for the browser tests: prints its bucket and what programs need to reach it; ends with its standard input."""

import json
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[3] / "paceline" / "testing"))
import object_servers

with object_servers.S3() as server:
    print(json.dumps({"uri": server.uri, "environment": server.environment}), flush=True)
    sys.stdin.read()
