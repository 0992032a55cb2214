"""torchvision's models in Python, as the reference of ours.

torchvision is installed without what it depends on, for its models need neither Pillow nor its own operators, and its
wheel from PyPI is built for CUDA torch: beside CPU torch its operators are missing. So it is in a folder of its own
(tools/setup), where what else imports it if it can does not find it.
"""
import pathlib
import sys
import unittest.mock

import torch.library

sys.path.append(str(pathlib.Path(sys.prefix) / "reference"))
pillow = unittest.mock.MagicMock(__version__="0")
sys.modules.setdefault("PIL", pillow)
sys.modules.setdefault("PIL.Image", pillow.Image)


def without_operators(register):
    """`register`, but what it is to register for torchvision's operators is left alone."""
    def call(name, *arguments, **options):
        if isinstance(name, str) and name.startswith("torchvision::"):
            return None if arguments else lambda function: function
        return register(name, *arguments, **options)
    return call


torch.library.register_fake = without_operators(torch.library.register_fake)
torch.library.register_autograd = without_operators(torch.library.register_autograd)

from torchvision.models import VisionTransformer  # noqa: E402, F401
