"""Runs kafka-python against a broker."""

import threading
import time

from kafka import ConsumerRebalanceListener, KafkaConsumer, KafkaProducer, TopicPartition
from kafka.admin import ConfigResource, ConfigResourceType, KafkaAdminClient, OffsetSpec
from kafka.structs import OffsetAndMetadata

from line import BASE, Record, in_order, main, numbered_from, step, until

CODECS = ["none", "gzip", "snappy", "lz4", "zstd"]


def kind(call):
    """The name of the error a call raises, None when it raises none."""
    try:
        call()
        return None
    except Exception as e:
        return type(e).__name__


def produce(addr, topic, codec, records, partition=0, **settings):
    p = KafkaProducer(bootstrap_servers=addr, compression_type=None if codec == "none" else codec, linger_ms=50, acks="all", **settings)
    sent = [p.send(topic, r.value, r.key, r.headers, partition, r.time) for r in records]
    p.flush(30)
    p.close()
    return [f.get(0).offset for f in sent]


def consumer(addr, **settings):
    return KafkaConsumer(bootstrap_servers=addr, auto_offset_reset="earliest", fetch_max_wait_ms=100, max_partition_fetch_bytes=10 << 20, **settings)


def take(c, count):
    got, end = [], time.monotonic() + 30
    while len(got) < count:
        if time.monotonic() > end:
            raise TimeoutError(f"{len(got)} of {count} records came")
        for batch in c.poll(500, max_records=count - len(got)).values():
            got += [Record(m.key, m.value, m.timestamp, m.headers) for m in batch]
    return got


def write(addr, topic, codec, records):
    # It takes no null header values.
    produce(addr, topic, codec, [r._replace(headers=[(n, v or b"") for n, v in r.headers]) for r in records])


def read(addr, topics, count):
    c = consumer(addr)
    c.assign([TopicPartition(t, 0) for t in topics])
    c.seek_to_beginning()
    got = {t: [] for t in topics}

    def enough():
        for tp, batch in c.poll(100).items():
            got[tp.topic] += [Record(m.key, m.value, m.timestamp, m.headers) for m in batch]
        return all(len(r) >= count for r in got.values())

    until("all records", enough)
    c.close()
    return {t: r[:count] for t, r in got.items()}


def all_of(addr, topic, count):
    return read(addr, [topic], count)[topic]


def suite(addr):
    admin = KafkaAdminClient(bootstrap_servers=addr)
    topics(admin)
    configs(admin)
    producers(addr)
    times(addr, admin)
    group(addr, admin)
    cluster(admin)
    admin.close()


def topics(admin):
    name = "kafka-python-topics"

    def make(name, replicas=1, **more):
        return kind(lambda: admin.create_topics({name: {"num_partitions": 3, "replication_factor": replicas, "configs": {"retention.ms": "3600000"}}}, **more))

    step("topic validated", make(name, validate_only=True))
    step("topic created", make(name, wait_for_metadata=True))
    step("topic created again", make(name))
    step("topic of two replicas", make("kafka-python-two", 2))
    for count in 5, 2:
        step(f"partitions: {count}", kind(lambda: admin.create_partitions({name: count})))
    (t,) = until("5 partitions", lambda: len(admin.describe_topics([name])[0]["partitions"]) == 5 and admin.describe_topics([name]))
    keys = "partition_index", "leader_id", "leader_epoch", "replica_nodes", "isr_nodes", "error_code"
    step("topic described", [[p[k] for k in keys] for p in t["partitions"]])
    more = admin.describe_topic_partitions([name], response_partition_limit=2)
    step("topic described by pages", [len(more["topics"][0]["partitions"]), (more["next_cursor"] or {}).get("partition_index")])
    step("topic listed", name in admin.list_topics())
    for _ in range(2):
        step("topic deleted", kind(lambda: admin.delete_topics([name])))


def configs(admin):
    name = "kafka-python-configs"
    admin.create_topics({name: {"num_partitions": 1, "replication_factor": 1}}, wait_for_metadata=True)

    def change(what, entries, **more):
        got = admin.alter_configs([ConfigResource(ConfigResourceType.TOPIC, name, entries)], **more)["topic"][name]
        step(what, str(got).split(":")[0])

    def show(what, policy):
        def ask():
            got = admin.describe_configs([ConfigResource(ConfigResourceType.TOPIC, name, {"cleanup.policy": None, "segment.bytes": None})], include_synonyms=True, config_filter="all")
            got = got["topic"][name]
            return got["cleanup.policy"]["value"] == policy and got

        got = until(f"cleanup.policy is {policy}", ask)
        step(what, {k: [v["value"], str(v["config_source"]), str(v["config_type"]), v["read_only"], [s["name"] for s in v["synonyms"]]] for k, v in sorted(got.items())})

    show("configs at first", "delete")
    change("configs changed", {"cleanup.policy": ("APPEND", "compact"), "segment.bytes": "1048576"})
    show("configs then", "delete,compact")
    change("configs of a bad value", {"segment.bytes": "many"})
    change("configs replaced", {"cleanup.policy": "compact"}, incremental=False)
    show("configs after it", "compact")


def producers(addr):
    for codec in CODECS:
        idempotent = codec not in ("none", "snappy")
        topic = f"kafka-python-{codec}"
        offsets = produce(addr, topic, codec, numbered_from(0, 60), enable_idempotence=idempotent)
        offsets += produce(addr, topic, codec, numbered_from(60, 40), enable_idempotence=idempotent)
        step(f"producer {codec}", [offsets == list(range(100)), in_order(all_of(addr, topic, 100))])
    odd = [
        Record(None, b"no key", BASE, [("a", b"1"), ("a", b"2"), ("empty", b"")]),
        Record(b"no value", None, BASE, []),
        Record(b"", b"", BASE, []),
    ]
    produce(addr, "kafka-python-odd", "lz4", odd)
    step("null and empty", [list(map(repr, [r.key, r.value, list(r.headers)])) for r in all_of(addr, "kafka-python-odd", 3)])


