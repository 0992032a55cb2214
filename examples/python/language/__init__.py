"""What the examples about large models train: a small Transformer that reads text byte by byte."""
