"""Small pieces of SVG: escaped text, boxes in the Okabe-Ito colours, and an accessible outer element.

A meaning never hangs on a colour alone: each kind of box has its own shape too, so that a grey print and
a colour-blind reader lose nothing. The pictures bring their own white ground for dark themes.
"""

from collections.abc import Iterable
from html import escape
from zlib import crc32

SKY, ORANGE, GREEN, VERMILLION = "#56b4e9", "#e69f00", "#009e73", "#d55e00"
INK, GREY, FAINT, ROSE = "#111111", "#777777", "#c8c8c8", "#f7cdb0"
FONT = "font-family='system-ui, sans-serif'"
_HATCH = (
    "<pattern id='{id}' width='6' height='6' patternUnits='userSpaceOnUse' patternTransform='rotate(45)'>"
    "<rect width='6' height='6' fill='#f3f3f3'/><rect width='2' height='6' fill='#777777'/></pattern>"
)


def escaped(content: object) -> str:
    """Text that XML can hold: marks escaped, and what cannot be printed shown as a dot."""
    return escape("".join(char if char.isprintable() or char == "\n" else "·" for char in str(content)))


def text(
    x: float,
    y: float,
    content: object,
    *,
    size: int = 13,
    anchor: str = "middle",
    bold: bool = False,
    fill: str = INK,
) -> str:
    """A line of text, escaped; ``y`` is its base line."""
    # what differs from the outer element only: the text of a picture is sent with each move of a slider
    look = "".join(
        f" {name}='{value}'"
        for name, value, usual in (
            ("font-size", size, 13),
            ("text-anchor", anchor, "middle"),
            ("fill", fill, INK),
            ("font-weight", 700 if bold else 400, 400),
        )
        if value != usual
    )
    return f"<text x='{x:g}' y='{y:g}'{look}>{escaped(content)}</text>"


def box(
    x: float,
    y: float,
    width: float,
    height: float,
    fill: str,
    *,
    stroke: str = INK,
    radius: int = 0,
    dash: bool = False,
) -> str:
    """A rectangle. Round corners and dashes carry meaning beside the colour."""
    dashes = " stroke-dasharray='3 2'" if dash else ""
    return (
        f"<rect x='{x:g}' y='{y:g}' width='{width:g}' height='{height:g}' rx='{radius}' fill='{fill}' "
        f"stroke='{stroke}'{dashes}/>"
    )


def line(
    x1: float, y1: float, x2: float, y2: float, *, stroke: str = INK, width: float = 1, dash: bool = False
) -> str:
    """A straight line."""
    dashes = " stroke-dasharray='4 3'" if dash else ""
    return f"<line x1='{x1:g}' y1='{y1:g}' x2='{x2:g}' y2='{y2:g}' stroke='{stroke}' stroke-width='{width:g}'{dashes}/>"


def cross(x: float, y: float, width: float, height: float) -> str:
    """The two diagonals of a box: what is in it is lost."""
    diagonals = ((x, y, x + width, y + height), (x, y + height, x + width, y))
    return "".join(line(*ends, stroke=VERMILLION, width=2) for ends in diagonals)


def outline(x: float, y: float, width: float, height: float) -> str:
    """A heavy frame around a place: it stands out on light and on dark."""
    place = f"x='{x:g}' y='{y:g}' width='{width:g}' height='{height:g}' fill='none'"
    return f"<rect {place} stroke='#ffffff' stroke-width='5'/><rect {place} stroke='{VERMILLION}' stroke-width='3'/>"


def fit(content: str, width: float, largest: int = 14) -> int:
    """A font size with which ``content`` is about as wide as ``width``, at most ``largest``."""
    return max(6, min(largest, int(width / (0.8 * max(1, len(content))))))


def hatch_id(seed: str) -> str:
    """An id for the hatching of one picture: the same for the same picture, so that outputs compare equal."""
    return f"hatch-{crc32(seed.encode()):08x}"


def picture(
    width: float,
    height: float,
    body: Iterable[str],
    *,
    title: str,
    description: str,
    hatch: str | None = None,
) -> str:
    """A whole picture on white, as wide as drawn or, where that does not fit, as its place."""
    defs = f"<defs>{_HATCH.format(id=hatch)}</defs>" if hatch else ""
    return (
        f"<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 {width:g} {height:g}' width='{width:g}' height='{height:g}' role='img' {FONT} text-anchor='middle' font-size='13' fill='{INK}' "
        f"style='max-width:100%;height:auto;background:#fff'>"
        f"<title>{escaped(title)}</title><desc>{escaped(description)}</desc>{defs}"
        f"<rect width='{width:g}' height='{height:g}' fill='#ffffff'/>{''.join(body)}</svg>"
    )
