"""Metrics of the work that is under way: rounds, checks and Spark. They move with each page of listings and deletes."""

from collections.abc import Callable, Iterator, Mapping

from prometheus_client.core import GaugeMetricFamily, Metric

from sexton.insight.metrics.model import Figures
from sexton.insight.views import RoundCounts, Running

GAUGES: Mapping[str, tuple[str, Callable[[Running], float | None]]] = {
    "elapsed_seconds": ("Seconds since the running round began.", lambda r: r.progress.elapsed_ms / 1000),
    "eta_seconds": (
        "Seconds until the running round has deleted all, at its rate so far; none before its first object is gone.",
        lambda r: r.progress.seconds_left,
    ),
    "objects_per_second": (
        "Objects per second that the running round has deleted, on average since it began.",
        lambda r: 1000 * r.progress.objects / r.progress.elapsed_ms if r.progress.elapsed_ms else None,
    ),
}
MARKS: Mapping[str, Callable[[RoundCounts], int]] = {
    "due": lambda p: sum(k.due for k in p.kinds),
    "claimed": lambda p: sum(k.claimed for k in p.kinds),
    "removed": lambda p: sum(k.removed for k in p.kinds),
}
OBJECTS: Mapping[str, Callable[[RoundCounts], int]] = {
    "expected": lambda p: p.expected,
    "listed": lambda p: sum(k.listed for k in p.kinds),
    "deleted": lambda p: p.objects,
    "remaining": lambda p: max(0, p.expected - p.objects),
}


def families(f: Figures) -> Iterator[Metric]:
    """Yield the families; an instance without a running round has samples only of the first two."""
    by_instance = ["instance_id"]
    running = GaugeMetricFamily("sexton_round_running", "1 while a round has not ended.", labels=by_instance)
    text = "1 while the running round holds no lease: it waits for one, is paused, or backs off."
    waiting = GaugeMetricFamily("sexton_round_waiting", text, labels=by_instance)
    for i in f.instances:
        running.add_metric([i.instance], i.running is not None)
        waiting.add_metric([i.instance], i.running is not None and i.running.waiting is not None)
    yield from (running, waiting)
    rounds = {i.instance: i.running for i in f.instances if i.running is not None}
    for name, (text, value_of) in GAUGES.items():
        gauge = GaugeMetricFamily(f"sexton_round_{name}", text, labels=by_instance)
        for instance, round_ in rounds.items():
            value = value_of(round_)
            if value is not None:
                gauge.add_metric([instance], value)
        yield gauge
    yield _by_stage("marks", "Marks of the running round: due by its plan, claimed, removed.", MARKS, rounds)
    text = "Objects of the running round: expected by what is known now, listed, deleted, and remaining."
    yield _by_stage("objects", text, OBJECTS, rounds)
    text = "Seconds since the check began that runs now; 0: none runs."
    check = GaugeMetricFamily("sexton_check_elapsed_seconds", text, labels=by_instance)
    for i in f.instances:
        since = i.check_since
        check.add_metric([i.instance], 0 if since is None else max(0, f.now - since) / 1000)
    yield check
    yield GaugeMetricFamily("sexton_spark_workers", "Spark workers that run.", value=f.spark.workers)
    text = "Activities that all Spark workers take at once."
    yield GaugeMetricFamily("sexton_spark_slots", text, value=f.spark.slots)
    text = "Activities that all Spark workers run now."
    yield GaugeMetricFamily("sexton_spark_busy_slots", text, value=f.spark.busy)


def _by_stage(
    name: str, text: str, stages: Mapping[str, Callable[[RoundCounts], int]], rounds: Mapping[str, Running]
) -> Metric:
    gauge = GaugeMetricFamily(f"sexton_round_{name}", text, labels=["instance_id", "stage"])
    for instance, round_ in rounds.items():
        for stage, count in stages.items():
            gauge.add_metric([instance, stage], count(round_.progress))
    return gauge
