"""Training with Hugging Face's libraries: see paceline.train.huggingface.transformers. Accelerate needs nothing of ours."""
