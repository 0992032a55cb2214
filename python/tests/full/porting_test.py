"""The blocks of docs/porting/ run: scripts of Ray Train, Lightning and Accelerate after porting."""

import guide_pages
import pytest

PAGES = sorted((guide_pages.guide.ROOT / "docs/porting").glob("*.md"))


@pytest.mark.parametrize("page", [page for page in PAGES if guide_pages.guide.steps(page, "python")], ids=lambda page: page.stem)
def test_the_blocks_run_and_write_what_the_page_says(tmp_path, monkeypatch, page):
    guide_pages.run_page(page, tmp_path, monkeypatch)
