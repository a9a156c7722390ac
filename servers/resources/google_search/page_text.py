"""HTML to the text that a person would read, a line a paragraph. Run by a worker: pages may be made to be slow."""

from __future__ import annotations

from html.parser import HTMLParser

MAX_WORDS, ENDS = 10_000, 5_000
MAX_CHARACTERS = 200_000


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


_NOISE = _names("script style noscript template svg math head iframe object canvas select")
_FRAME = _names("nav footer aside form button dialog header")
_BLOCKS = _names(
    "address article blockquote body br caption dd details div dl dt figcaption figure h1 h2 h3 h4 h5 h6 hr html li"
    " main ol p pre section summary table tbody tfoot thead title tr ul"
)


def extract(html: str) -> str:
    """The page without its frame; with it, where there is nothing else. Long pages keep their two ends."""
    return shorten(_read(html, _NOISE | _FRAME) or _read(html, _NOISE))


def shorten(text: str) -> str:
    if len(text.split()) > MAX_WORDS or len(text) > MAX_CHARACTERS:
        return f"{text[:ENDS]}...{text[-ENDS:]}"
    return text


def _read(html: str, skipped: frozenset[str]) -> str:
    reader = _Reader(skipped)
    reader.feed(html)
    reader.close()
    lines = (" ".join(line.split()) for line in "".join(reader.pieces).split("\n"))
    return "\n".join(line for line in lines if line and line not in ("-", "|"))


class _Reader(HTMLParser):
    def __init__(self, skipped: frozenset[str]) -> None:
        super().__init__(convert_charrefs=True)
        self.pieces: list[str] = []
        self._skipped = skipped
        self._inside: list[str] = []  # what is being skipped, outermost first

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag in self._skipped:
            self._inside.append(tag)
        elif tag == "body" and self._inside == ["head"]:
            self._inside.clear()  # a head without its end tag
        if self._inside:
            return
        if tag in ("td", "th"):
            self.pieces.append(" | ")
        elif tag in _BLOCKS:
            self.pieces.append("\n- " if tag == "li" else "\n")

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag in _BLOCKS and not self._inside:
            self.pieces.append("\n")

    def handle_endtag(self, tag: str) -> None:
        if tag in self._inside:
            while self._inside.pop() != tag:
                pass
        elif tag in _BLOCKS and not self._inside:
            self.pieces.append("\n")

    def handle_data(self, data: str) -> None:
        if not self._inside:
            # A line break in the source is a blank; only elements break lines.
            self.pieces.append(data.replace("\n", " "))
