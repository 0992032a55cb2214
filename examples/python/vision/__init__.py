"""What the examples train: models, data sets, and how a model is tested."""
