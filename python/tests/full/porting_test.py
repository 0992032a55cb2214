"""The blocks of docs/porting.md run: scripts of Ray Train, Lightning and Accelerate after porting."""

import guide_pages


def test_the_blocks_run_and_write_what_the_page_says(tmp_path, monkeypatch):
    guide_pages.run_page(guide_pages.guide.ROOT / "docs/porting.md", tmp_path, monkeypatch)
