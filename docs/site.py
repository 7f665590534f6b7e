"""Hooks of the site.

Its first page is the README. Marks in pages are replaced by what the declarations say. A link to what is no page of the site is
shown as a path in the repository.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from declarations import completed  # beside this file, from where hooks import
from mkdocs.structure.files import File, Files

ROOT = Path(__file__).parents[1]


def on_files(files: Files, config: Any) -> Files:
    """Add the README as the first page, with links as they are from docs/."""
    text = (ROOT / "README.md").read_text(encoding="utf-8").replace("](docs/", "](")
    text = re.sub(r"\]\((?=CHANGELOG|adapters/|benchmarks)", "](../", text)
    files.append(File.generated(config, "index.md", content=text))
    return files


def on_page_markdown(markdown: str, page: Any, files: Files, **_: Any) -> str:
    """Fill in what declarations say, and show a link to a file or folder of the repository that is no page as its path."""
    markdown = completed(markdown, (ROOT / "docs" / "frames.txt").read_text(encoding="utf-8"))
    here = ROOT / "docs" / Path(page.file.src_uri).parent

    def shown(link: re.Match[str]) -> str:
        target = (here / link["target"]).resolve()
        inside = target.relative_to(ROOT / "docs").as_posix() if target.is_relative_to(ROOT / "docs") else None
        if not target.exists() or (inside and files.get_file_from_path(inside) and not target.is_dir()):
            return link[0]
        return f"{link['text']} (`{target.relative_to(ROOT).as_posix()}`)"

    return re.sub(r"(?<!!)\[(?P<text>[^\]]*)\]\((?P<target>(?!\w+:|#)[^)#\s]+)(?:#[^)]*)?\)", shown, markdown)
