#!/usr/bin/env python3
"""Makes the API reference with the guides, in build/docs (`make docs`).

docs/api.md is the table of contents of the API: each of its sections is a topic, and the headers it links to are read.
A header that paceline.h includes has to be in one. What users never name stays out (Doxyfile, EXCLUDE_SYMBOLS).

Doxygen reads the sources as `tools/docs.py --filter FILE` prints them, because comments are written for readers of the
file: the comment at a header's top describes the file, or the class that it begins with ("Result: …"); an indented
block is C++; a configuration's macro is the struct that it makes; links between Markdown files are links between pages.

    tools/docs.py [--output FOLDER]
"""
import argparse
import pathlib
import re
import shutil
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
CONTENTS = ROOT / "docs/api.md"
GUIDE = ROOT / "docs/guide/README.md"  # its pages are below it
GUIDES = ["README.md", "docs/guide/README.md", "docs/installation.md", "docs/training.md", "docs/configuration.md"]  # then the rest by name
NAVIGATION = """  <navindex>
    <tab type="mainpage" visible="yes" title="Overview"/>
    <tab type="modules" visible="yes" title="API by topic" intro="What users call, by what it is for."/>
    <tab type="pages" visible="yes" title="Guides" intro=""/>
    <tab type="classlist" visible="yes" title="All classes" intro=""/>
  </navindex>"""


def slug(heading: str) -> str:
    """The anchor that GitHub gives a heading."""
    return re.sub(r"[^\w\- ]", "", heading.lower().replace("`", "")).replace(" ", "-")


def topics() -> dict[str, tuple[str, list[str]]]:
    """Of docs/api.md: by title, a topic's text and its headers."""
    found = {}
    for section in re.split(r"^## ", CONTENTS.read_text(), flags=re.MULTILINE)[1:]:
        title, body = section.split("\n", 1)
        headers = re.findall(r"\]\(\.\./(paceline/[\w/]+\.h)\)", body)
        found[title] = (body.split("\n[", 1)[0].strip(), headers)
    return found


def group_of(title: str) -> str:
    return "topic_" + slug(title).replace("-", "_")


# ---- headers ----


def escape(line: str) -> str:
    """Keeps Doxygen from taking <name> for HTML, # for a link and @ for a command, outside of `code`."""
    parts = line.split("`")
    parts[::2] = [re.sub(r"([<>#@])", r"\\\1", part) for part in parts[::2]]
    return "`".join(parts)


def doc_comment(lines: list[str], indent: str = "") -> list[str]:
    """Lines of a comment, without its slashes, as a Doxygen comment."""
    out, in_code = [], False
    for line in [*lines, ""]:
        is_code = line.startswith("    ") or (in_code and not line)
        if in_code and not is_code or in_code and line == "" and len(out) == len(lines):
            out.append("@endcode")
            in_code = False
        if is_code and not in_code and line:
            out.append("@code{.cpp}")
            in_code = True
        out.append(line.removeprefix("    ") if in_code else escape(line))
    if in_code:
        out.insert(len(out) - 1, "@endcode")
    return [f"{indent}/// {line}".rstrip() for line in out[:-1]]


# The constraints of core/config/constraint.h in words.
CONSTRAINTS = {"at_least": "at least {}", "more_than": "more than {}", "between": "between {} and {}, both excluded",
               "from_to": "{} to {}", "file_name": "what can be a file's name"}


def allowed(constraint: str) -> str:
    """What may stand in a field: at_least(1) becomes "Allowed: at least 1."."""
    name, arguments = re.fullmatch(r"(?:::)?(?:paceline::)?(\w+)\((.*)\)", constraint, re.DOTALL).groups()
    if name == "any_value":
        return ""
    if name == "one_of":
        return f" Allowed: {arguments.strip('{}')}."
    words = CONSTRAINTS.get(name, name + "()")  # Doxygen links the function
    return f" Allowed: {words.format(*split_arguments(arguments))}."


def split_arguments(text: str) -> list[str]:
    """Arguments of a macro, split at its own commas."""
    parts, depth, quoted = [""], 0, False
    for i, character in enumerate(text):
        quoted ^= character == '"' and text[i - 1] != "\\"
        if not quoted:
            depth += (character in "({<") - (character in ")}>")
        if character == "," and depth == 0 and not quoted:
            parts.append("")
        else:
            parts[-1] += character
    return [part.strip() for part in parts]


