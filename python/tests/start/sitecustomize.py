"""What the tests' processes do first: torchvision's wheel from PyPI is built for CUDA torch, so beside CPU torch it lacks
its operators and cannot be imported. Lightning's metrics and Transformers import it where they find it.

With this folder in PYTHONPATH it is imported without its operators.
"""

import importlib.abc
import sys


class _Hook(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path, target=None):
        if name == "torchvision":
            sys.meta_path.remove(self)
            import torch.library

            for function in ("register_fake", "register_autograd"):
                setattr(torch.library, function, _where_it_exists(getattr(torch.library, function)))
        return None


def _where_it_exists(register):
    def call(name, *arguments, **options):
        import torch

        if isinstance(name, str) and name.startswith("torchvision::"):
            if not hasattr(torch.ops.torchvision, name.removeprefix("torchvision::")):
                return None if arguments else lambda function: function
        return register(name, *arguments, **options)

    return call


sys.meta_path.insert(0, _Hook())
