"""Ray Train's whole public tree is here, as ray_tree.json has it: modules, names, parameters, members, values of
enumerations. What is not has a row in paceline._absent, or in NOT_LIKE_RAYS where nothing is missing but a form differs.
"""

import contextlib
import importlib
import importlib.util
import inspect
import json
import pathlib
import pickle
import re
import subprocess
import sys

import cloudpickle
import pytest

import paceline
import ray_tree
from paceline import _absent, _aliases
from paceline.train import DataConfig, ScalingConfig
from paceline.train.callback import RunContext
from paceline.train.storage_context import StorageContext
from paceline.train.callback import RunContext
from paceline.train.storage_context import StorageContext

TREE = json.loads(ray_tree.TREE.read_text())
# Ray's classes of objects that no module offers, and what stands for them here.
OBJECTS = {
    "RayContext": paceline._cluster.Context,
    "TrainRunContext": RunContext,
    "StorageContext": StorageContext,
}
NOT_LIKE_RAYS = {
    "RayContext(…)": "init() makes it",
    "RayContext.ray_commit": "Paceline's version is all that its packages know",
    "TrainRunContext(…)": "callbacks get it",
    "StorageContext(…)": "get_context().get_storage() makes it",
    "StorageContext.checkpoint_manager_snapshot_path": "a run has a journal instead",
    "StorageContext.get_experiment_dir_name": "RunConfig.name is it",
}


def gaps():
    """What Ray has and Paceline has not, by name."""
    # The names that scripts should use come first: other modules offer the same objects.
    modules = sorted(TREE["names"], key=lambda module: module not in ("ray.train", "ray.train.torch", "ray.train.lightning"))
    seen = set()
    for module in modules:
        below = module.removeprefix("ray").lstrip(".")
        try:
            ours = importlib.import_module(f"paceline.{below}".rstrip("."))
        except ImportError:
            yield below
            continue
        for name, definition in TREE["names"][module].items():
            full = f"{below}.{name}".lstrip(".")
            if not hasattr(ours, name) and not is_module(f"paceline.{full}"):
                yield full
            elif definition and id(getattr(ours, name)) not in seen:
                seen.add(id(getattr(ours, name)))
                yield from differences(full, getattr(ours, name), TREE["definitions"][definition])
    for definition in TREE["objects"]:
        name = definition.rpartition(".")[2]
        if name in OBJECTS:
            yield from differences(name, OBJECTS[name], TREE["definitions"][definition])
        else:
            yield name


def is_module(name):
    with contextlib.suppress(ImportError):
        return importlib.util.find_spec(name) is not None
    return False


def differences(name, ours, theirs):
    if isinstance(theirs, list):
        if not takes(ours, theirs):
            yield f"{name}(…)"
        return
    if theirs["parameters"] and not takes(ours, theirs["parameters"]):
        yield f"{name}(…)"
    has = attributes(ours)
    for member, what in theirs["members"].items():
        full = f"{name}.{member}"
        if member not in has or isinstance(inspect.getattr_static(ours, member, None), _absent._Absent):
            yield full
        elif isinstance(what, list) and not takes(inspect.getattr_static(ours, member), what, is_member=True):
            yield f"{full}(…)"
        elif isinstance(what, dict) and getattr(ours, member).value != what["value"]:
            yield f"{full} == {what['value']!r}"


def takes(function, theirs, is_member=False):
    """Whether calls with Ray's parameters work: those by position at the same places, the others by name."""
    is_static = isinstance(function, staticmethod)
    function = getattr(function, "__func__", function)
    parameters = list(inspect.signature(function).parameters.values())[1 if is_member and not is_static else 0 :]
    kinds = {one.kind for one in parameters}
    by_position = theirs[: next((i for i, name in enumerate(theirs) if name.startswith("*")), len(theirs))]
    public = [one for one in parameters if not one.name.startswith("_")]  # as in the tree
    places = [one.name for one in public if one.kind == one.POSITIONAL_OR_KEYWORD]
    named = {one.name for one in parameters}
    in_place = inspect.Parameter.VAR_POSITIONAL in kinds or places[: len(by_position)] == by_position
    return in_place and (inspect.Parameter.VAR_KEYWORD in kinds or named >= {n for n in theirs if not n.startswith("*")})


