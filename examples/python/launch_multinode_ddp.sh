#!/bin/sh
# Trains vanilla_ddp.py on several machines. Run it on each of them, in any order, each with its own NODE_RANK:
#
#     NNODES=2 NODE_RANK=0 MASTER_ADDR=node0 ./launch_multinode_ddp.sh --epochs 10     # on node0
#     NNODES=2 NODE_RANK=1 MASTER_ADDR=node0 ./launch_multinode_ddp.sh --epochs 10     # on node1
#
# It is the script that one has for torchrun, with `paceline run` in its place: LAUNCHER=torchrun runs it with that.
# The machines find each other by a secret in ~/.paceline, a home that they share. Where they have none,
# PACELINE_TOKEN_FILE names a file that all of them see.
set -eu

NNODES=${NNODES:-2}                     # machines
NODE_RANK=${NODE_RANK:-0}               # this machine's number, from 0
NPROC_PER_NODE=${NPROC_PER_NODE:-auto}  # ranks on this machine: one for each GPU, else for each core
MASTER_ADDR=${MASTER_ADDR:-127.0.0.1}   # the machine with the number 0
MASTER_PORT=${MASTER_PORT:-29500}       # a port there that nobody uses
LAUNCHER=${LAUNCHER:-paceline run}

# shellcheck disable=SC2086 # the launcher may be several words
exec $LAUNCHER \
  --nnodes "$NNODES" \
  --node-rank "$NODE_RANK" \
  --nproc-per-node "$NPROC_PER_NODE" \
  --master-addr "$MASTER_ADDR" \
  --master-port "$MASTER_PORT" \
  --max-restarts 3 \
  "$(dirname "$0")/vanilla_ddp.py" "$@"
