"""Checkpoint.load(): a model's weights, as C++'s Checkpoint::save() and Checkpoint.from_dict() keep them."""

from typing import Any

import torch

# In safetensors' words.
_DTYPES = {
    "F64": torch.float64, "F32": torch.float32, "F16": torch.float16, "BF16": torch.bfloat16, "I64": torch.int64,
    "I32": torch.int32, "I16": torch.int16, "I8": torch.int8, "U64": torch.uint64, "U32": torch.uint32, "U16": torch.uint16,
    "U8": torch.uint8, "BOOL": torch.bool, "C64": torch.complex64, "F8_E4M3": torch.float8_e4m3fn,
    "F8_E5M2": torch.float8_e5m2,
}  # fmt: skip


def load(checkpoint, model: torch.nn.Module, strict: bool) -> Any:
    if isinstance(model, torch.nn.parallel.DistributedDataParallel):
        model = model.module
    state = {name: _tensor(*saved) for name, saved in checkpoint.read_tensors("model").items()}
    if not state:
        raise ValueError(
            f"{checkpoint.path} has no \"model\": C++'s Checkpoint::save(model) writes one, and so does "
            "Checkpoint.from_dict({\"model\": model.state_dict()})"
        )
    return model.load_state_dict(state, strict=strict)


def _tensor(dtype: str, shape, data: bytearray) -> torch.Tensor:
    if not data:
        return torch.empty(shape, dtype=_DTYPES[dtype])
    return torch.frombuffer(data, dtype=_DTYPES[dtype]).view(shape)
