"""A VisionTransformer as torchvision defines it: the same layers, parameter names and initial distribution."""

import math

import torch
from torch import nn
from torch.nn import functional


class SelfAttention(nn.Module):
    """Each token looks at all tokens of its image (Vaswani et al., "Attention Is All You Need", 2017)."""

    def __init__(self, hidden_dim: int, num_heads: int):
        super().__init__()
        self.num_heads = num_heads
        self.in_proj_weight = nn.Parameter(torch.empty(3 * hidden_dim, hidden_dim))  # queries, keys and values in one
        self.in_proj_bias = nn.Parameter(torch.zeros(3 * hidden_dim))
        self.out_proj = nn.Linear(hidden_dim, hidden_dim)
        nn.init.xavier_uniform_(self.in_proj_weight)
        nn.init.zeros_(self.out_proj.bias)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        # Heads are views of one product: nothing is copied, and there is one kernel that never makes the matrix of weights.
        parts = functional.linear(tokens, self.in_proj_weight, self.in_proj_bias).chunk(3, dim=-1)
        queries, keys, values = (part.unflatten(2, (self.num_heads, -1)).transpose(1, 2) for part in parts)
        seen = functional.scaled_dot_product_attention(queries, keys, values)
        return self.out_proj(seen.transpose(1, 2).flatten(2))


class EncoderBlock(nn.Module):
    """Attention and a perceptron of two layers, each with a normalisation before it and a shortcut around both."""

    def __init__(self, hidden_dim: int, num_heads: int, mlp_dim: int):
        super().__init__()
        self.ln_1 = nn.LayerNorm(hidden_dim, eps=1e-6)
        self.self_attention = SelfAttention(hidden_dim, num_heads)
        self.ln_2 = nn.LayerNorm(hidden_dim, eps=1e-6)
        # The Dropouts do nothing; they give the second layer its number in torchvision's checkpoints.
        self.mlp = nn.Sequential(
            nn.Linear(hidden_dim, mlp_dim), nn.GELU(), nn.Dropout(0), nn.Linear(mlp_dim, hidden_dim), nn.Dropout(0)
        )
        for layer in (self.mlp[0], self.mlp[3]):
            nn.init.xavier_uniform_(layer.weight)
            nn.init.normal_(layer.bias, std=1e-6)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        tokens = tokens + self.self_attention(self.ln_1(tokens))
        return tokens + self.mlp(self.ln_2(tokens))


class Encoder(nn.Module):
    """The blocks, one after another, and a last normalisation."""

    def __init__(self, num_tokens: int, num_layers: int, num_heads: int, hidden_dim: int, mlp_dim: int):
        super().__init__()
        self.pos_embedding = nn.Parameter(torch.empty(1, num_tokens, hidden_dim).normal_(std=0.02))
        self.layers = nn.Sequential()
        for i in range(num_layers):
            self.layers.add_module(f"encoder_layer_{i}", EncoderBlock(hidden_dim, num_heads, mlp_dim))
        self.ln = nn.LayerNorm(hidden_dim, eps=1e-6)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        return self.ln(self.layers(tokens + self.pos_embedding))


class VisionTransformer(nn.Module):
    """Dosovitskiy et al., "An Image is Worth 16x16 Words" (2020): an image is cut into patches, each becomes a token,
    and what a token of no patch has gathered after all blocks tells the class.

    The defaults make a small one for the photographs of CIFAR-10: 14.3 million parameters.

    Args:
        image_size: Pixels of a side; a multiple of ``patch_size``.
        patch_size: Likewise of a patch.
        num_layers: Blocks.
        num_heads: Of each block's attention.
        hidden_dim: Numbers of a token; a multiple of ``num_heads``.
        mlp_dim: Likewise between the two layers of each block's perceptron.
        num_classes: Of the images.

    Example:
        >>> logits = VisionTransformer()(torch.randn(64, 3, 32, 32))   # [64, 10]
    """

    def __init__(
        self,
        image_size: int = 32,
        patch_size: int = 4,
        num_layers: int = 12,
        num_heads: int = 8,
        hidden_dim: int = 384,
        mlp_dim: int = 768,
        num_classes: int = 10,
    ):
        super().__init__()
        self.class_token = nn.Parameter(torch.zeros(1, 1, hidden_dim))
        self.conv_proj = nn.Conv2d(3, hidden_dim, kernel_size=patch_size, stride=patch_size)
        num_tokens = (image_size // patch_size) ** 2 + 1
        self.encoder = Encoder(num_tokens, num_layers, num_heads, hidden_dim, mlp_dim)
        self.heads = nn.Sequential()
        self.heads.add_module("head", nn.Linear(hidden_dim, num_classes))
        nn.init.trunc_normal_(self.conv_proj.weight, std=math.sqrt(1 / (3 * patch_size**2)))
        nn.init.zeros_(self.conv_proj.bias)
        nn.init.zeros_(self.heads.head.weight)
        nn.init.zeros_(self.heads.head.bias)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        """``images``: [batch, 3, image_size, image_size] float32. Returns logits [batch, num_classes]."""
        patches = self.conv_proj(images).flatten(2).transpose(1, 2)
        tokens = torch.cat([self.class_token.expand(len(images), -1, -1), patches], 1)
        return self.heads(self.encoder(tokens)[:, 0])
