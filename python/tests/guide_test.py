"""The Python blocks of the guide's pages run, and write what the pages say. Those in C++: tests/guide."""

import subprocess
import sys

import guide_pages
import pytest
from guide_pages import guide

PAGES = guide.pages()
OF_CPP_ALONE = ("from_libtorch",)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_page(page, tmp_path, monkeypatch):
    guide_pages.run_page(page, tmp_path, monkeypatch)


@pytest.mark.parametrize("page", [page for page in PAGES if page.stem not in OF_CPP_ALONE], ids=lambda page: page.stem)
def test_each_block_of_cpp_has_its_twin_in_python(page):
    assert [str(block) for block in guide.without_twin(page)] == []


def test_the_page_about_datasets_begins_with_a_program_that_runs_as_it_is(tmp_path):
    first = guide.blocks(guide.ROOT / "docs/data.md")[0]
    done = subprocess.run([sys.executable, "-"], input=first.code, cwd=tmp_path, capture_output=True, text=True)
    assert done.stdout.splitlines() == first.output, done.stderr
