"""Draw the layers of the package as docs/architecture.svg, from pyproject.toml and the package docstrings.

python scripts/architecture_picture.py [--check]
"""

import ast
import sys
import textwrap
import tomllib
from html import escape
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PICTURE = ROOT / "docs/architecture.svg"
WIDTH, MARGIN, GAP, ROW, LINE = 960, 20, 12, 62, 16
CORE = {"vault", "search", "freshness", "index", "query", "storage", "format", "fs"}
STYLE = """\
text { font: 13px system-ui, "DejaVu Sans", sans-serif; fill: #1f2328 }
.name { font-weight: 600; font-size: 15px }
.note { fill: #59636e }
.page { fill: #ffffff }
.shell { fill: #ddf4ff; stroke: #0969da }
.core { fill: #dafbe1; stroke: #1a7f37 }
.base { fill: #f6f8fa; stroke: #818b98 }
@media (prefers-color-scheme: dark) {
text { fill: #f0f6fc }
.note { fill: #b1bac4 }
.page { fill: #0d1117 }
.shell { fill: #10243e }
.core { fill: #12261e }
.base { fill: #151b23 }
}
"""


def summary(package: str) -> str:
    """Return the first line of a package's docstring."""
    text = (ROOT / "memfs" / package / "__init__.py").read_text(encoding="utf-8")
    return (ast.get_docstring(ast.parse(text)) or "").split("\n")[0]


def layers() -> list[list[str]]:
    """Return the packages of each layer, from the top."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    contract = settings["tool"]["importlinter"]["contracts"][0]
    rows = [[name.strip() for name in layer.split("|")] for layer in contract["layers"]]
    return [packages for row in rows if (packages := [name for name in row if (ROOT / "memfs" / name).is_dir()])]


def box(x: int, y: int, width: int, name: str, note: str, kind: str) -> str:
    """Return one box with its name and as much of its note as fits into three lines."""
    left = x + (150 if width > WIDTH // 2 else 100)
    lines = textwrap.wrap(note, int((x + width - left) / 7.6))[:3]
    texts = [f'<text class="name" x="{x + 14}" y="{y + 28}">{escape(name)}</text>']
    first = y + 32 - LINE * len(lines) // 2 + (4 if len(lines) < 3 else 5)
    texts += [
        f'<text class="note" x="{left}" y="{first + LINE * number}">{escape(line)}</text>'
        for number, line in enumerate(lines)
    ]
    return f'<rect class="{kind}" x="{x}" y="{y}" width="{width}" height="{ROW - GAP}" rx="6"/>' + "".join(texts)


def picture() -> str:
    """Return the picture as SVG."""
    boxes, y = [], MARGIN + 24
    for row in layers():
        width = (WIDTH - 2 * MARGIN - GAP * (len(row) - 1)) // len(row)
        for number, name in enumerate(row):
            kind = "core" if name in CORE else "shell"
            boxes.append(box(MARGIN + number * (width + GAP), y, width, f"{name}/", summary(name), kind))
        y += ROW
    modules = sorted(path.stem for path in (ROOT / "memfs").glob("*.py") if not path.stem.startswith("__"))
    boxes.append(box(MARGIN, y, WIDTH - 2 * MARGIN, "base", ", ".join(modules), "base"))
    height = y + ROW + MARGIN
    head = f'<text class="note" x="{MARGIN}" y="{MARGIN + 8}">A layer imports only from the layers below it.</text>'
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" role="img">\n'
        f"<title>The layers of memfs</title>\n<style>\n{STYLE}</style>\n"
        f'<rect class="page" width="{WIDTH}" height="{height}"/>\n{head}\n' + "\n".join(boxes) + "\n</svg>\n"
    )


def main() -> int:
    """Write the picture, or with --check return 1 if the written one is out of date."""
    if "--check" in sys.argv[1:]:
        return 0 if PICTURE.exists() and PICTURE.read_text(encoding="utf-8") == picture() else 1
    PICTURE.write_text(picture(), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
