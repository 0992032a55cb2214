"""Transformers' Trainer with Ray's callback and prepare_trainer, evaluated and saved each epoch."""

import os

import torch
import transformers
from torch.utils.data import Dataset

import ray.train.huggingface.transformers
from ray.train import RunConfig, ScalingConfig
from ray.train.torch import TorchTrainer

outcome = {}


class Rows(Dataset):
    def __len__(self):
        return 32

    def __getitem__(self, index):
        tokens = (torch.arange(6) * 3 + index) % 16
        return {"input_ids": tokens, "attention_mask": torch.ones(6, dtype=torch.long), "labels": index % 2}


def train_func(config):
    transformers.set_seed(4)
    model = transformers.BertForSequenceClassification(
        transformers.BertConfig(
            vocab_size=16,
            hidden_size=8,
            num_hidden_layers=1,
            num_attention_heads=2,
            intermediate_size=16,
            max_position_embeddings=8,
            hidden_dropout_prob=0,
            attention_probs_dropout_prob=0,
        )
    )
    arguments = transformers.TrainingArguments(
        output_dir=os.path.join(config["folder"], "output"),
        eval_strategy="epoch",
        save_strategy="epoch",
        logging_strategy="epoch",
        num_train_epochs=2,
        per_device_train_batch_size=4,
        per_device_eval_batch_size=4,
        learning_rate=1e-2,
        report_to="none",
        disable_tqdm=True,
        use_cpu=True,
        seed=4,
    )

    def accuracy(predicted):
        logits, labels = predicted
        return {"accuracy": float((logits.argmax(-1) == labels).mean())}

    trainer = transformers.Trainer(
        model=model, args=arguments, train_dataset=Rows(), eval_dataset=Rows(), compute_metrics=accuracy
    )
    trainer.add_callback(ray.train.huggingface.transformers.RayTrainReportCallback())
    trainer = ray.train.huggingface.transformers.prepare_trainer(trainer)
    trainer.train()
    return [trainer.state.global_step, arguments.world_size, arguments.n_gpu]


result = TorchTrainer(
    train_func,
    train_loop_config={"folder": os.path.abspath(".")},
    scaling_config=ScalingConfig(num_workers=2),
    run_config=RunConfig(name="bert", storage_path=os.path.abspath("results")),
).fit()
timing = ("runtime", "_per_second")
outcome["metrics"] = {
    name: round(value, 5) for name, value in result.metrics.items() if not name.endswith(timing)
}
outcome["returned"] = result.return_value
outcome["steps"] = [metrics["step"] for _, metrics in result.best_checkpoints]
with result.checkpoint.as_directory() as folder:
    inner = os.path.join(folder, ray.train.huggingface.transformers.RayTrainReportCallback.CHECKPOINT_NAME)
    files = set(os.listdir(inner))
    model = transformers.BertForSequenceClassification.from_pretrained(inner)
outcome["files"] = sorted(files & {"model.safetensors", "config.json", "optimizer.pt", "trainer_state.json"})
outcome["parameters"] = sum(parameter.numel() for parameter in model.parameters())
