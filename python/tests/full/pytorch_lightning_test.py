"""Lightning by its other name, in a program of its own: classes of `lightning` and `pytorch_lightning` do not mix."""

import subprocess
import sys
import textwrap

PROGRAM = textwrap.dedent(
    """
    import sys

    import pytorch_lightning as pl
    import torch

    from paceline.train import RunConfig, ScalingConfig
    from paceline.train.lightning import RayDDPStrategy, RayLightningEnvironment, RayTrainReportCallback, prepare_trainer
    from paceline.train.torch import TorchTrainer

    assert issubclass(RayDDPStrategy, pl.strategies.DDPStrategy)


    class Line(pl.LightningModule):
        def __init__(self):
            super().__init__()
            self.line = torch.nn.Linear(1, 1)

        def training_step(self, batch, index):
            (x,) = batch
            loss = (self.line(x) - 3 * x + 1).square().mean()
            self.log("loss", loss, sync_dist=True)
            return loss

        def configure_optimizers(self):
            return torch.optim.SGD(self.parameters(), lr=0.1)


    def loop():
        rows = torch.utils.data.TensorDataset(torch.linspace(-1, 1, 16).unsqueeze(1))
        trainer = pl.Trainer(
            max_epochs=2,
            accelerator="auto",
            devices="auto",
            strategy=RayDDPStrategy(),
            plugins=[RayLightningEnvironment()],
            callbacks=[RayTrainReportCallback()],
            enable_checkpointing=False,
            logger=False,
        )
        prepare_trainer(trainer).fit(Line(), torch.utils.data.DataLoader(rows, batch_size=4))


    if __name__ == "__main__":
        settings = RunConfig(storage_path=sys.argv[1], quiet=True)
        result = TorchTrainer(loop, scaling_config=ScalingConfig(num_workers=2), run_config=settings).fit()
        print(result.metrics["epoch"], result.metrics["step"], "lightning" in sys.modules)
    """
)


def test_a_program_that_imports_pytorch_lightning(tmp_path):
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    done = subprocess.run([sys.executable, program, tmp_path], capture_output=True, text=True, timeout=300)
    assert done.stdout.splitlines()[-1:] == ["1 4 False"], done.stdout + done.stderr
