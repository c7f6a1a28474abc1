"""Metrics are what the records say: nothing more, nothing twice, nothing for what is unknown."""

from __future__ import annotations

from dataclasses import replace

import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_open
from prometheus_client.parser import text_string_to_metric_families as parse_plain

from lab.core.endings import ENDINGS, Reason
from lab.core.record import RequestRecord
from lab.telemetry.metrics import Metrics


def record(reason: Reason = Reason.STOP, **changes) -> RequestRecord:
    base = RequestRecord(
        ts="2026-01-01T00:00:00Z",
        request_id="r1",
        client_request_id=None,
        app_id="shop",
        route="/v1/completions",
        model="lab-1m",
        stream=True,
        max_tokens=9,
        reason=reason,
        outcome=ENDINGS[reason].outcome,
        finish_reason=None,
        http_status=200,
        socket_end=None,
        late={},
        prompt_tokens=3,
        generated_tokens=5,
        sent_tokens=4,
        dropped_tokens=1,
        trimmed_tokens=0,
        proposed_tokens=0,
        accepted_tokens=0,
        completion_tokens=5,
        total_tokens=8,
        usage_source="engine",
        queue_ms=1.0,
        prefill_ms=2.0,
        decode_ms=40.0,
        parked_ms=0.0,
        transfer_ms=1.0,
        ttft_ms=3.0,
        tpot_ms=10.0,
        e2e_ms=44.0,
    )
    return replace(base, **changes)


def samples(metrics: Metrics) -> dict[str, float]:
    """Series to value, labels in the order of their names; buckets and creation times left out."""
    body, _ = metrics.exposition(None)
    found = {}
    for family in parse_plain(body.decode()):
        for sample in family.samples:
            if not sample.name.endswith(("_bucket", "_created")):
                labels = ",".join(f"{name}={value}" for name, value in sorted(sample.labels.items()))
                found[f"{sample.name}{{{labels}}}"] = sample.value
    return found


def test_a_record_is_counted_once_under_its_outcome():
    metrics = Metrics(apps=["shop"])
    metrics.observe(record())
    metrics.observe(record(Reason.CLIENT_DISCONNECT, usage_source="missing", completion_tokens=None))
    found = samples(metrics)
    series = "llm_requests_total{app_id=shop,model=lab-1m,outcome=%s,route=/v1/completions}"
    assert found[series % "ok"] == found[series % "client_disconnect"] == 1
    assert found["llm_request_duration_seconds_sum{model=lab-1m}"] == pytest.approx(0.088)
    assert found["llm_time_to_first_token_seconds_count{model=lab-1m}"] == 2
    assert found["llm_generated_tokens_total{model=lab-1m}"] == 10
    assert (
        found["llm_sent_tokens_total{model=lab-1m}"] + found["llm_dropped_tokens_total{model=lab-1m}"] == 10
    )
    assert found["llm_completion_tokens_total{app_id=shop,model=lab-1m}"] == 5
    assert found["llm_usage_missing_total{reason=client_disconnect}"] == 1


def test_unknown_is_not_observed():
    metrics = Metrics(apps=["shop"])
    metrics.observe(record(ttft_ms=None, tpot_ms=None, delivered_tokens=None, cached_tokens=None))
    found = samples(metrics)
    for name in (
        "llm_time_to_first_token_seconds_count",
        "llm_delivered_tokens_total",
        "llm_time_per_output_token_seconds_count",
    ):
        assert f"{name}{{model=lab-1m}}" not in found
    metrics.observe(record(cached_tokens=0))
    assert (
        samples(metrics)["llm_cached_prompt_tokens_total{app_id=shop,model=lab-1m}"] == 0
    )  # known, and zero


def test_a_refusal_is_a_request_without_latency_or_tokens():
    metrics = Metrics(apps=["shop"])
    refused = dict.fromkeys(
        (
            "generated_tokens",
            "completion_tokens",
            "queue_ms",
            "ttft_ms",
            "tpot_ms",
            "model",
            "route",
            "prompt_tokens",
        )
    )
    metrics.observe(record(Reason.INVALID, usage_source="missing", **refused))
    found = samples(metrics)
    assert found["llm_requests_total{app_id=shop,model=unknown,outcome=rejected,route=unknown}"] == 1
    assert not [name for name in found if "duration" in name or "tokens" in name or "usage_missing" in name]


def test_late_signals_and_clock_anomalies():
    metrics = Metrics()
    metrics.observe(record(late={"overall_deadline": 2}, clock_anomalies=1))
    found = samples(metrics)
    assert found["llm_late_signals_total{reason=overall_deadline}"] == 2
    assert found["llm_clock_anomalies_total{component=server}"] == 1