def attributes(cls):
    """What the objects of a class have."""
    found = set(getattr(cls, "__dataclass_fields__", ()))
    for one in inspect.getmro(cls)[:-1]:
        found |= vars(one).keys() | set(vars(one).get("__annotations__", ()))
        with contextlib.suppress(OSError, TypeError):  # of what is not written in Python
            found |= set(re.findall(r"^ +self\.(\w+)(?:: [^=]+)? = ", inspect.getsource(one), re.MULTILINE))
    return found


def test_the_whole_tree_is_here_but_for_what_has_a_reason():
    unexplained = [gap for gap in GAPS if not _absent.reason(gap) and gap not in NOT_LIKE_RAYS]
    assert not unexplained, "neither here nor explained"


def test_each_reason_is_for_something_that_is_not_here():
    excused = {name for gap in GAPS for name in (".".join(gap.split(".")[: i + 1]) for i in range(gap.count(".") + 1))}
    assert _absent.REASONS.keys() <= excused
    assert NOT_LIKE_RAYS.keys() <= set(GAPS)


def test_the_tree_is_of_the_version_that_is_pinned():
    assert TREE["version"] == ray_tree.VERSION, "run python/tests/ray_tree.py"


@pytest.mark.parametrize("name", ["get", "kill", "get_runtime_context", "data", "tune", "util"])
def test_what_is_absent_says_what_to_use_instead(name):
    assert not hasattr(paceline, name)
    with pytest.raises(NotImplementedError, match=rf"paceline.{name} does not exist: .*[.] See docs/porting/ray_train.md"):
        getattr(paceline, name)
    with pytest.raises(ImportError, match=f"paceline.{name} does not exist"):
        importlib.import_module(f"paceline.{name}")
    with pytest.raises(ImportError, match=f"paceline.{name} does not exist"):
        exec(f"from paceline import {name}")


def test_what_is_absent_below_an_alias_does_too():
    with pytest.raises(ImportError, match="train.base_trainer.BaseTrainer does not exist: derive from"):
        from paceline.train.base_trainer import BaseTrainer  # noqa: F401
    with pytest.raises(ImportError, match="paceline.train.tensorflow does not exist: .*PyTorch"):
        import paceline.train.tensorflow.keras  # noqa: F401
    with pytest.raises(ImportError, match="cannot import name 'nothing'"):
        from paceline.train.v2.api.config import nothing  # noqa: F401


@pytest.mark.parametrize("make", [lambda: ScalingConfig().as_placement_group_factory(),
                                  lambda: ScalingConfig.from_placement_group_factory(None),
                                  lambda: DataConfig().configure({}, 2, None, None)])  # fmt: skip
def test_absent_members_are_refused_by_name(make):
    with pytest.raises(NotImplementedError, match="paceline.train.*(Factory|factory|configure) does not exist"):
        make()


def test_aliases_hold_the_same_objects():
    import paceline.train.v2.api.config as alias
    from paceline.train.v2.api.config import RunConfig

    assert RunConfig is paceline.train.RunConfig is alias.RunConfig
    assert pickle.loads(pickle.dumps(alias.FailureConfig(max_failures=2))).max_failures == 2
    assert cloudpickle.loads(cloudpickle.dumps(alias)) is alias


def test_an_alias_can_be_the_first_import():
    program = "import paceline.train.v2.api.train_fn_utils as alias; print(alias.report.__module__)"
    ran = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True)
    assert ran.stdout == "paceline.train.session\n"


def test_files_come_before_aliases():
    folder = pathlib.Path(paceline.__file__).parent
    for name in _aliases.SOURCES:
        assert not list(folder.glob(name.replace(".", "/") + ".py")), name


GAPS = list(gaps())
