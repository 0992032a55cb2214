"""The examples in the docstrings of Ray Data, read from the sources in Ray's wheel, as programs for Paceline.

    python ray_docstrings.py < PROGRAMS.json > OUTCOMES.json

runs programs, each in a fork of one process that has imported Paceline. A program is a list of texts by name; the outcome
of each text is what it has printed, and its error or null.
"""

import ast
import contextlib
import io
import json
import os
import re
import signal
import sys
import textwrap

MODULES = ("dataset", "iterator", "read_api", "aggregate", "context", "collate_fn")
PREPROCESSORS = ("chain", "concatenator", "discretizer", "encoder", "hasher", "imputer", "normalizer", "scaler", "tokenizer",
                 "transformer", "vectorizer")  # fmt: skip
BLOCK = re.compile(r"^( *)\.\. (testcode|doctest|testoutput)::.*\n((?:\1 +.*\n|\s*\n)+)", re.MULTILINE)
SECONDS = 60  # that a program may take


def examples(archive):
    """By name, such as "dataset.Dataset.map": statements or programs, with what each is to print, where that is said."""
    files = [f"ray/data/{name}.py" for name in MODULES] + [f"ray/data/preprocessors/{name}.py" for name in PREPROCESSORS]
    for file in files:
        module = file.removeprefix("ray/data/").removesuffix(".py").replace("/", ".")
        for owner, node in documented(ast.parse(archive.read(file).decode()), module):
            if found := programs(ast.get_docstring(node) or ""):
                yield owner, [(re.sub(r"\bray\b", "paceline", program), shown) for program, shown in found]


def documented(node, owner):
    for part in node.body:
        if isinstance(part, (ast.FunctionDef, ast.ClassDef)) and not part.name.startswith("_"):
            yield f"{owner}.{part.name}", part
            if isinstance(part, ast.ClassDef):
                yield from documented(part, f"{owner}.{part.name}")


def programs(docstring):
    """Blocks of testcode with the testoutput behind them, and statements at Python's prompt."""
    found = []
    for _, kind, text in BLOCK.findall(docstring + "\n"):
        body = textwrap.dedent(re.sub(r"^\s*:\w.*\n", "", text, flags=re.MULTILINE))
        if kind == "testoutput":
            if found and "MOCK" not in text:
                found[-1] = (found[-1][0], body.strip())
        elif ">>>" in body:
            found += session(body)
        else:
            found.append((body.strip() + "\n", None))
    outside = BLOCK.sub("", docstring + "\n")
    return found + session(outside)


def session(text):
    """What is typed at the prompt, statement by statement, and what the prompt prints until an empty line."""
    found, typed, shown = [], [], None
    for line in [*text.splitlines(), ">>>"]:
        if match := re.match(r"\s*(>>>|\.\.\.)(?: (.*)|$)", line):
            if match[1] == ">>>" and typed:
                found.append((printing("\n".join(typed)), "\n".join(shown) if shown else None))
                typed = []
            shown = []
            typed.append(match[2] or "")
        elif not line.strip():
            shown, typed = (None, []) if not typed else (shown, typed)
            if typed:
                found.append((printing("\n".join(typed)), "\n".join(shown) if shown else None))
                typed, shown = [], None
        elif shown is not None and typed:
            shown.append(line.strip())
    return [(code, shown) for code, shown in found if code.strip() and "+SKIP" not in code]


def printing(typed):
    """The statement as the prompt has it: its value is printed."""
    try:
        tree = ast.parse(typed).body
    except SyntaxError:  # of Ray's own
        return typed
    if len(tree) == 1 and isinstance(tree[0], ast.Expr):
        return f"_ = {ast.unparse(tree[0])}  #{typed.rpartition('#')[2] if '# doctest' in typed else ''}\nif _ is not None:\n    print(repr(_))\n"
    return typed + "\n"


def outcomes(parts, folder):
    """Of each part [what it prints, its error], in a fork."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        signal.alarm(SECONDS)
        os.chdir(folder)
        names, found = {"__name__": "__main__", "paceline": paceline}, []
        for part in parts:
            said, error = io.StringIO(), None
            try:
                with contextlib.redirect_stdout(said):
                    exec(compile(part, "example", "exec"), names)
            except BaseException as raised:
                error = f"{type(raised).__name__}: {raised}"[:500]
            found.append([said.getvalue(), error])
        with os.fdopen(writing, "w") as pipe:
            json.dump(found, pipe)
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as pipe:
        text = pipe.read()
    os.waitpid(child, 0)
    return json.loads(text) if text else [["", f"no end within {SECONDS} s"]]


if __name__ == "__main__":
    import paceline.data  # once, for all

    given = json.load(sys.stdin)
    json.dump({name: outcomes(parts, given["folder"]) for name, parts in given["programs"].items()}, sys.stdout)
