"""What the examples train: models, datasets, and how a model is tested."""
