"""A table of numbers as a heat map: darker is more, each cell also says its number, so grey prints well."""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from lab.widgets import svg

_LEFT, _TOP, _WIDE, _HIGH = 118, 52, 34, 22


def heatmap_svg(
    values: npt.ArrayLike,
    rows: Sequence[object],
    columns: Sequence[object],
    *,
    title: str,
    row_name: str,
    column_name: str,
    largest: float,
    marked: tuple[int, int] | None = None,
) -> str:
    """A heat map of ``values``, shape ``(rows, columns)``, on a scale from 0 to ``largest``.

    NaN is drawn as an empty cell with a dot. ``marked`` is the ``(row, column)`` that gets a frame.

    :raises ValueError: when the names do not fit the shape, or ``largest`` is not positive
    """
    table = np.asarray(values, np.float64)
    if table.shape != (len(rows), len(columns)):
        raise ValueError(
            f"{len(rows)} rows and {len(columns)} columns do not fit values of shape {table.shape}"
        )
    if not largest > 0:
        raise ValueError(f"the largest value must be positive, not {largest}")
    body = [svg.text(10, 20, title, size=14, anchor="start", bold=True)]
    body.append(
        svg.text(_LEFT - 10, _TOP - 8, f"{row_name} \\ {column_name}", size=11, anchor="end", fill=svg.GREY)
    )
    body += [svg.text(_LEFT + (j + 0.5) * _WIDE, _TOP - 8, name, size=11) for j, name in enumerate(columns)]
    for i, name in enumerate(rows):
        body.append(svg.text(_LEFT - 10, _TOP + i * _HIGH + 15, name, size=12, anchor="end"))
        body += [_cell(i, j, float(table[i, j]), largest) for j in range(len(columns))]
    if marked is not None:
        body.append(_frame(*marked))
    return svg.picture(
        _LEFT + len(columns) * _WIDE + 12,
        _TOP + len(rows) * _HIGH + 12,
        body,
        title=title,
        description=heatmap_text(table, rows, columns),
    )


def heatmap_text(values: npt.ArrayLike, rows: Sequence[object], columns: Sequence[object]) -> str:
    """The same table in characters."""
    table = [[_number(value) for value in row] for row in np.asarray(values, np.float64)]
    lines = [["", *map(str, columns)], *([str(name), *row] for name, row in zip(rows, table, strict=True))]
    wide = [max(len(line[column]) for line in lines) for column in range(len(columns) + 1)]
    return "\n".join(
        " ".join(f"{cell:>{size}}" for cell, size in zip(line, wide, strict=True)) for line in lines
    )


def _cell(row: int, column: int, value: float, largest: float) -> str:
    x, y = _LEFT + column * _WIDE, _TOP + row * _HIGH
    share = 0.0 if np.isnan(value) else min(1.0, max(0.0, value / largest))
    # one hue, from white to dark blue: the lightness falls with the value, on paper too
    red, green, blue = (round(255 - share * (255 - dark)) for dark in (8, 48, 107))
    fill = f"#{red:02x}{green:02x}{blue:02x}"
    ink = "#ffffff" if share > 0.65 else svg.INK
    shape = f"<rect x='{x}' y='{y}' width='{_WIDE}' height='{_HIGH}' fill='{fill}' stroke='#ffffff'/>"
    return shape + svg.text(x + _WIDE / 2, y + 15, _number(value), size=11, fill=ink)


def _frame(row: int, column: int) -> str:
    return svg.outline(_LEFT + column * _WIDE, _TOP + row * _HIGH, _WIDE, _HIGH)


def _number(value: float) -> str:
    return "·" if np.isnan(value) else f"{value:g}"
