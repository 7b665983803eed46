"""Pieces of a page in HTML that is complete in one file: text is escaped, pictures are inline, nothing is fetched."""

from __future__ import annotations

import base64
import html
import io
from collections.abc import Iterable, Sequence

from matplotlib.figure import Figure

# No source but the page itself: what a study's text says can neither run nor load anything.
POLICY = "default-src 'none'; img-src data:; style-src 'unsafe-inline'"

STYLE = """
:root { color-scheme: light; }
body { font: 16px/1.5 system-ui, sans-serif; color: #222; max-width: 60rem; margin: 0 auto; padding: 0 1rem 3rem; }
h1 { font-size: 1.6rem; margin: 1.5rem 0 0.3rem; overflow-wrap: anywhere; }
h2 { font-size: 1.2rem; margin: 2.2rem 0 0.6rem; border-bottom: 1px solid #ccc; padding-bottom: 0.2rem; }
h3 { font-size: 1rem; margin: 1.2rem 0 0.4rem; overflow-wrap: anywhere; }
p, li { overflow-wrap: anywhere; }
img { max-width: 100%; height: auto; display: block; margin: 0.5rem 0; }
figure { margin: 0 0 1rem; }
.wide { overflow-x: auto; }
table { border-collapse: collapse; font-size: 0.85rem; font-variant-numeric: tabular-nums; }
th, td { padding: 0.25rem 0.7rem 0.25rem 0; border-bottom: 1px solid #e4e4e4; text-align: right; vertical-align: top; }
th:first-child, td:first-child { text-align: left; }
td { white-space: nowrap; }
.status { display: inline-block; padding: 0.1rem 0.6rem; border-radius: 0.3rem; color: #fff; background: #2a7d2a; }
.status.bad { background: #b3261e; }
.warning { border-left: 4px solid #c77700; background: #fff6e5; padding: 0.4rem 0.8rem; margin: 0.5rem 0; }
pre { font-size: 0.8rem; background: #f6f6f6; padding: 0.8rem; overflow-x: auto; }
nav a { margin-right: 0.9rem; white-space: nowrap; }
@media print {
  body { max-width: none; font-size: 10pt; padding: 0; }
  nav { display: none; }
  h2, h3 { break-after: avoid; }
  figure, tr { break-inside: avoid; }
  .wide { overflow: visible; }
  td { white-space: normal; }
  pre { white-space: pre-wrap; }
}
"""


def escaped(text: object) -> str:
    """Text as HTML shows it; control characters that no page may hold are shown by their codes."""
    kept = "".join(c if c.isprintable() or c in "\n\t" else c.encode("unicode_escape").decode() for c in str(text))
    return html.escape(kept, quote=True)


def paragraph(text: object, kind: str = "") -> str:
    """A paragraph of plain text; `kind`: of the style sheet."""
    attribute = f' class="{kind}"' if kind else ""
    return f"<p{attribute}>{escaped(text)}</p>\n"


def bullets(items: Iterable[object]) -> str:
    """A list of plain text."""
    return "<ul>\n" + "".join(f"<li>{escaped(item)}</li>\n" for item in items) + "</ul>\n"


def table(header: Sequence[object], rows: Iterable[Sequence[object]]) -> str:
    """A table of plain text that scrolls by itself where it is wider than the page."""
    head = "".join(f'<th scope="col">{escaped(entry)}</th>' for entry in header)
    body = "".join("<tr>" + "".join(f"<td>{escaped(entry)}</td>" for entry in row) + "</tr>\n" for row in rows)
    return f'<div class="wide"><table>\n<thead><tr>{head}</tr></thead>\n<tbody>\n{body}</tbody></table></div>\n'


def preformatted(text: object) -> str:
    """Text as it stands."""
    return f"<pre>{escaped(text)}</pre>\n"


def picture(figure: Figure, meaning: str) -> str:
    """A picture inline; `meaning`: what it shows, for those who do not see it."""
    stream = io.BytesIO()
    figure.savefig(stream, format="png", dpi=120, metadata={"Software": None})
    data = base64.b64encode(stream.getvalue()).decode("ascii")
    return f'<figure><img alt="{escaped(meaning)}" src="data:image/png;base64,{data}"></figure>\n'


def section(title: str, *body: str) -> tuple[str, str]:
    """A title and what stands below it, markup."""
    return title, "".join(body)


def page(title: str, head: str, sections: Sequence[tuple[str, str]]) -> str:
    """The whole document: a head, links to its sections, and these."""
    links = "".join(f'<a href="#s{i}">{escaped(name)}</a>' for i, (name, _) in enumerate(sections))
    body = "".join(
        f'<section id="s{i}"><h2>{escaped(name)}</h2>\n{content}</section>\n'
        for i, (name, content) in enumerate(sections)
    )
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{escaped(POLICY)}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{escaped(title)}</title>\n<style>{STYLE}</style>\n</head>\n<body>\n"
        f"<header>{head}<nav>{links}</nav></header>\n<main>\n{body}</main>\n</body>\n</html>\n"
    )
