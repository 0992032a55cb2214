"""What Ray Train's names do where Paceline has little behind them. ray_tree_test.py is about which there are."""

import contextlib
import os
import pickle

import pytest
import torch.distributed

import paceline.train as train
from paceline.train import BackendConfig, DataParallelTrainer, PreemptionInfo, Result
from paceline.train.torch import TorchConfig


def test_nothing_announces_preemptions_yet(run_config):
    assert DataParallelTrainer(lambda: [train.get_preemption_info()], run_config=run_config()).fit().return_value == [None]
    with pytest.raises(RuntimeError, match="outside a train loop"):
        train.get_preemption_info()


def test_preemption_info_sums_up_its_machines():
    info = PreemptionInfo(deadline_ms=None, preempted_node_to_ranks={"b": [3, 0], "a": [1]})
    assert info.preempted_node_ids == ["a", "b"] and info.preempted_ranks == [0, 1, 3]
    error = pickle.loads(pickle.dumps(train.PreemptionError(info, drain_timed_out=True)))
    assert isinstance(error, train.TrainingFailedError) and error.preemption_info == info and error.drain_timed_out
    assert "[0, 1, 3]" in str(error)


def test_data_config_is_checked():
    train.DataConfig(datasets_to_split=["train"], enable_shard_locality=False)
    with pytest.raises(TypeError, match="'train'"):
        train.DataConfig(datasets_to_split="train")


def test_what_concerned_ray_tune_is_a_deprecation_warning(run_config):
    def loop():
        context = train.get_context()
        raised = []
        for name in ("get_metadata", "get_trial_name", "get_trial_id", "get_trial_resources", "get_trial_dir"):
            ask = getattr(context, name)  # scripts may look
            try:
                ask()
            except DeprecationWarning:
                raised.append(name)
        return len(raised)

    result = DataParallelTrainer(loop, run_config=run_config()).fit()
    assert result.return_value == 5
    with pytest.raises(DeprecationWarning):
        result.config
    with pytest.raises(DeprecationWarning):
        train.RunConfig(sync_config=train.SyncConfig())


def test_a_backend_wraps_the_train_loop_on_every_worker(run_config):
    class Marked(BackendConfig):
        @property
        def train_func_context(self):
            return marked

    trainer = DataParallelTrainer(lambda: os.environ.get("MARK"), backend_config=Marked(), run_config=run_config())
    assert trainer.fit().return_value == "inside"


@contextlib.contextmanager
def marked():
    os.environ["MARK"] = "inside"
    yield
    del os.environ["MARK"]


@pytest.mark.parametrize("workers", [0, 1])
def test_only_a_torch_config_brings_a_process_group(run_config, workers):
    def joined():
        return [torch.distributed.is_initialized(), "MASTER_ADDR" in os.environ]

    scaling = train.ScalingConfig(num_workers=workers)
    assert DataParallelTrainer(joined, scaling_config=scaling, run_config=run_config()).fit().return_value == [False, False]
    with_group = DataParallelTrainer(joined, backend_config=TorchConfig(), scaling_config=scaling, run_config=run_config())
    assert with_group.fit().return_value[0] is True


def test_a_backend_with_hooks_of_a_controller_is_refused():
    class Hooked(train.Backend):
        def on_start(self, worker_group, backend_config):
            pass

    class HookedConfig(BackendConfig):
        backend_cls = Hooked

    with pytest.raises(NotImplementedError, match="Hooked.on_start"):
        DataParallelTrainer(lambda: None, backend_config=HookedConfig())
    assert isinstance(TorchConfig(), BackendConfig)


def test_results_keep_the_name_of_their_filesystem(run_config):
    result: Result = DataParallelTrainer(lambda: None, run_config=run_config()).fit()
    assert result.filesystem.type_name == "local"
