"""Options of Ray Train that have no meaning here, and what happens when a script gives one.

An option in NO_EFFECT gets a notice, one in REFUSED an error. A test finds parameters that the package neither reads
nor lists.
"""

import inspect
from typing import Any, Callable, Dict, Iterable, Tuple

from paceline import _notices

_ONE_MACHINE = "all workers are on this machine"
_NO_PREEMPTIONS = "a group trains until a node that was announced to go is gone"
_NO_FUNCTION = "no function is called for it"
_OWN_PROCESSES = "functions are called by processes of this program; see concurrency, num_cpus, num_gpus and memory"
_OWN_LOOP = "the train loop decides when it calls report(checkpoint=…)"
_CONTROLLER = "the controller has no worker group of actors"
_FSDP2 = "FSDP2 does this by itself"
_STARTED_NOTHING = "init() has started nothing"
_GROUP_IS_THERE = "the process group is there already; TorchConfig has its backend and timeout"

OWN_ENVIRONMENT = "workers have the driver's packages and directory"

# By class or function, and by option: why it has no effect.
NO_EFFECT: Dict[str, Dict[str, str]] = {
    "ScalingConfig": {
        "elastic_resize_monitor_interval_s": "an elastic run has its highest number of workers throughout",
    },
    "FailureConfig": {
        "relax_collectives_on_preemption": _NO_PREEMPTIONS,
        "preemption_grace_s": _NO_PREEMPTIONS,
    },
    "TorchConfig": {"init_method": "ranks meet over Paceline's own store"},
    "ValidationConfig": {"ray_remote_kwargs": "a validation is a process on this machine"},
    "Dataset": {
        **dict.fromkeys(("compute", "concurrency", "num_cpus", "num_gpus", "memory"), _NO_FUNCTION),
        **dict.fromkeys(("max_calls", "scheduling_strategy", "resources", "ray_remote_args_fn"), _OWN_PROCESSES),
        "ray_remote_args": _OWN_PROCESSES,
        **dict.fromkeys(("label_selector", "fallback_strategy", "locality_hints", "accelerator_type"), _ONE_MACHINE),
        "runtime_env": OWN_ENVIRONMENT,
        "fetch_if_missing": "the columns are always found out",
        "parallelism": "override_num_blocks says it",
        "local_read": _ONE_MACHINE,
        "lines": "each line of a JSON file has a row",
    },
    "DataConfig": {"enable_shard_locality": _ONE_MACHINE},
    "SyncConfig": {
        "sync_period": "report() brings files away at once",
        "sync_timeout": "report() brings files away at once",
        "sync_artifacts": "report() brings files away at once",
        "sync_artifacts_on_checkpoint": "report() brings files away at once",
    },
    "Backend": {"share_cuda_visible_devices": _CONTROLLER, "has_replica_groups": _CONTROLLER},
    "BackendConfig": {"framework": _CONTROLLER, "to_dict": _CONTROLLER},
    "shutdown": {"wait_for_processes": _STARTED_NOTHING, "_exiting_interpreter": _STARTED_NOTHING},
    "fully_shard": {
        "backward_prefetch": _FSDP2,
        "forward_prefetch": _FSDP2,
        "limit_all_gathers": _FSDP2,
        "use_orig_params": _FSDP2,
        "device_id": _FSDP2,
    },
    "Lightning's strategy": {
        "process_group_backend": _GROUP_IS_THERE,
        "timeout": _GROUP_IS_THERE,
        "start_method": "the processes are there already",
    },
}
# Of what init() is given beside what it reads: arguments that vary with Ray's versions, and parts of runtime_env.
NO_CLUSTER = "nothing is started on one machine; ScalingConfig says what workers get"

# Likewise: why it is refused, or what to do instead.
REFUSED: Dict[str, Dict[str, str]] = {
    "ScalingConfig": {"trainer_resources": "the controller needs no resources"},
    "FailureConfig": {"fail_fast": "set max_failures=0"},
    "CheckpointConfig": {"checkpoint_frequency": _OWN_LOOP, "checkpoint_at_end": _OWN_LOOP},
    "RunConfig": {
        "sync_config": "files are brought to storage_path by report()",
        "verbose": "see quiet and logging_config",
        "stop": "return from the train loop, or let a callback call run_context.stop()",
        "progress_reporter": "see quiet",
        "log_to_file": "the run folder's logs/ has every worker's output",
    },
    "DataParallelTrainer": {"metadata": "put it into train_loop_config"},
}


def without_effect(owner: str, option: str, why: str) -> None:
    """One notice that `option` was given in vain."""
    _notices.give_once(f"{owner}({option}=…) has no effect: {why}")


def note(owner: str, given: Iterable[str]) -> None:
    """A notice for each of the options of `owner` that were given and have no effect."""
    for option in given:
        if why := NO_EFFECT[owner].get(option):
            without_effect(owner, option, why)


def take(owner: str, method: str, given: Iterable[str]) -> None:
    """note() of what `method` of `owner` was given beside what it reads; TypeError for anything that is no row."""
    for option in given:
        if option not in NO_EFFECT[owner]:
            raise TypeError(f"{method}() got an unexpected keyword argument {option!r}")
    note(owner, given)


def changed(function: Callable, values: Dict[str, Any]) -> Tuple[str, ...]:
    """The names of `values` that are not what `function` has as their default."""
    parameters = inspect.signature(function).parameters
    defaults = {name: parameters[name].default for name in values if name in parameters}
    return tuple(name for name, usual in defaults.items() if values[name] is not usual and values[name] != usual)
