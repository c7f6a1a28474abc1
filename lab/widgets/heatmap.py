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
    table: npt.NDArray[np.float64] = np.asarray(values, np.float64)
    if table.shape != (len(rows), len(columns)):
        raise ValueError(
            f"{len(rows)} rows and {len(columns)} columns do not fit values of shape {table.shape}"
        )
    if not largest > 0:
        raise ValueError(f"the largest value must be positive, not {largest}")
    body = [svg.text(10, 20, title, size=14, anchor="start", bold=True)]
    corner = f"{row_name} \\ {column_name}"
    body.append(svg.text(_LEFT - 10, _TOP - 8, corner, size=11, anchor="end", fill=svg.GREY))
    body += [svg.text(_LEFT + (j + 0.5) * _WIDE, _TOP - 8, name, size=11) for j, name in enumerate(columns)]
    # what all cells share stands in one group: a widget sends the whole picture with each move of a slider
    body.append("<g stroke='#ffffff'>")
    body += [_shade(i, j, value, largest) for (i, j), value in np.ndenumerate(table)]
    body.append("</g><g font-size='11' text-anchor='middle'>")
    body += [_number_at(i, j, value, largest) for (i, j), value in np.ndenumerate(table)]
    body.append("</g>")
    body += [
        svg.text(_LEFT - 10, _TOP + i * _HIGH + 15, row, size=12, anchor="end") for i, row in enumerate(rows)
    ]
    if marked is not None:
        body.append(_frame(*marked))
    return svg.picture(
        max(_LEFT + len(columns) * _WIDE, 8 * len(title)) + 12,
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


def _shade(row: int, column: int, value: float, largest: float) -> str:
    share = _share(value, largest)
    # one hue, from white to dark blue: the lightness falls with the value, on paper too
    red, green, blue = (round(255 - share * (255 - dark)) for dark in (8, 48, 107))
    x, y = _LEFT + column * _WIDE, _TOP + row * _HIGH
    return f"<rect x='{x}' y='{y}' width='{_WIDE}' height='{_HIGH}' fill='#{red:02x}{green:02x}{blue:02x}'/>"


def _number_at(row: int, column: int, value: float, largest: float) -> str:
    light = " fill='#fff'" if _share(value, largest) > 0.65 else ""
    x, y = _LEFT + column * _WIDE + _WIDE // 2, _TOP + row * _HIGH + 15
    return f"<text x='{x}' y='{y}'{light}>{_number(value)}</text>"


def _share(value: float, largest: float) -> float:
    return 0.0 if np.isnan(value) else float(min(1.0, max(0.0, value / largest)))


def _frame(row: int, column: int) -> str:
    return svg.outline(_LEFT + column * _WIDE, _TOP + row * _HIGH, _WIDE, _HIGH)


def _number(value: float) -> str:
    return "·" if np.isnan(value) else f"{value:g}"
