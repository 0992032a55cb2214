"""Ray Train's and Ray Data's public trees, as names: modules, what they define, parameters, members. Read from the sources in Ray's wheel,
of which nothing is installed or run.

    .venv/bin/python python/tests/ray_tree.py

downloads the wheel that versions.env names and writes ray_tree.json anew, which ray_tree_test.py compares with Paceline.

In that file a name has the definition that it stands for; a function's definition is its parameters, a class's its own
parameters and its members; null is a name without parts. "*" stands before parameters that are given by name alone.
"""

import ast
import functools
import json
import pathlib
import re
import subprocess
import sys
import zipfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
TREE = pathlib.Path(__file__).with_name("ray_tree.json")
DOWNLOADS = ROOT / "build" / "test_downloads"  # kept between runs of the tests
VERSION = re.search(r"^RAY_VERSION=(\S+)$", (ROOT / "versions.env").read_text(), re.MULTILINE)[1]
PACKAGES = ("ray/train/", "ray/air/")
# Of Ray Data the modules from which scripts import.
DATA = ("", ".aggregate", ".block", ".collate_fn", ".context", ".datasource", ".expressions", ".iterator", ".preprocessor",
        ".preprocessors")  # fmt: skip
# Where a former class of the same name is kept in another module, today's counts.
TODAY = ("ray.train", "ray.train.torch", "ray.train.v2.api.data_parallel_trainer")
# What Ray's users are handed without importing it.
OBJECTS = (
    "ray._private.worker.RayContext",
    "ray.train.v2._internal.execution.context.TrainRunContext",
    "ray.train.v2._internal.execution.storage.StorageContext",
)
NOT_NAMES = re.compile(r"_|logger$|[A-Z]$")
NOT_PUBLIC = re.compile(r"/(_|tests/|examples/|benchmarks/)")


def wheel() -> zipfile.ZipFile:
    """Ray's wheel, as it is published."""
    found = list(DOWNLOADS.glob(f"ray-{VERSION}-*.whl"))
    if not found:
        DOWNLOADS.mkdir(parents=True, exist_ok=True)
        command = [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "-d", DOWNLOADS, f"ray=={VERSION}"]
        subprocess.run(command, check=True)
        found = list(DOWNLOADS.glob(f"ray-{VERSION}-*.whl"))
    return zipfile.ZipFile(found[0])


class Module:
    """A source file: what its names stand for, where Train's version 2 is enabled, as it is by default."""

    def __init__(self, name: str, is_package: bool, text: str):
        self.name, self._is_package, self._lines = name, is_package, text.splitlines()
        self.names = {}  # to a node, or (module, name), or None
        self.own, self.listed, self.starred = [], [], []
        self._read(ast.parse(text).body)

    def public(self):
        """What the module lists, else what it defines, and imports so that others import it from there."""
        names = self.listed or [name for name in self.own if not re.match(NOT_NAMES, name)]
        if self.name.startswith("ray.data"):  # whose constants are the usual values of its own settings
            names = [name for name in names if self.names.get(name, 0) is not None or not name.isupper()]
        return list(dict.fromkeys(name for name in names if not name.startswith("_")))

    def _read(self, body):
        for node in body:
            if isinstance(node, (ast.ClassDef, ast.FunctionDef)):
                self._define(node.name, node)
            elif isinstance(node, (ast.Assign, ast.AnnAssign, ast.AugAssign)):
                self._assign(node)
            elif isinstance(node, ast.ImportFrom):
                self._import(node)
            elif isinstance(node, ast.If):
                test = ast.unparse(node.test)
                if test != "TYPE_CHECKING":
                    self._read(node.body + ([] if test == "is_v2_enabled()" else node.orelse))
            elif isinstance(node, ast.Try):
                self._read(node.body)
            elif match := re.match(r"__all__\.extend\((.*)\)$", ast.unparse(node), re.DOTALL):
                self.listed += ast.literal_eval(match[1])

    def _define(self, name, what):
        self.names[name] = what
        self.own.append(name)

    def _assign(self, node):
        for target in node.targets if isinstance(node, ast.Assign) else [node.target]:
            if ast.unparse(target) == "__all__":
                self.listed += ast.literal_eval(node.value)
            elif isinstance(target, ast.Name) and not ast.unparse(node).partition("= ")[2].startswith("TypeVar("):
                self._define(target.id, None)

    def _import(self, node):
        base = self.name.split(".") if self._is_package else self.name.split(".")[:-1]
        base = base[: len(base) - node.level + 1] if node.level else []
        source = ".".join([*base, *filter(None, [node.module])])
        for one in node.names:
            if one.name == "*":
                self.starred.append(source)
                continue
            self.names[one.asname or one.name] = (source, one.name)
            if any("F401" in self._lines[line - 1] for line in (node.lineno, one.lineno)):
                self.own.append(one.asname or one.name)


