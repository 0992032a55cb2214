"""The examples in the docstrings of Ray Data, read from the sources in Ray's wheel, as programs for Paceline."""

import ast
import re
import textwrap

MODULES = ("dataset", "iterator", "read_api", "aggregate", "context", "collate_fn")
PREPROCESSORS = ("chain", "concatenator", "discretizer", "encoder", "hasher", "imputer", "normalizer", "scaler", "tokenizer",
                 "transformer", "vectorizer")  # fmt: skip
NETWORK = re.compile(r"(s3|gs|abfss?|https?|hdfs|mongodb|az)://")
BLOCK = re.compile(r"^( *)\.\. (testcode|doctest|testoutput)::.*\n((?:\1 +.*\n|\s*\n)+)", re.MULTILINE)


def examples(archive):
    """By name, such as "dataset.Dataset.map": the program, and what its parts are to print (None: nothing is said)."""
    files = [f"ray/data/{name}.py" for name in MODULES] + [f"ray/data/preprocessors/{name}.py" for name in PREPROCESSORS]
    for file in files:
        module = file.removeprefix("ray/data/").removesuffix(".py").replace("/", ".")
        tree = ast.parse(archive.read(file).decode())
        for owner, node in documented(tree, module):
            if found := programs(ast.get_docstring(node) or ""):
                yield owner, ported("\n".join(program for program, _ in found)), [shown for _, shown in found]


def documented(node, owner):
    for part in node.body:
        if isinstance(part, (ast.FunctionDef, ast.ClassDef)) and not part.name.startswith("_"):
            yield f"{owner}.{part.name}", part
            if isinstance(part, ast.ClassDef):
                yield from documented(part, f"{owner}.{part.name}")


def programs(docstring):
    """Blocks of testcode with the testoutput behind them, and sessions of Python's prompt, block by block."""
    found = []
    for _, kind, text in BLOCK.findall(docstring + "\n"):
        body = textwrap.dedent(re.sub(r"^\s*:\w.*\n", "", text, flags=re.MULTILINE))
        if kind == "testoutput":
            if found and "MOCK" not in text:
                found[-1] = (found[-1][0], body.strip())
        elif ">>>" in body:
            found.append(session(body))
        else:
            found.append((body.strip() + "\n", None))
    outside = BLOCK.sub("", docstring + "\n")
    if ">>>" in outside:
        found.append(session(textwrap.dedent(outside)))
    return found


def session(text):
    """What is typed at the prompt, as a program that prints what the prompt would, and what that is."""
    typed, shown = [], []
    for line in text.splitlines():
        line = line.strip("\n")
        if match := re.match(r"\s*(>>>|\.\.\.) ?(.*)", line):
            (typed.append if match[1] == ">>>" else lambda more: typed.append("\1" + more))(match[2])
        elif line.strip() and typed:
            shown.append(line.strip())
    source = "\n".join(typed).replace("\1", "")
    lines = []
    try:
        statements = ast.parse(source).body
    except SyntaxError:  # one of Ray's has an open string
        return source, None
    for statement in statements:
        code = ast.unparse(statement)
        if isinstance(statement, ast.Expr):
            code = f"_ = {code}\nif _ is not None:\n    print(repr(_))"
        lines.append(code)
    return "\n".join(lines) + "\n", "\n".join(shown)


def ported(program):
    return re.sub(r"\bray\b", "paceline", program)
