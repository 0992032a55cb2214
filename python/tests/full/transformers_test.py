"""Transformers' Trainer in a train loop: trains as one process does, reports, and resumes."""

import os
import signal

import pytest
import torch
import transformers
from torch.utils.data import Dataset

import paceline.train as train
from paceline.train import CheckpointConsistencyMode, FailureConfig, ScalingConfig, ValidationConfig
from paceline.train.huggingface.transformers import RayTrainReportCallback, TrainReportCallback, prepare_trainer
from paceline.train.torch import TorchTrainer


class Sentences(Dataset):
    """Rows of token numbers that repeat themselves."""

    def __len__(self):
        return 32

    def __getitem__(self, index):
        tokens = (torch.arange(8) + index) % 16
        return {"input_ids": tokens, "labels": tokens}


def model():
    torch.manual_seed(0)
    return transformers.GPT2LMHeadModel(
        transformers.GPT2Config(
            vocab_size=16, n_positions=8, n_embd=16, n_layer=1, n_head=2, resid_pdrop=0, embd_pdrop=0, attn_pdrop=0,
            bos_token_id=0, eos_token_id=0,
        )
    )  # fmt: skip


def arguments(folder, batch_size, **more):
    return transformers.TrainingArguments(
        output_dir=str(folder), per_device_train_batch_size=batch_size, per_device_eval_batch_size=batch_size,
        learning_rate=1e-2, report_to="none", disable_tqdm=True, logging_steps=1, save_strategy="steps",
        save_steps=2, max_steps=6, max_grad_norm=0, train_sampling_strategy="sequential", **more,
    )  # fmt: skip


def losses_of(trainer):
    return [log["loss"] for log in trainer.state.log_history if "loss" in log]


class KilledAtStep(transformers.TrainerCallback):
    def __init__(self, step):
        self.step = step

    def on_step_end(self, args, state, control, **kwargs):
        context = train.get_context()
        if state.global_step == self.step and context.get_attempt() == 1 and context.get_world_rank() == 1:
            train.get_all_reported_checkpoints(CheckpointConsistencyMode.COMMITTED)  # waits for those before
            os.kill(os.getpid(), signal.SIGKILL)


def fit(loop, settings, config, **more):
    scaling = ScalingConfig(num_workers=2)
    return TorchTrainer(loop, train_loop_config=config, scaling_config=scaling, run_config=settings, **more).fit()


def count_files(checkpoint):
    with checkpoint.as_directory() as folder:
        return {"files": len(os.listdir(os.path.join(folder, "checkpoint")))}


def loop(config):
    torch.set_num_threads(1)
    trainer = transformers.Trainer(
        model=model(),
        args=arguments(config["folder"], 4, save_total_limit=1),
        train_dataset=Sentences(),
        callbacks=[TrainReportCallback(), KilledAtStep(5)],
    )
    prepare_trainer(trainer)
    if checkpoint := train.get_checkpoint():
        with checkpoint.as_directory() as folder:
            trainer.train(resume_from_checkpoint=os.path.join(folder, TrainReportCallback.CHECKPOINT_NAME))
    else:
        trainer.train()
    return losses_of(trainer)


def test_a_run_whose_worker_is_killed_has_the_losses_of_one_process(run_config, tmp_path):
    alone = transformers.Trainer(model=model(), args=arguments(tmp_path / "alone", 8), train_dataset=Sentences())
    alone.train()
    settings = run_config(failure_config=FailureConfig(max_failures=1))
    result = fit(loop, settings, {"folder": str(tmp_path / "output")})
    assert result.return_value == pytest.approx(losses_of(alone), rel=1e-3)
    frame = result.metrics_dataframe
    assert list(frame["step"]) == [2, 4, 6]
    assert [row["attempt"] for row in result.metrics_history.to_pylist() if row["rank"] == 0] == [1, 1, 2]
    assert [os.path.basename(path) for path in sorted((tmp_path / "output").glob("checkpoint-*"))] == ["checkpoint-6"]
    files = set(os.listdir(f"{result.checkpoint.path}/checkpoint"))
    assert {"model.safetensors", "optimizer.pt", "rng_state_0.pth", "rng_state_1.pth", "trainer_state.json"} <= files


def test_batches_that_a_worker_makes_itself_are_taken_as_they_are(run_config, tmp_path):
    def loop(config):
        rank = train.get_context().get_world_rank()
        rows = [Sentences()[index] for index in range(rank, 32, 2)]

        class Batches:
            def __iter__(self):
                for start in range(0, 16, 4):
                    yield {name: torch.stack([row[name] for row in rows[start : start + 4]]) for name in rows[0]}

        folder = f"{config['folder']}/{rank}"  # of its own: both hand over what they have written
        trainer = prepare_trainer(
            transformers.Trainer(
                model=model(),
                args=arguments(folder, 1, eval_strategy="steps", eval_steps=2),
                train_dataset=Batches(),
                eval_dataset={"held_out": Batches()},
                callbacks=[RayTrainReportCallback(validation=True)],
            )
        )
        trainer.train()
        return losses_of(trainer)

    alone = transformers.Trainer(model=model(), args=arguments(tmp_path / "alone", 8), train_dataset=Sentences())
    alone.train()
    validated = ValidationConfig(count_files)
    result = fit(loop, run_config(), {"folder": str(tmp_path / "output")}, validation_config=validated)
    assert result.return_value == pytest.approx(losses_of(alone), rel=1e-3)
    assert result.metrics["eval_held_out_loss"] < result.return_value[0]
    files = os.listdir(f"{result.checkpoint.path}/checkpoint")
    assert {"model.safetensors", "rng_state_0.pth", "rng_state_1.pth"} <= set(files)
    assert result.best_checkpoints[-1][1]["files"] == len(files)