class Tree:
    """All of Ray's sources."""

    def __init__(self, archive: zipfile.ZipFile):
        self._archive = archive
        self._files = {name for name in archive.namelist() if name.startswith("ray/") and name.endswith(".py")}

    @functools.lru_cache(maxsize=None)
    def module(self, name: str):
        for file in (name.replace(".", "/") + "/__init__.py", name.replace(".", "/") + ".py"):
            if file in self._files:
                return Module(name, file.endswith("/__init__.py"), self._archive.read(file).decode())
        return None

    def public_modules(self):
        for file in sorted(self._files):
            if file.startswith(PACKAGES) and not NOT_PUBLIC.search(file.replace("__init__.py", "")):
                yield file.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
        yield from (f"ray.data{name}" for name in DATA)

    def public_names(self, module: Module):
        names = module.public()
        if not module.listed:
            names += [name for source in module.starred if (one := self.module(source)) for name in one.public()]
        return dict.fromkeys(names)

    def below(self, package: str):
        """The modules and packages of a package."""
        begin = package.replace(".", "/")
        found = {re.match(begin + r"/([a-z]\w*)(\.py|/__init__\.py)$", file) for file in self._files}
        return sorted(match[1] for match in found if match)

    def find(self, module: str, name: str):
        """Where `name` is defined, and its node; the node is None where that is no class or function of Ray's."""
        one = self.module(module)
        if one is None:
            return f"{module}.{name}", None, None
        what = one.names.get(name)
        if what is None and name not in one.names:
            for source in one.starred:
                where, node, home = self.find(source, name)
                if node is not None:
                    return where, node, home
        if isinstance(what, tuple) and what != (module, name):  # a package imports its own modules so
            return self.find(*what)
        return f"{module}.{name}", None if isinstance(what, tuple) else what, one

    def described(self, node, module: Module):
        if isinstance(node, ast.FunctionDef):
            return parameters(node)
        members, init, fields = {}, None, []
        for base in node.bases:
            if isinstance(base, ast.Name):
                _, parent, home = self.find(module.name, base.id)
                if isinstance(parent, ast.ClassDef):
                    theirs = self.described(parent, home)
                    members |= theirs["members"]
                    init, fields = theirs["parameters"], [*fields, *theirs["parameters"]]
        is_enum = any(ast.unparse(base) == "Enum" for base in node.bases)
        for part in node.body:
            if isinstance(part, ast.FunctionDef):
                if part.name in ("__init__", "__post_init__"):
                    members |= {name: None for name in assigned(part) if not name.startswith("_")}
                if part.name == "__init__":
                    init = parameters(part)[1:]
                elif not part.name.startswith("_"):
                    marks = {ast.unparse(one) for one in part.decorator_list}
                    is_property = any(mark.endswith(("property", ".setter")) for mark in marks)
                    without_self = parameters(part)[0 if "staticmethod" in marks else 1 :]
                    members[part.name] = None if is_property else without_self
            elif isinstance(part, (ast.Assign, ast.AnnAssign)):
                target = part.targets[0] if isinstance(part, ast.Assign) else part.target
                if isinstance(target, ast.Name) and not target.id.startswith("_"):
                    members[target.id] = {"value": ast.literal_eval(part.value)} if is_enum else None
                    if isinstance(part, ast.AnnAssign) and target.id not in fields:
                        fields.append(target.id)
        if any(ast.unparse(one).startswith("dataclass") for one in node.decorator_list):
            init = fields
        return {"parameters": init or [], "members": dict(sorted(members.items()))}


def parameters(function: ast.FunctionDef):
    given = function.args
    names = [one.arg for one in given.posonlyargs + given.args]
    names += [f"*{given.vararg.arg}"] if given.vararg else ["*"] if given.kwonlyargs else []
    return names + [one.arg for one in given.kwonlyargs] + ([f"**{given.kwarg.arg}"] if given.kwarg else [])


def assigned(function: ast.FunctionDef):
    """The attributes that a method gives its object."""
    targets = [t for node in ast.walk(function) if isinstance(node, ast.Assign) for t in node.targets]
    targets += [node.target for node in ast.walk(function) if isinstance(node, ast.AnnAssign)]
    return [ast.unparse(t)[5:] for t in targets if re.fullmatch(r"self\.\w+", ast.unparse(t))]


def read(archive: zipfile.ZipFile):
    """The public tree of the wheel `archive`."""
    tree = Tree(archive)
    definitions = {}
    today = {name: module for module in TODAY for name in tree.module(module).public()}

    def place(module, name):
        where, node, home = tree.find(today.get(name, module) if module.startswith(("ray.train", "ray.air")) else module, name)
        if node is not None:
            definitions[where] = tree.described(node, home)
        return where if node is not None else None

    names = {"ray": dict.fromkeys(tree.below("ray")) | {name: place("ray", name) for name in tree.module("ray").public()}}
    for module in tree.public_modules():
        names[module] = {name: place(module, name) for name in tree.public_names(tree.module(module))}
    names["ray.data"] = dict.fromkeys(tree.below("ray.data")) | names["ray.data"]
    objects = [place(*one.rsplit(".", 1)) for one in OBJECTS]
    return {"version": VERSION, "names": names, "objects": objects, "definitions": dict(sorted(definitions.items()))}


def text(tree) -> str:
    """`tree` as JSON, a line for each name."""

    def lines(value, depth):
        if not isinstance(value, dict) or not value or depth == 0:
            return json.dumps(value)
        pad = " " * (4 - depth)
        parts = [f"{pad}{json.dumps(key)}: {lines(part, depth - 1)}" for key, part in value.items()]
        return "{\n" + ",\n".join(parts) + "\n" + pad[1:] + "}"

    return lines(tree, 3) + "\n"


if __name__ == "__main__":
    TREE.write_text(text(read(wheel())))
