"""Hooks of MkDocs: generated pages, and links to files of the repository outside ``docs``.

A page of ``docs`` may link to any file of the repository. Each linked file becomes a file of the
site under its own path: Markdown as a page, text as a page with one code block, a folder as a list
of its files, anything else as a download. The same link works in a checkout and on the site.
"""

import json
import re
import tempfile
from collections.abc import Iterator
from pathlib import Path
from posixpath import normpath, relpath

from mkdocs.structure.files import File

from gread.explorer import export
from gread.report.claims import Claim
from studies.build_commands import commands

ROOT = Path(__file__).parents[1]
LINK = re.compile(r"(?<=\]\()(?P<path>[^)#:\s]+)(?P<anchor>#[^)\s]*)?(?=\))")
LANGUAGES = {".py": "python", ".toml": "toml"}


def on_files(files, config):
    """Add generated pages, the explorer, and every linked file of the repository."""
    generated = {
        "reference/cli.md": commands(),
        "results/figures.md": figures(),
        "results/index.md": tables(),
        "assets/playground.html": explorer(),
    }
    for uri, content in generated.items():
        files.append(File.generated(config, uri, content=content))
    waiting = [
        (repository_path(file.src_uri), file.content_string) for file in files.documentation_pages()
    ]
    waiting += [("mkdocs.yml", "](CONTRIBUTING.md)](SECURITY.md)](CHANGELOG.md)")]
    while waiting:
        path, content = waiting.pop()
        for target in linked(path, content):
            uri = site_path(target)
            if target.startswith("docs/") or uri in files.src_uris or not (ROOT / target).exists():
                continue  # a missing file stays a broken link, which strict mode reports
            if uri.endswith(".md"):
                page = rendered(ROOT / target)
                files.append(File.generated(config, uri, content=page))
                waiting.append((uri, page))
            else:
                files.append(File.generated(config, uri, abs_src_path=str(ROOT / target)))
    return files


def on_page_markdown(markdown, page, config, files):
    """Change links to the paths of the files on the site."""
    here = repository_path(page.file.src_uri)
    if Path(here).stem.endswith(tuple(LANGUAGES)):
        return markdown  # code has no links

    def moved(link: re.Match[str]) -> str:
        target = site_path(resolved(here, link["path"]))
        return relpath(target, Path(page.file.src_uri).parent.as_posix()) + (link["anchor"] or "")

    return LINK.sub(moved, markdown)


def on_post_page(output, page, config):
    """Name the search dialog, which the theme leaves without a name for screen readers."""
    dialog = 'data-md-component="search" role="dialog"'
    return output.replace(dialog, f'{dialog} aria-label="Search"')


def linked(path: str, content: str) -> Iterator[str]:
    """Paths in the repository of the files that a page links to."""
    for link in LINK.finditer(content):
        yield resolved(path, link["path"])


def resolved(path: str, link: str) -> str:
    """Path in the repository of a link on the page ``path``."""
    return normpath(f"{Path(path).parent.as_posix()}/{link}")


def site_path(path: str) -> str:
    """Source path on the site of a file of the repository."""
    if path.startswith("docs/"):
        return path.removeprefix("docs/")
    if (ROOT / path).is_dir():
        return f"{path}/index.md"
    return f"{path}.md" if Path(path).suffix in LANGUAGES else path


def repository_path(uri: str) -> str:
    """Path in the repository of a file of the site."""
    if (ROOT / "docs" / uri).exists():
        return f"docs/{uri}"
    return uri


def rendered(file: Path) -> str:
    """A file of the repository as a page."""
    name = file.relative_to(ROOT).as_posix()
    if file.is_dir():
        inside = sorted(one.name for one in file.iterdir() if not one.name.startswith(("_", ".")))
        body = "\n".join(f"- [{one}]({one})" for one in inside)
    elif file.suffix in LANGUAGES:
        body = f"````{LANGUAGES[file.suffix]}\n{file.read_text('utf-8')}````"
    else:
        return file.read_text("utf-8")
    return f"---\nsearch:\n  exclude: true\n---\n\n# {name}\n\n{body}\n"


def figures() -> str:
    """Every committed figure with its note and the claims of the paper about it."""
    parts = [
        "# Figures",
        "Every figure of the paper, and some beyond it, from stored runs. `gread reproduce NAME` "
        "makes one, and [Tables and figures](../docs/figures.md) explains the commands.",
    ]
    for path in sorted((ROOT / "results").glob("*.json"), key=number):
        chart = json.loads(path.read_text("utf-8"))
        if not isinstance(chart, dict) or "panels" not in chart:
            continue
        parts += [f"## {chart['title']}", f"![{chart['title']}]({path.stem}.svg)", chart["note"]]
        parts += [f"- {Claim(**claim)}" for claim in chart["claims"]]
        parts += [f"`gread reproduce {path.stem}` draws it from stored runs."]
    return "\n\n".join(parts) + "\n"


def tables() -> str:
    """The committed tables with their titles."""
    parts = [
        "# Tables",
        "Every accuracy table of the paper, recomputed, with the paper's number and the "
        "difference below each of ours.",
    ]
    for path in sorted((ROOT / "results").glob("*.md"), key=number):
        parts.append(f"- [{path.read_text('utf-8').splitlines()[0].lstrip('# ')}]({path.name})")
    return "\n\n".join(parts[:2]) + "\n\n" + "\n".join(parts[2:]) + "\n"


def number(path: Path) -> tuple[bool, int, str]:
    """Sort key: tables and figures of the paper by number, then the others by name."""
    digits = re.sub(r"\D", "", path.stem)
    return not digits, int(digits or 0), path.stem


def explorer() -> str:
    """The playground as one HTML file."""
    with tempfile.TemporaryDirectory() as folder:
        page = Path(folder, "page.html")
        export(page, store=folder)
        return page.read_text("utf-8")