def fields(body: str):
    """The arguments of every FIELD(…) of a macro's body."""
    body = body.replace("\\\n", "\n")
    for start in re.finditer(r"FIELD\(", body):
        depth, end, quoted = 1, start.end(), False
        while depth:
            quoted ^= body[end] == '"'
            if not quoted:
                depth += (body[end] == "(") - (body[end] == ")")
            end += 1
        yield split_arguments(body[start.end() : end - 1])


FIELDS = re.compile(r"((?:^//[^\n]*\n)*)^#define (PACELINE_\w+_FIELDS)\(FIELD\)((?:.*\\\n)*.*)\n", re.MULTILINE)


# Adapters to JSON, iterators of range-based loops, internal macros (PACELINE_X_): nobody writes their names.
NEEDLESS = [
    re.compile(r"^template <>\nstruct nlohmann::.*?^};\n", re.MULTILINE | re.DOTALL),
    re.compile(r"(^  ///[^\n]*\n)*^  class Iterator \{.*?^  };\n", re.MULTILINE | re.DOTALL),
    re.compile(r"^#define PACELINE_\w+_\(.*(?:\\\n.*)*\n", re.MULTILINE),
    re.compile(r"^PACELINE_\w+_\(.*\n", re.MULTILINE),
]


def expand_records(text: str) -> str:
    """Replaces PACELINE_CONFIG and PACELINE_RECORD by the structs that they make."""
    lists = {match[2]: match for match in FIELDS.finditer(text)}

    def struct(match: re.Match) -> str:
        kind, name, list_name = match.groups()
        lines = [comment.replace("//", "///", 1) for comment in lists[list_name][1].splitlines()]
        lines.append(f"struct {name} {{")
        for type_name, field, default, *rest in fields(lists[list_name][3]):
            words = "".join(re.findall(r'"((?:[^"\\]|\\.)*)"', rest[1])) + "." + allowed(rest[0]) if rest else f"Default: `{default}`."
            lines += [f"  /// {words}", f"  {type_name.removeprefix('::')} {field} = {default};"]
        if kind == "CONFIG":
            lines.append("  /// ConfigError naming the first field whose value is not allowed, the value, and what is.")
            lines.append("  void validate() const;")
        return "\n".join([*lines, "};"])

    expanded = re.sub(r"^PACELINE_(CONFIG|RECORD)\((\w+), (\w+)\);$", struct, text, flags=re.MULTILINE)
    expanded = FIELDS.sub("", expanded)
    for needless in NEEDLESS:
        expanded = needless.sub("", expanded)
    return expanded


def filter_header(path: pathlib.Path) -> str:
    relative = path.relative_to(ROOT).as_posix()
    group = next((group_of(title) for title, (_, headers) in topics().items() if relative in headers), None)
    if group is None:
        return ""  # Doxygen follows includes
    top, rest = path.read_text().split("#pragma once\n", 1)
    rest = expand_records(rest)
    about = [line.removeprefix("//").removeprefix(" ") for line in top.rstrip().splitlines()]
    described = re.match(r"(\w+): (.*)", about[0])  # "Result: what a run has left …"
    if described and re.search(rf"^(class|struct) {described[1]}\b[^;]*{{", rest, re.MULTILINE):
        about[0] = described[2][0].upper() + described[2][1:]
        out = ["/// @file", ""]
    else:
        described = None
        out = ["/// @file", "", f"/// @addtogroup {group}", *doc_comment(["", *about]), ""]
    comment: list[str] = []
    for line in rest.splitlines():
        stripped = line.strip()
        indent = line[: len(line) - len(line.lstrip())]
        if stripped.startswith("///") and not stripped.startswith("///<"):
            comment.append(stripped.removeprefix("///").removeprefix(" "))
            continue
        name = re.match(r"(?:class|struct) (\w+)[^;]*\{", line)
        if name and described and name[1] == described[1]:
            comment = [*comment, "", *about] if comment else about
        out += doc_comment(comment, indent)
        if not indent and (comment or name):
            out.append(f"/// @ingroup {group}")
        comment = []
        if not re.match(r"\s*(friend .*|.*operator==.*|.*= delete;)$", line):
            out.append(line)
    return "\n".join([*out, ""])


# ---- Markdown ----


def label(path: pathlib.Path, fragment: str = "") -> str:
    stem = "page_" + path.relative_to(ROOT).with_suffix("").as_posix().replace("/", "_").lower()
    return f"{stem}_{fragment}" if fragment else stem


