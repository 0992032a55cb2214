"""What tools/docs.py makes of headers and Markdown before Doxygen reads them."""
import pathlib

import docs
import pytest

CONFIG = """// LoopConfig: how often.
#pragma once

namespace paceline {

#define PACELINE_LOOP_CONFIG_FIELDS(FIELD)                                       \\
  FIELD(int64_t, steps, 3, ::paceline::from_to(1, 9), "Steps, not "              \\
        "epochs (of data)")                                                      \\
  FIELD(std::string, kind, "a,b", ::paceline::one_of({"a,b", "c"}), "The kind")  \\
  FIELD(bool, fast, false, ::paceline::any_value(), "As fast as it goes")
PACELINE_CONFIG(LoopConfig, PACELINE_LOOP_CONFIG_FIELDS);

}  // namespace paceline
"""


@pytest.fixture
def project(tmp_path, monkeypatch):
    """A project of one topic with one header."""
    monkeypatch.setattr(docs, "ROOT", tmp_path)
    monkeypatch.setattr(docs, "CONTENTS", tmp_path / "docs/api.md")
    monkeypatch.setattr(docs, "GUIDES", [])
    (tmp_path / "docs").mkdir()
    (tmp_path / "paceline").mkdir()
    docs.CONTENTS.write_text("# API\n\n## A topic\n\nSay [more](guide.md).\n\n[loop.h](../paceline/loop.h)\n")
    (tmp_path / "docs/guide.md").write_text("# Guide\n\n## First steps\n\n[here](#first-steps) [code](../a.cpp) [api](api.md)\n")
    return tmp_path


def filtered(project: pathlib.Path, text: str) -> list[str]:
    (project / "paceline/loop.h").write_text(text)
    return [line.strip() for line in docs.filter_header(project / "paceline/loop.h").splitlines() if line.strip()]


def test_a_configuration_is_the_struct_that_it_makes(project):
    lines = filtered(project, CONFIG)
    start = lines.index("struct LoopConfig {")
    assert lines[start - 2 : start] == ["/// How often.", "/// @ingroup topic_a_topic"]
    assert lines[start + 1 : start + 7] == [
        "/// Steps, not epochs (of data). Allowed: 1 to 9.", "int64_t steps = 3;",
        '/// The kind. Allowed: "a,b", "c".', 'std::string kind = "a,b";',
        "/// As fast as it goes.", "bool fast = false;"]


def test_indented_lines_of_a_comment_are_code(project):
    lines = filtered(project, "// F.\n#pragma once\nnamespace paceline {\n/// Say <x>:\n///\n///     f<int>();\n///\n/// End.\nvoid f();\n}\n")
    start = lines.index("/// Say \\<x\\>:")
    assert lines[start : start + 7] == [
        "/// Say \\<x\\>:", "///", "/// @code{.cpp}", "/// f<int>();", "///", "/// @endcode", "/// End."]


def test_links_lead_to_pages(project):
    guide = docs.filter_markdown(project / "docs/guide.md").splitlines()
    assert guide[0] == "# Guide {#page_docs_guide}"
    assert guide[2] == "## First steps {#page_docs_guide_first-steps}"
    assert guide[4] == "[here](@ref page_docs_guide_first-steps) code [api](modules.html)"


def test_the_guides_pages_are_below_its_index(project, monkeypatch):
    (project / "docs/guide").mkdir()
    monkeypatch.setattr(docs, "GUIDE", project / "docs/guide/README.md")
    docs.GUIDE.write_text("# The guide\n\n[Topic](topic.md) [other](../guide.md)\n")
    (project / "docs/guide/topic.md").write_text("# Topic\n\n```cpp main\nf();\n```\n")
    index = docs.filter_markdown(docs.GUIDE).splitlines()
    assert index[2] == '@subpage page_docs_guide_topic "Topic" [other](@ref page_docs_guide)'
    assert docs.filter_markdown(project / "docs/guide/topic.md").splitlines()[2] == "```cpp"


def test_a_public_header_needs_a_topic(project):
    (project / "paceline/paceline.h").write_text('#include "paceline/loop.h"\n#include "paceline/new.h"\n')
    assert docs.missing_headers({"paceline/loop.h"}) == ["paceline/new.h"]
