"""A Transformer that foretells the next byte of a text."""

import torch
from torch.nn.functional import cross_entropy, scaled_dot_product_attention


class Block(torch.nn.Module):
    """Attention to the bytes before, then a perceptron; each is added to what comes in."""

    def __init__(self, width: int, heads: int):
        super().__init__()
        self.heads = heads
        self.attention_norm = torch.nn.LayerNorm(width)
        self.query_key_value = torch.nn.Linear(width, 3 * width)
        self.attention_output = torch.nn.Linear(width, width)
        self.perceptron_norm = torch.nn.LayerNorm(width)
        self.perceptron = torch.nn.Sequential(
            torch.nn.Linear(width, 4 * width), torch.nn.GELU(), torch.nn.Linear(4 * width, width)
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        parts = self.query_key_value(self.attention_norm(x)).unflatten(-1, (3, self.heads, -1))
        query, key, value = parts.permute(2, 0, 3, 1, 4)
        seen = scaled_dot_product_attention(query, key, value, is_causal=True)
        x = x + self.attention_output(seen.transpose(1, 2).flatten(2))
        return x + self.perceptron(self.perceptron_norm(x))


class Transformer(torch.nn.Module):
    """Blocks between an embedding of bytes and what it foretells of the byte that follows each.

    Args:
        width: Size of what is known of each byte; a multiple of `heads`.
        depth: Blocks.
        length: Bytes that it can look back at.
    """

    def __init__(self, width: int = 96, depth: int = 3, heads: int = 4, length: int = 64):
        super().__init__()
        self.bytes = torch.nn.Embedding(256, width)
        self.places = torch.nn.Embedding(length, width)
        self.blocks = torch.nn.ModuleList(Block(width, heads) for _ in range(depth))
        self.norm = torch.nn.LayerNorm(width)
        self.output = torch.nn.Linear(width, 256)

    def forward(self, text: torch.Tensor) -> torch.Tensor:
        """``[batch, length]`` int64 to the logits of the byte that follows each: ``[batch * length, 256]``."""
        x = self.bytes(text) + self.places(torch.arange(text.shape[1], device=text.device))
        for block in self.blocks:
            x = block(x)
        return self.output(self.norm(x).flatten(0, 1))


def loss_of(model: torch.nn.Module, text: torch.Tensor) -> torch.Tensor:
    """How badly the model foretells each byte of `text` from those before: nats per byte."""
    return cross_entropy(model(text[:, :-1]).float(), text[:, 1:].flatten())


@torch.no_grad()
def continued(model: Transformer, begin: str, count: int, temperature: float = 0.5) -> str:
    """`begin` and `count` bytes that the model writes after it."""
    length, numbers = model.places.num_embeddings, torch.Generator().manual_seed(0)
    text = torch.tensor([list(begin.encode())])
    for _ in range(count):
        chances = (model(text[:, -length:])[-1:] / temperature).softmax(-1)
        text = torch.cat([text, torch.multinomial(chances, 1, generator=numbers)], 1)
    return bytes(text[0].tolist()).decode(errors="replace")
