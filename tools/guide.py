#!/usr/bin/env python3
"""The blocks of the guide (docs/guide/*.md, docs/porting/*.md) as programs, so that the tests run what the pages show.

What a block is stands behind its three ticks:

    cpp             at namespace scope: functions, classes, PACELINE_TRAIN_LOOP
    cpp main        statements of main()
    python          statements
    sh              commands, in the C++ program and in the Python program
    sh cpp          commands, in the C++ program alone
    python train.py a file in the working directory; any language, any name with a dot
    text            what the block before it writes, or the two before it, in C++ and in Python

All else (cmake, diff, blocks without a language) is only read. A page's blocks of a language, in their order, make one
program; each page has a working directory. The lines of a text block appear among those that were written, in this order
(of each rank, for lines with "(rank 0)" in front), and … stands for anything.

    tools/guide.py OUT.cpp PAGE…     writes the pages' C++ programs as one: it runs the page whose name is its argument
"""
import collections
import contextlib
import dataclasses
import os
import pathlib
import re
import shlex
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
MARK = "@@@ "


@dataclasses.dataclass
class Block:
    page: pathlib.Path
    line: int  # of its first line, from 1
    language: str
    word: str  # behind the language
    code: str
    output: list[str] = dataclasses.field(default_factory=list)  # lines that it has to write

    @property
    def is_file(self) -> bool:
        return "." in self.word

    def runs_in(self, language: str) -> bool:
        """Whether it is a step of the page's program in "cpp" or "python"."""
        statements = ("cpp", "main") if language == "cpp" else (language, "")
        return (self.language, self.word) in (statements, ("sh", ""), ("sh", language))

    def __str__(self):
        return f"{self.page}:{self.line}"


def pages() -> list[pathlib.Path]:
    """Those of the guide."""
    return [page for page in sorted((ROOT / "docs/guide").glob("*.md")) if page.name != "README.md"]


def groups(page: pathlib.Path) -> list[list[Block]]:
    """The blocks of a page; those between which no words stand are together, and texts with the blocks that write them."""
    found, lines = [[]], page.read_text().splitlines()
    number = 0
    while number < len(lines):
        fence = re.fullmatch(r"```(\w*) ?(.*)", lines[number])
        number += 1
        if fence is None:
            if lines[number - 1].strip() and found[-1]:
                found.append([])
            continue
        end = lines.index("```", number)
        block = Block(page, number + 1, fence[1], fence[2], "\n".join(lines[number:end]) + "\n")
        if block.language == "text":
            attach(block, found[-1])
        else:
            found[-1].append(block)
        number = end + 1
    return found


def attach(text: Block, group: list[Block]) -> None:
    """Gives the text to the last block of each language that may write it."""
    writers = [[block for block in group if block.runs_in(language)][-1:] for language in ("cpp", "python")]
    if not any(writers):
        raise ValueError(f"{text}: no block before it writes this text")
    for block in sum(writers, []):
        block.output = text.code.splitlines()


def blocks(page: pathlib.Path) -> list[Block]:
    return sum(groups(page), [])


def steps(page: pathlib.Path, language: str) -> list[Block]:
    """The blocks that the page's program executes one after another."""
    return [block for block in blocks(page) if block.runs_in(language)]


def set_up(page: pathlib.Path, folder: pathlib.Path, programs: pathlib.Path) -> dict[str, str]:
    """Writes the page's files into `folder`, and gives the environment in which its program runs there: the command line
    (which is in `programs`) and Python are found, and runs, which are nobody's, lie in `folder` too."""
    for block in blocks(page):
        if block.is_file:
            (folder / block.word).write_text(block.code)
    path = os.pathsep.join([str(programs), os.path.dirname(sys.executable), os.environ["PATH"]])
    return {"PATH": path, "HOME": str(folder), "PACELINE_STATE_DIR": str(folder / "state")}


@contextlib.contextmanager
def object_store(page: pathlib.Path):
    """The environment in which s3://bucket is there, for a page that names it; for others an empty one."""
    if not any("s3://bucket" in block.code for block in blocks(page)):
        yield {}
        return
    sys.path.insert(0, str(ROOT / "paceline/testing"))
    import object_servers

    with object_servers.S3() as store:
        yield {**store.environment, "AWS_ENDPOINT_URL": f"http://127.0.0.1:{store.port}"}