def link_pages(line: str, path: pathlib.Path) -> str:
    """Links of a line of `path` as Doxygen's; those to source files, which have no page, become text."""
    pages = markdown_pages()

    def link(match: re.Match) -> str:
        text, target = match.groups()
        if "://" in target:
            return match[0]
        file, _, fragment = target.partition("#")
        absolute = (path.parent / file).resolve() if file else path
        if absolute == CONTENTS:
            return f"[{text}](modules.html)"
        if path == GUIDE and absolute.parent == GUIDE.parent:
            return f'@subpage {label(absolute)} "{text}"'
        return f"[{text}](@ref {label(absolute, fragment)})" if absolute in pages else text

    return re.sub(r"(?<!!)\[([^\]]+)\]\(([^)\s]+)\)", link, line)


def filter_markdown(path: pathlib.Path) -> str:
    out, in_fence = [], False
    for line in path.read_text().splitlines():
        if line.startswith("```"):
            in_fence = not in_fence
            line = line.split()[0]  # what tools/guide.py reads behind the language
        elif not in_fence and not line.startswith("    "):
            heading = re.match(r"(#+) (.*)", line)
            if not heading:
                line = link_pages(line, path)
            else:
                line += f" {{#{label(path, '' if heading[1] == '#' else slug(heading[2]))}}}"
        out.append(line)
    return "\n".join([*out, ""])


# ---- the whole ----


def markdown_pages() -> list[pathlib.Path]:
    first = [ROOT / name for name in GUIDES]
    others = [*sorted((ROOT / "docs").rglob("*.md")), *sorted(ROOT.glob("*.md"))]
    return first + [path for path in others if path not in first and path != CONTENTS]


def missing_headers(known: set[str]) -> list[str]:
    umbrella = (ROOT / "paceline/paceline.h").read_text()
    return [name for name in re.findall(r'#include "(paceline/[^"]+)"', umbrella) if name not in known]


def make(output: pathlib.Path) -> int:
    contents = topics()
    headers = [header for _, listed in contents.values() for header in listed]
    if missing := missing_headers(set(headers)):
        print(f"docs: paceline.h includes {', '.join(missing)}; name it under a topic of docs/api.md", file=sys.stderr)
        return 1
    shutil.rmtree(output, ignore_errors=True)
    output.mkdir(parents=True)
    (output / "topics.dox").write_text("".join(
        f"/// @defgroup {group_of(title)} {title}\n/// {link_pages(' '.join(text.split()), CONTENTS)}\n"
        for title, (text, _) in contents.items()))
    layout = output / "layout.xml"
    subprocess.run(["doxygen", "-l", layout], check=True, stdout=subprocess.DEVNULL)
    layout.write_text(re.sub(r"  <navindex>.*</navindex>", NAVIGATION, layout.read_text(), flags=re.DOTALL))
    version = re.search(r"VERSION (\S+)", (ROOT / "CMakeLists.txt").read_text().split("project(")[1])[1]
    settings = {
        "INPUT": " ".join(str(path) for path in [output / "topics.dox", *headers, *markdown_pages()]),
        "USE_MDFILE_AS_MAINPAGE": str(ROOT / "README.md"),
        "INPUT_FILTER": f'"{sys.executable} -B {pathlib.Path(__file__).resolve()} --filter"',
        "LAYOUT_FILE": str(layout),
        "PROJECT_NUMBER": version,
        "OUTPUT_DIRECTORY": str(output),
        "HTML_OUTPUT": ".",
    }
    text = (ROOT / "tools/Doxyfile").read_text() + "".join(f"{key} = {value}\n" for key, value in settings.items())
    done = subprocess.run(["doxygen", "-"], input=text, text=True, cwd=ROOT)
    return done.returncode


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output", type=pathlib.Path, default=ROOT / "build/docs")
    parser.add_argument("--filter", type=pathlib.Path, metavar="FILE", help="print FILE as Doxygen is to read it")
    options = parser.parse_args()
    if options.filter is None:
        return make(options.output.resolve())
    path = options.filter.resolve()
    if path.suffix == ".md":
        print(filter_markdown(path), end="")
    elif path.suffix == ".h":
        print(filter_header(path), end="")
    else:
        print(path.read_text(), end="")
    return 0


if __name__ == "__main__":
    sys.exit(main())
