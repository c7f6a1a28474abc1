"""The same loop in a thread and in a child process: whole requests, endings, and what is left behind."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
import time

import psutil
import pytest

from lab.engine.config import EngineConfig
from lab.engine.errors import ConfigError, HostError
from lab.engine.host import start_process, start_thread
from lab.engine.messages import Abort, Aborted, Delta, Done, Failed, Parked, SamplingParams, Started, Submit
from lab.model.errors import ModelError

CONFIG = EngineConfig(model="lab-100k", device="cpu", slots=2, max_len=512)
LONG = SamplingParams(max_tokens=400, temperature=0.0, ignore_eos=True)


class Inbox:
    """What a host reported, with a way to wait for it."""

    def __init__(self):
        self.events, self.exits, self.broken = [], [], False
        self._changed = threading.Condition()

    def on_events(self, events):
        if self.broken:
            raise RuntimeError("the receiver is gone")
        with self._changed:
            self.events += events
            self._changed.notify_all()

    def on_exit(self, code):
        with self._changed:
            self.exits.append(code)
            self._changed.notify_all()

    def wait(self, ready, timeout=30):
        with self._changed:
            assert self._changed.wait_for(lambda: ready(self), timeout), self.events[-5:]

    def of(self, kind, attempt_id=None):
        return [e for e in self.events if isinstance(e, kind) and attempt_id in (None, e.attempt_id)]


def make(kind, inbox, config=CONFIG):
    if kind == "thread":
        return start_thread(config, inbox.on_events, inbox.on_exit)
    return start_process(config, inbox.on_events, inbox.on_exit)


@pytest.fixture(autouse=True)
def _nothing_left_behind():
    me = psutil.Process()
    # another module's server may live in this process for the whole session
    threads, fds, children = threading.active_count(), me.num_fds(), me.children()
    yield
    assert threading.active_count() == threads
    assert me.num_fds() == fds
    assert me.children() == children


@pytest.mark.parametrize("kind", ["thread", "process"])
def test_a_request_end_to_end(kind):
    inbox = Inbox()
    host = make(kind, inbox)
    try:
        assert (host.info.model, host.info.slots, host.info.max_len) == ("lab-100k", 2, 512)
        assert host.info.device == "cpu"
        assert host.alive
        host.post([Submit("r", (5, 6, 7), SamplingParams(max_tokens=20, temperature=0.0, ignore_eos=True))])
        inbox.wait(lambda box: box.of(Done))
        (done,) = inbox.of(Done, "r")
        assert (done.reason, done.generated) == ("length", 20)
        assert sum(delta.tokens for delta in inbox.of(Delta, "r")) == 20
        stamps = [e.at for e in inbox.events if hasattr(e, "at")]
        assert stamps == sorted(stamps)
        assert stamps[-1] <= time.monotonic()
        host.post([Submit("invalid", (), LONG)])
        inbox.wait(lambda box: box.of(Failed, "invalid"))
        assert inbox.of(Failed)[0].invalid
    finally:
        host.close()
    assert not host.alive
    assert inbox.exits == []


def test_thread_and_process_give_the_same_text():
    texts = []
    for kind in ("thread", "process"):
        inbox = Inbox()
        host = make(kind, inbox)
        params = SamplingParams(max_tokens=40, temperature=0.8, top_p=0.9, seed=3, ignore_eos=True)
        host.post([Submit("r", tuple(range(2, 30)), params)])
        inbox.wait(lambda box: box.of(Done))
        host.close()
        texts.append("".join(delta.text for delta in inbox.of(Delta)))
    assert texts[0] == texts[1]


@pytest.mark.parametrize("kind", ["thread", "process"])
def test_close_aborts_what_is_live(kind):
    inbox = Inbox()
    host = make(kind, inbox)
    host.post([Submit(name, (5, 6), LONG) for name in ("a", "b", "waits")])
    inbox.wait(lambda box: len(box.of(Started)) == 2)
    host.close()
    host.close()
    host.post([Abort("a")])
    assert sorted(e.attempt_id for e in inbox.of((Aborted, Done))) == ["a", "b", "waits"]


def test_a_killed_child_is_reported_once():
    inbox = Inbox()
    host = make("process", inbox)
    host.post([Submit("r", (5, 6), LONG)])
    inbox.wait(lambda box: box.of(Started))
    os.kill(host.pid, signal.SIGKILL)
    inbox.wait(lambda box: box.exits)
    assert inbox.exits == [-signal.SIGKILL]
    assert not host.alive
    host.post([Abort("r")])
    host.close()
    assert inbox.exits == [-signal.SIGKILL]


@pytest.mark.parametrize(("kind", "code"), [("thread", None), ("process", -signal.SIGKILL)])
def test_a_receiver_that_raises_ends_the_engine(kind, code):
    inbox = Inbox()
    host = make(kind, inbox)
    inbox.broken = True
    host.post([Submit("r", (5, 6), LONG)])
    inbox.wait(lambda box: box.exits)
    assert inbox.exits == [code]
    host.close()
    assert not host.alive


def test_signals_are_left_to_the_parent():
    inbox = Inbox()
    host = make("process", inbox)
    try:
        for number in (signal.SIGINT, signal.SIGTERM):
            os.kill(host.pid, number)
        host.post([Submit("r", (5, 6), SamplingParams(max_tokens=3, ignore_eos=True))])
        inbox.wait(lambda box: box.of(Done))
    finally:
        host.close()
    assert inbox.exits == []


def test_a_child_that_hangs_is_killed_by_close():
    inbox = Inbox()
    host = make("process", inbox)
    os.kill(host.pid, signal.SIGSTOP)
    host.close(timeout=0.2)
    assert not host.alive


def test_an_idle_engine_blocks_on_its_mailbox():
    """Nothing to do, and later nothing but a parked sequence: the child sleeps until a command comes."""
    inbox = Inbox()
    host = make("process", inbox)
    try:
        child = psutil.Process(host.pid)
        for commands in ([], [Submit("r", (5, 6), LONG, capacity=1)]):
            host.post(commands)
            inbox.wait(lambda box, parked=bool(commands): bool(box.of(Parked)) == parked)
            while child.status() != psutil.STATUS_SLEEPING:
                time.sleep(0.001)
            used = child.cpu_times()
            time.sleep(0.2)
            assert child.cpu_times() == used
    finally:
        host.close()


def test_a_child_ends_with_its_parent():
    script = (
        "from lab.engine.config import EngineConfig\n"
        "from lab.engine.host import start_process\n"
        "import os\n"
        "host = start_process(EngineConfig(model='lab-100k', device='cpu', slots=1), print, print)\n"
        "print(host.pid, flush=True)\n"
        "os.kill(os.getpid(), 9)\n"
    )
    parent = subprocess.run([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True, check=False)
    assert parent.returncode == -signal.SIGKILL
    child = int(parent.stdout)
    if psutil.pid_exists(child):
        with contextlib.suppress(psutil.NoSuchProcess):
            psutil.Process(child).wait(20)
    assert not psutil.pid_exists(child)


@pytest.mark.parametrize(("kind", "error"), [("thread", ModelError), ("process", HostError)])
def test_a_model_that_does_not_exist_is_one_clear_error(kind, error):
    with pytest.raises(error, match="lab-none"):
        make(kind, Inbox(), EngineConfig(model="lab-none"))


@pytest.mark.parametrize("name", ["slots", "max_len", "prefill_chunk", "threads"])
def test_a_setting_below_one_is_refused(name):
    with pytest.raises(ConfigError, match=name):
        EngineConfig(**{name: 0})
