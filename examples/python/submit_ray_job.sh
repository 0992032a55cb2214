#!/bin/bash
# Trains ray_job.py on a Ray cluster, as a job of it, and shows what it writes until it is over:
#
#     RAY_API_SERVER_ADDRESS=http://HEAD:8265 examples/python/submit_ray_job.sh /shared/results 4
#
# The first argument is the storage path, a folder that all nodes share or an object store; the second the number of workers.
# A stopped job (`ray job stop ID`) has a minute for its last checkpoint. The job's environment needs Paceline: it is on the
# nodes, or "pip" in the runtime environment installs it.
set -euo pipefail

storage_path=${1:?the first argument is the storage path}
workers=${2:-2}
folder=$(dirname "$(realpath "$0")")

exec ray job submit \
    --working-dir "$folder" \
    --runtime-env-json '{"env_vars": {"RAY_JOB_STOP_WAIT_TIME_S": "60"}}' \
    -- python ray_job.py --num-workers "$workers" --storage-path "$storage_path"
