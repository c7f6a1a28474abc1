"""Controls and pictures for the chapters.

Values and pictures are pure functions and can be tested without a browser; ``ControlPanel`` and
``TraceExplorer`` put them on a page.
"""

from lab.widgets.explorer import TraceExplorer, run_html, settings_of, waste_map_svg
from lab.widgets.heatmap import heatmap_svg, heatmap_text
from lab.widgets.panel import ControlPanel
from lab.widgets.picture import comparison_svg, trace_svg, trace_text
from lab.widgets.values import Values, parse_drain

__all__ = [
    "ControlPanel",
    "TraceExplorer",
    "Values",
    "comparison_svg",
    "heatmap_svg",
    "heatmap_text",
    "parse_drain",
    "run_html",
    "settings_of",
    "trace_svg",
    "trace_text",
    "waste_map_svg",
]
