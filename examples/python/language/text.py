"""Text to learn from that every Python has with it: the documentation of its language, half a million bytes."""

import pydoc_data.topics

import torch


def documentation() -> torch.Tensor:
    """The bytes of the documentation that ``help("for")`` shows, one topic after another: ``[length]`` uint8."""
    topics = pydoc_data.topics.topics
    text = "\n".join(topics[name] for name in sorted(topics))
    return torch.frombuffer(bytearray(text.encode()), dtype=torch.uint8)


def batch_of(text: torch.Tensor, step: int, batch_size: int, length: int, rank: int = 0, world_size: int = 1) -> torch.Tensor:
    """This rank's part of the batch of a step: pieces of `text` from random places, the same in every run.

    Args:
        text: ``[size]`` uint8.
        step: From 0.
        batch_size: Pieces of all ranks together; a multiple of `world_size`.
        length: Bytes in each.

    Returns:
        ``[batch_size / world_size, length]`` int64.
    """
    places = torch.randint(len(text) - length, (batch_size,), generator=torch.Generator().manual_seed(step))
    return torch.stack([text[place : place + length] for place in places[rank::world_size].tolist()]).long()
