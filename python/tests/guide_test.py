"""The Python blocks of the guide's pages run, and write what the pages say. Those in C++: tests/guide."""

import guide_pages
import pytest
from guide_pages import guide

PAGES = guide.pages()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_page(page, tmp_path, monkeypatch):
    guide_pages.run_page(page, tmp_path, monkeypatch)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_each_block_of_cpp_has_its_twin_in_python(page):
    assert [str(block) for block in guide.without_twin(page)] == []