def without_twin(page: pathlib.Path) -> list[Block]:
    """C++ blocks that stand together with no other language."""
    return [group[0] for group in groups(page) if {block.language for block in group} == {"cpp"}]


def missing(expected: list[str], written: str) -> str | None:
    """The first expected line that was not written after the ones before it."""
    streams = collections.defaultdict(list)
    for line in written.splitlines():
        streams[rank_of(line)].append(line.rstrip())
    rests = {rank: iter(lines) for rank, lines in streams.items()}
    for line in filter(None, map(str.rstrip, expected)):
        pattern = re.compile(".*".join(map(re.escape, line.split("…"))))
        if not any(pattern.fullmatch(other) for other in rests.get(rank_of(line), ())):
            return line
    return None


def rank_of(line: str) -> str:
    marked = re.match(r"\(rank \d+\)", line)
    return marked[0] if marked else ""


# ---- C++ ----

PROLOGUE = """// Made by tools/guide.py of the guide's pages.
#include <cstdlib>
#include <iostream>

{includes}

// Names of train loops and validations are a page's own.
#undef PACELINE_TRAIN_LOOP_NAMED_
#define PACELINE_TRAIN_LOOP_NAMED_(function, number) \\
  [[maybe_unused]] static const ::paceline::TrainLoopRegistration paceline_train_loop_##number( \\
      (page() + #function).c_str(), function)
#undef PACELINE_VALIDATION_NAMED_
#define PACELINE_VALIDATION_NAMED_(function, number) \\
  [[maybe_unused]] static const ::paceline::ValidationRegistration paceline_validation_##number( \\
      (page() + #function).c_str(), function)

namespace guide {{
void begin(const char* block) {{ std::cout << std::flush << "{mark}" << block << std::endl; }}
void run(const std::string& commands) {{
  if (std::system(("bash -euc " + commands).c_str()) != 0) throw std::runtime_error("the commands have failed");
}}
}}  // namespace guide
"""

EPILOGUE = """
int main(int argc, char** argv) {{
  const std::string page = argc > 1 ? argv[1] : "";
  paceline::init(argc, argv);
  try {{
{calls}
    std::cerr << "no such page: " << page << "\\n";
    return 2;
  }} catch (const std::exception& error) {{
    std::cerr << error.what() << std::endl;
    return 1;
  }}
}}
"""


def cpp_program(all_pages: list[pathlib.Path]) -> str:
    used = [page for page in all_pages if steps(page, "cpp")]
    includes = [line for page in used for block in blocks(page) if block.language == "cpp"
                for line in block.code.splitlines() if line.startswith("#include")]
    calls = [f'    if (page == "{page.stem}") return guide::{page.stem}::run(), 0;' for page in used]
    return "\n".join([PROLOGUE.format(includes="\n".join(dict.fromkeys(includes)), mark=MARK),
                      *(line for page in used for line in cpp_namespace(page)),
                      EPILOGUE.format(calls="\n".join(calls))])


def cpp_namespace(page: pathlib.Path) -> list[str]:
    """The lines of a page's part of the program: its declarations, and run() with its statements."""
    declared, executed = [], []
    for block in blocks(page):
        lines = ["" if line.startswith("#include") else line for line in block.code.splitlines()]
        place = f'#line {block.line} "{page}"'
        if block.runs_in("cpp"):
            executed.append(f'guide::begin("{block.line}");')
            executed += [place, *lines] if block.language == "cpp" else [f'guide::run(R"___({shlex.quote(block.code)})___");']
        elif block.language == "cpp" and not block.is_file:
            declared += [place, *lines]
    return [f"namespace guide::{page.stem} {{", f'static std::string page() {{ return "{page.stem}."; }}', *declared,
            "void run() {", *executed, "}", f"}}  // namespace guide::{page.stem}"]


def by_block(output: str) -> dict[int, str]:
    """What a C++ program has written, by the line of its blocks."""
    parts = re.split(rf"^{MARK}(\d+)\n", output, flags=re.MULTILINE)
    return {int(line): text for line, text in zip(parts[1::2], parts[2::2])}


def main() -> None:
    out, *names = sys.argv[1:]
    pathlib.Path(out).write_text(cpp_program([pathlib.Path(name) for name in names]))


if __name__ == "__main__":
    main()
