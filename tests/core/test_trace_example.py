"""The example that runs alone and the simulator of the package give the same trace."""

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

from hypothesis import given
from hypothesis import strategies as st

from lab.core.endings import Reason
from lab.core.trace import TraceSettings, run_trace


def _load() -> ModuleType:
    path = Path(__file__).parents[2] / "examples" / "reliability_observability.py"
    spec = importlib.util.spec_from_file_location("reliability_observability", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


example = _load()


@given(st.data())
def test_the_same_trace_for_any_capacity_drain_and_deadline(data: st.DataObject) -> None:
    capacity = data.draw(st.none() | st.integers(1, 8), "capacity")
    low = None if capacity is None else data.draw(st.none() | st.integers(0, capacity - 1), "low")
    drain = tuple(data.draw(st.lists(st.integers(0, 3), min_size=1, max_size=16), "drain"))
    deadline = data.draw(st.none() | st.integers(0, 20), "deadline")
    cancel = (len(drain) if deadline is None else deadline, Reason.CLIENT_CANCEL)
    mine = run_trace(TraceSettings(capacity, drain, deadline, low, signals=(cancel,)))
    theirs = example.simulate(capacity, drain, deadline, low)
    assert (theirs.generated, theirs.sent, theirs.dropped) == (mine.generated, mine.sent, mine.dropped)
    assert theirs.paused == list(mine.paused)
    assert theirs.rows == [(tick.tick, tick.sent, tick.queued) for tick in mine.ticks]
    assert (theirs.owner.reason, theirs.owner.late) == (mine.reason.value, [str(r) for r in mine.late])
    assert theirs.owner.cleanup_count == mine.cleanups == 1
