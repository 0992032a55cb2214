#!/bin/bash
# A program that calls fit(), in C++ or Python, on all nodes of a Slurm job:
#
#     sbatch --nodes=4 --gpus-per-node=8 examples/slurm_job.sh python train.py --epochs 10
#     sbatch --nodes=2 --cpus-per-task=16 examples/slurm_job.sh build/my_training
#
# It starts once, on the first node, and brings the other nodes into its run by itself. Two minutes before the job's
# time is over its workers stop in order; the job is queued again then, and also when nodes are missing, and goes on where
# it was, if its run has a name.
#SBATCH --nodes=2 --ntasks-per-node=1
#SBATCH --no-kill --requeue --open-mode=append --signal=B:USR1@120

: "${1:?name a program: sbatch $0 PROGRAM [ARGUMENTS]}"
trap 'kill -USR1 $child' USR1
"$@" & child=$!
while wait $child; code=$?; kill -0 $child 2> /dev/null; do :; done
case $code in 75|143) exec scontrol requeue "$SLURM_JOB_ID";; esac
exit $code
