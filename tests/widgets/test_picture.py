"""Pictures as pure functions: what they say, that they are well-formed, and that they survive any text."""

import re
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lab.core.endings import Reason
from lab.core.trace import POLICIES, TraceRun, TraceSettings, run_trace
from lab.widgets import comparison_svg, heatmap_svg, heatmap_text, run_html, trace_svg, trace_text
from lab.widgets.picture import MAX_COLUMNS

SVG = "{http://www.w3.org/2000/svg}"


def parse(picture: str) -> ElementTree.Element:
    return ElementTree.fromstring(picture)


def words(picture: str) -> list[str]:
    return [element.text or "" for element in parse(picture).iter(f"{SVG}text")]


def worked(**settings: object) -> TraceRun:
    return run_trace(TraceSettings(signals=((8, Reason.CLIENT_CANCEL),), **settings))  # type: ignore[arg-type]


def test_text_of_the_worked_example() -> None:
    assert trace_text(worked()).splitlines() == [
        "tick    0 1 2 3 4 5 6 7 8",
        "made    A B C = D = E = .",
        "waiting 1 2 3 3 3 3 3 3 3",
        "reads   1 0 0 0 1 0 1 0 0",
        "sent    . . . . A . B . .",
        "ends in tick 8: overall_deadline (too late: client_cancel)",
        "generated ABCDE, sent AB, dropped CDE, paused 3, 5, 7, waste 3/5 = 60%",
    ]


def test_text_shows_lost_tokens_and_waiting_neighbours() -> None:
    assert "A B C D! E F! G . ." in trace_text(worked(policy="drop"))
    assert "the neighbour waits in ticks 3, 5, 7" in trace_text(worked(policy="block"))


def test_text_of_a_run_that_made_nothing() -> None:
    assert trace_text(worked(deadline=0)).splitlines()[-1] == (
        "generated -, sent -, dropped -, paused never, waste none"
    )


def test_picture_says_what_happened_to_those_who_do_not_see_it() -> None:
    root = parse(trace_svg(worked()))
    assert root.get("role") == "img"
    assert root.findtext(f"{SVG}title") == "Trace: park, capacity 3, deadline 8"
    assert root.findtext(f"{SVG}desc") == trace_text(worked())


def test_picture_draws_each_token_and_each_pause() -> None:
    picture = trace_svg(worked())
    drawn = words(picture)
    assert drawn.count("A") == 1 + 4 + 1  # made, waits in four ticks, sent
    assert "G" not in drawn
    hatched = re.findall(r"fill='url\(#(.+?)\)' stroke", picture)
    assert len(hatched) == 3 + 1  # three pauses and the legend
    assert f"id='{hatched[0]}'" in picture


def test_meaning_does_not_hang_on_colour() -> None:
    grey = re.sub(r"#[0-9a-f]{6}", "#888888", trace_svg(worked()))
    assert "rx='9'" in grey  # sent: round
    assert "stroke-dasharray='3 2'" in grey  # dropped: dashed, and crossed out
    assert "url(#hatch" in grey  # paused: hatched


def test_a_long_run_is_cut_and_says_so() -> None:
    run = run_trace(TraceSettings(tokens="x" * 60, capacity=None, deadline=80))
    drawn = words(trace_svg(run))
    assert str(MAX_COLUMNS - 1) in drawn
    assert str(MAX_COLUMNS) not in drawn
    assert f"ticks {MAX_COLUMNS} to 80 are not drawn" in drawn
    assert "+5" in drawn  # a stack that is too high


@given(
    tokens=st.text(min_size=1, max_size=12),
    policy=st.sampled_from(POLICIES),
    capacity=st.none() | st.integers(1, 4),
)
def test_any_text_is_escaped(tokens: str, policy: str, capacity: int | None) -> None:
    run = run_trace(TraceSettings(tokens="<&>'\"" + tokens, policy=policy, capacity=capacity))
    assert parse(trace_svg(run)).findtext(f"{SVG}desc") is not None
    parse(run_html(run))


def test_comparison_holds_every_run_under_its_name() -> None:
    runs = {policy: worked(policy=policy) for policy in POLICIES}
    root = parse(comparison_svg(runs))
    drawn = words(comparison_svg(runs))
    assert all(drawn.count(policy) == 1 for policy in POLICIES if policy != "drop")
    assert drawn.count("paused") == 1  # one legend for all
    assert len(root.findall(f"{SVG}g")) == len(POLICIES)


def test_heat_map_says_its_numbers_and_frames_one() -> None:
    picture = heatmap_svg(
        [[0, 0.5], [float("nan"), 7]],
        ["1", "<2>"],
        [0, 8],
        title="tokens & ticks",
        row_name="capacity",
        column_name="deadline",
        largest=7,
        marked=(1, 1),
    )
    assert [word for word in words(picture) if word in ("0", "0.5", "·", "7")] == ["0", "0", "0.5", "·", "7"]
    assert "fill='none'" in picture
    assert heatmap_text([[1, 22]], ["row"], ["a", "b"]) == "    a  b\nrow 1 22"


@pytest.mark.parametrize(("values", "largest"), [([[1]], 7), ([[1, 2]], 0), ([[1, 2]], float("nan"))])
def test_a_heat_map_that_does_not_fit_is_an_error(values: list[list[int]], largest: float) -> None:
    with pytest.raises(ValueError, match=r"fit|positive"):
        heatmap_svg(values, ["a"], [1, 2], title="", row_name="", column_name="", largest=largest)