@pytest.mark.parametrize("impossible", [-1.0, -1e-9, float("nan"), float("inf"), float("-inf")])
def test_what_cannot_be_is_an_anomaly_and_leaves_the_sums_alone(impossible):
    metrics = Metrics()
    metrics.observe(record())
    before = samples(metrics)
    metrics.observe(record(ttft_ms=impossible, e2e_ms=impossible))
    after = samples(metrics)
    for name in ("llm_time_to_first_token_seconds", "llm_request_duration_seconds"):
        for part in ("_sum", "_count"):
            series = f"{name}{part}{{model=lab-1m}}"
            assert after[series] == before[series]
    assert after["llm_clock_anomalies_total{component=record}"] == 2
    assert after["llm_queue_seconds_count{model=lab-1m}"] == 2


def test_a_negative_count_of_tokens_is_an_anomaly_and_no_exception():
    metrics = Metrics()
    metrics.observe(record(sent_tokens=-1))
    found = samples(metrics)
    assert "llm_sent_tokens_total{model=lab-1m}" not in found
    assert found["llm_clock_anomalies_total{component=record}"] == 1


@pytest.mark.parametrize("reason", Reason)
def test_every_ending_is_counted_under_the_outcome_of_the_table(reason):
    metrics = Metrics()
    metrics.observe(record(reason))
    counted = {
        name: value for name, value in samples(metrics).items() if name.startswith("llm_requests_total")
    }
    (name,) = counted
    assert f"outcome={ENDINGS[reason].outcome.value}," in name


def test_only_listed_applications_have_a_name():
    metrics = Metrics(apps=["shop"])
    for app in ("shop", "anonymous", "stranger", "strange-2"):
        metrics.observe(record(app_id=app))
    found = samples(metrics)
    series = "llm_requests_total{app_id=%s,model=lab-1m,outcome=ok,route=/v1/completions}"
    assert [found[series % app] for app in ("shop", "anonymous", "other")] == [1, 1, 2]


def test_slo_edges_are_bucket_bounds():
    # the share under an edge is exact only where a bucket ends on it
    metrics = Metrics()
    metrics.observe(record(ttft_ms=250.0, tpot_ms=50.0))
    body = metrics.exposition(None)[0].decode()
    assert 'llm_time_to_first_token_seconds_bucket{le="0.25",model="lab-1m"} 1.0' in body
    assert 'llm_time_to_first_token_seconds_bucket{le="0.2",model="lab-1m"} 0.0' in body
    assert 'llm_time_per_output_token_seconds_bucket{le="0.05",model="lab-1m"} 1.0' in body


def test_gauges_are_what_was_set_last():
    metrics = Metrics()
    metrics.set_states(running=3, waiting=2, parked=1, slots_free=0)
    metrics.set_states(running=0, waiting=0, parked=0, slots_free=4)
    found = samples(metrics)
    names = ("llm_inflight_requests", "llm_queue_depth", "llm_parked_requests", "llm_slots_free")
    assert [found[f"{name}{{}}"] for name in names] == [0, 0, 0, 4]


def test_ten_thousand_ids_make_no_more_series():
    metrics = Metrics(apps=["shop"])
    metrics.observe(record())
    metrics.observe(record(app_id="unheard-of"))
    before = len(samples(metrics))
    for n in range(10_000):
        metrics.observe(record(request_id=f"r{n}", client_request_id=f"c{n}", app_id=f"more{n}"))
    assert len(samples(metrics)) == before
    assert samples(metrics)["llm_prompt_tokens_total{app_id=other,model=lab-1m}"] >= 30_000


def test_two_servers_in_one_process_share_nothing():
    one, two = Metrics(), Metrics()
    one.observe(record())
    assert "llm_generated_tokens_total{model=lab-1m}" not in samples(two)


@pytest.mark.parametrize(
    ("accept", "open_metrics"),
    [
        (None, False),
        ("*/*", False),
        ("application/openmetrics-text; version=1.0.0", True),
        ("application/openmetrics-text;version=x", False),
        ("application/openmetrics-text;version=;escaping=z", True),
        ("application/openmetrics-text; version=0.0.1, text/plain;version=y", False),
        (";;,=,", False),
    ],
)
def test_the_reader_chooses_the_format(accept, open_metrics):
    metrics = Metrics()
    metrics.observe(record())
    body, content_type = metrics.exposition(accept)
    assert content_type.startswith("application/openmetrics-text" if open_metrics else "text/plain")
    assert list((parse_open if open_metrics else parse_plain)(body.decode()))
