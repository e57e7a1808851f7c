"""A review finds the topics with work; what a verdict stores depends on the step that it is for."""

from sexton.wal.model import Block, BlockReason, Facts, Mode, PurgeVerdict, Region, Topic, WalSettings
from sexton.wal.policy import TopicReaders
from sexton.wal.port import LogFault, Step
from sexton.wal.verdict_rows import TopicState, decide

SETTINGS = WalSettings(trigger_flush_entries=50)
NOW = 1_000_000
TOPIC = Topic(name="t", kafka_id="k", enabled=True, floor=10, log_start=9, log_end=100, checked_at=7, fault="old")
FACTS = Facts(id="k", start=9, end=100)
BLOCKED = PurgeVerdict(blocked=(Block(why=BlockReason.SILENT, said="no report"),))
AT_FLOOR, ABOVE = PurgeVerdict(keep_from=10), PurgeVerdict(keep_from=80)


def state(*, start: int = 9, keep_from: int = 90, mode: Mode = Mode.DELETE) -> TopicState:
    regions = [Region(topic="t", region="r", keep_from=keep_from, mapped_node="n")]
    facts, topic = FACTS.model_copy(update={"start": start}), TOPIC.model_copy(update={"mode": mode})
    return TopicState(topic, facts, TopicReaders(regions, []))


QUARANTINED = PurgeVerdict(quarantine="another topic")
WORK = [
    (state(), AT_FLOOR, False),
    (state(), ABOVE, True),
    (state(start=5), AT_FLOOR, True),  # an earlier purge did not reach the log
    (state(start=5, mode=Mode.LOGICAL), AT_FLOOR, False),
    (state(keep_from=40), AT_FLOOR, True),  # the region should flush
    (state(keep_from=40), BLOCKED, False),
    (state(), QUARANTINED, False),
]


def test_topic_has_work_if_a_purge_would_do_something() -> None:
    unasked = SETTINGS.model_copy(update={"flushes": False})

    for topic, verdict, work in WORK:
        assert decide(topic, verdict, NOW, Step.REVIEW, SETTINGS).verdict.work is work
    assert decide(state(keep_from=40), AT_FLOOR, NOW, Step.REVIEW, unasked).verdict.work is False


def test_topic_whose_log_is_faulty_has_no_work_and_is_due_again() -> None:
    fault = LogFault("t", "TIMED_OUT", "no answer", passes=True)
    decision = decide(state()._replace(answer=fault), BLOCKED, NOW, Step.REVIEW, SETTINGS)

    assert decision.verdict.work is False
    assert decision.topic_row["checked_at"] is None
    assert "TIMED_OUT" in decision.topic_row["fault"]


STEPS = [
    (Step.EXPLAIN, ABOVE, 7, 10),
    (Step.REVIEW, ABOVE, 7, 10),  # it has work, and stays due until its purge begins
    (Step.REVIEW, AT_FLOOR, NOW, 10),
    (Step.PREPARE, ABOVE, NOW, 10),
    (Step.RAISE, ABOVE, NOW, 80),
    (Step.RAISE, AT_FLOOR, NOW, 10),
]
"""Step, verdict, then when the topic was checked, and its floor."""


def test_only_its_step_raises_the_floor() -> None:
    for step, verdict, checked_at, floor in STEPS:
        decision = decide(state(), verdict, NOW, step, SETTINGS)

        assert (decision.topic_row["checked_at"], decision.topic_row["floor"]) == (checked_at, floor), step
        assert decision.topic_row["fault"] == ("" if checked_at == NOW else "old")
        assert (decision.purge_row is not None) == decision.verdict.rose == (floor == 80)