def times(addr, admin):
    topic = "kafka-python-time"
    tp = TopicPartition(topic, 0)
    for first in 0, 20, 40:
        produce(addr, topic, "gzip", numbered_from(first, 20))

    def at(spec):
        (got,) = admin.list_partition_offsets({tp: spec}).values()
        return got.offset

    step(
        "offsets by time",
        {
            "earliest": at(OffsetSpec.EARLIEST),
            "latest": at(OffsetSpec.LATEST),
            "max timestamp": at(OffsetSpec.MAX_TIMESTAMP),
            "before": at(BASE - 3600000),
            "exact": at(BASE + 33000),
            "between": at(BASE + 33001),
            "after": at(BASE + 3600000),
        },
    )
    c = consumer(addr, group_id="kafka-python-seek", enable_auto_commit=False)
    c.assign([tp])
    found = c.offsets_for_times({tp: BASE + 33000})[tp]
    step("found by the consumer", [found.offset, found.timestamp - BASE])
    c.seek(tp, found.offset)
    step("read from a time", [r.key.decode() for r in take(c, 3)])
    step("ends", [c.beginning_offsets([tp])[tp], c.end_offsets([tp])[tp]])
    c.commit({tp: OffsetAndMetadata(42, "meta", -1)})
    got = c.committed(tp, metadata=True)
    step("committed", [got.offset, got.metadata])
    c.pause(tp)
    c.seek(tp, 0)
    step("read while paused", len(c.poll(300)))
    c.resume(tp)
    step("read after resume", take(c, 1)[0].key.decode())
    c.close()
    (low,) = admin.delete_records({tp: 30}).values()
    step("records deleted", low["low_watermark"])
    step("records deleted past the end", kind(lambda: admin.delete_records({tp: 61})))
    step("first record after it", all_of(addr, topic, 1)[0].key.decode())


class Member(ConsumerRebalanceListener):
    """A consumer of a group in a thread of its own."""

    def __init__(self, addr, group, topic, seen):
        self.parts, self.seen, self.stop = set(), seen, threading.Event()
        self.c = consumer(addr, group_id=group, heartbeat_interval_ms=200, session_timeout_ms=6000, auto_commit_interval_ms=100)
        self.c.subscribe([topic], listener=self)
        self.thread = threading.Thread(target=self.run)
        self.thread.start()

    def on_partitions_assigned(self, assigned):
        self.parts = {p.partition for p in assigned}

    def on_partitions_revoked(self, revoked):
        self.parts = set()

    # A poll whose time is up while the member joins loses the assignment that then
    # comes, and this client never joins again; so it gets more than a join takes.
    def run(self):
        while not self.stop.is_set():
            for batch in self.c.poll(2000).values():
                self.seen.update((m.partition, m.offset) for m in batch)
        self.c.close()

    def leave(self):
        self.stop.set()
        self.thread.join()


def group(addr, admin):
    topic, name, seen = "kafka-python-shared", "kafka-python-group", set()
    admin.create_topics({topic: {"num_partitions": 4, "replication_factor": 1}}, wait_for_metadata=True)
    one = Member(addr, name, topic, seen)
    until("one has all", lambda: len(one.parts) == 4)
    step("group alone", sorted(one.parts))
    two = Member(addr, name, topic, seen)
    until("two share", lambda: len(one.parts) == 2 and len(two.parts) == 2)
    step("group of two", sorted(one.parts | two.parts))
    for p in range(4):
        produce(addr, topic, "none", numbered_from(0, 25), partition=p)
    until("all is read", lambda: len(seen) == 100)
    step("group read", len(seen))
    d = admin.describe_groups([name])[name]
    step("group described", [d["group_state"], d["protocol_type"], d["protocol_data"], len(d["members"])])
    two.leave()
    until("one has all again", lambda: len(one.parts) == 4)
    step("group after one left", sorted(one.parts))
    step("group in use deleted", str(admin.delete_groups([name])[name]))
    one.leave()

    def show(what):
        step(what, sorted([tp.partition, o.offset] for tp, o in admin.list_group_offsets({name: None})[name].items()))

    show("offsets committed")
    at = {p: TopicPartition(topic, p) for p in range(4)}
    admin.alter_group_offsets(name, {at[1]: OffsetAndMetadata(7, "seven", -1)})
    admin.delete_group_offsets(name, [at[2]])
    show("offsets altered")
    admin.reset_group_offsets(name, {at[0]: OffsetSpec.EARLIEST, at[3]: 1000})
    show("offsets reset")
    (g,) = [g for g in admin.list_groups(states_filter=["Empty"], types_filter=["classic"]) if g["group_id"] == name]
    step("group listed", [g["protocol_type"], g["group_state"], g["group_type"]])
    for _ in range(2):
        step("group deleted", str(admin.delete_groups([name])[name]))


def cluster(admin):
    c = admin.describe_cluster()
    step("cluster", [len(c["brokers"]), len(c["cluster_id"]), c["controller_id"] == c["brokers"][0]["broker_id"]])
    (dirs,) = admin.describe_log_dirs()
    step("log dirs", [len(dirs["log_dirs"]), [d["error_code"] for d in dirs["log_dirs"]]])


main(write, read, suite)
