"""Prints what torchvision's VisionTransformer is and computes as JSON, for vision_transformer_test.cpp to compare with."""

import json

import torch
from torchvision_models import VisionTransformer


def shapes_and_deviations(model):
    """[name, shape, deviation] of every initial parameter, in order."""
    return [[name, list(parameter.shape), parameter.std().item()] for name, parameter in model.named_parameters()]


def small_model():
    torch.manual_seed(1)
    model = VisionTransformer(image_size=8, patch_size=4, num_layers=2, num_heads=2, hidden_dim=16, mlp_dim=24,
                              num_classes=5)
    # Much of a new model is zero, and zeros hide mistakes.
    for parameter in model.parameters():
        parameter.data += 0.3 * torch.randn_like(parameter)
    return model


def training_step(model):
    """The weights, what goes in and out, and the gradients."""
    images, labels = torch.randn(3, 3, 8, 8), torch.tensor([0, 4, 2])
    logits = model(images)
    torch.nn.functional.cross_entropy(logits, labels).backward()
    return {
        "weights": {name: parameter.flatten().tolist() for name, parameter in model.named_parameters()},
        "images": images.flatten().tolist(),
        "labels": labels.tolist(),
        "logits": logits.flatten().tolist(),
        "gradients": {name: parameter.grad.flatten().tolist() for name, parameter in model.named_parameters()},
    }


model = VisionTransformer(image_size=32, patch_size=4, num_layers=12, num_heads=8, hidden_dim=384, mlp_dim=768,
                          num_classes=10)
print(json.dumps({"parameters": shapes_and_deviations(model), "step": training_step(small_model())}))
