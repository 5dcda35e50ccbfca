"""Runs confluent-kafka, which is librdkafka, against a broker."""

import threading
import time

from confluent_kafka import (
    OFFSET_BEGINNING,
    ConsumerGroupTopicPartitions,
    ConsumerGroupState,
    Consumer,
    ElectionType,
    IsolationLevel,
    KafkaException,
    Producer,
    TopicCollection,
    TopicPartition,
)
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    NewTopic,
    OffsetSpec,
)

from line import BASE, Record, in_order, main, numbered, numbered_from, step, until

CODECS = ["none", "gzip", "snappy", "lz4", "zstd"]


def kind(future):
    """The name of the error code a future carries, None when it has none."""
    try:
        future.result(30)
        return None
    except KafkaException as e:
        return e.args[0].name()


def produce(addr, topic, codec, records, partition=0, **settings):
    """Sends the records in one batch; gives their delivery reports."""
    reports = []
    p = Producer({"bootstrap.servers": addr, "compression.codec": codec, "linger.ms": 50, "acks": "all", **settings})
    for r in records:
        p.produce(topic, r.value, r.key, partition=partition, timestamp=r.time, headers=r.headers, on_delivery=lambda err, m: reports.append((err, m.offset())))
    if p.flush(30):
        raise TimeoutError("records are left in the queue")
    for err, _ in reports:
        if err:
            raise KafkaException(err)
    return [offset for _, offset in reports]


def consumer(addr, group, **settings):
    return Consumer({"bootstrap.servers": addr, "group.id": group, "auto.offset.reset": "earliest", "fetch.wait.max.ms": 100, "heartbeat.interval.ms": 200, "session.timeout.ms": 6000, **settings})


def record(m):
    return Record(m.key(), m.value(), m.timestamp()[1], m.headers() or [])


def take(c, count):
    got = []
    end = time.monotonic() + 30
    while len(got) < count:
        if time.monotonic() > end:
            raise TimeoutError(f"{len(got)} of {count} records came")
        for m in c.consume(count - len(got), 1):
            if m.error():
                raise KafkaException(m.error())
            got.append(record(m))
    return got


def write(addr, topic, codec, records):
    produce(addr, topic, codec, records)


def read(addr, topics, count):
    c = consumer(addr, "unused")
    c.assign([TopicPartition(t, 0, OFFSET_BEGINNING) for t in topics])
    got = {t: [] for t in topics}

    def enough():
        for m in c.consume(1000, 0.05):
            if m.error():
                raise KafkaException(m.error())
            got[m.topic()].append(record(m))
        return all(len(r) >= count for r in got.values())

    until("all records", enough)
    c.close()
    return {t: r[:count] for t, r in got.items()}


def all_of(addr, topic, count):
    return read(addr, [topic], count)[topic]


def suite(addr):
    admin = AdminClient({"bootstrap.servers": addr})
    topics(admin)
    configs(admin)
    producers(addr, admin)
    times(addr, admin)
    group(addr, admin)
    static(addr, admin)
    cluster(addr, admin)


def create(admin, name, partitions=1, **config):
    (f,) = admin.create_topics([NewTopic(name, partitions, 1, config=config)]).values()
    f.result(30)


def topics(admin):
    name = "confluent-topics"

    def make(name, **more):
        new = NewTopic(name, 3, config={"retention.ms": "3600000"}, replication_factor=more.pop("replicas", 1))
        (f,) = admin.create_topics([new], **more).values()
        return kind(f)

    step("topic validated", make(name, validate_only=True))
    step("topic created", make(name))
    step("topic created again", make(name))
    step("topic of two replicas", make("confluent-two", replicas=2))
    step("topic of a bad name", make("a/b"))
    for count in 5, 2:
        (f,) = admin.create_partitions([NewPartitions(name, count)]).values()
        step(f"partitions: {count}", kind(f))
    seen = until("5 partitions", lambda: len(admin.list_topics(name).topics[name].partitions) == 5 and admin.list_topics(name).topics[name])
    step("topic listed", [[p.id, p.leader, p.replicas, p.isrs, str(p.error)] for p in seen.partitions.values()])
    (f,) = admin.describe_topics(TopicCollection([name])).values()
    d = f.result()
    step("topic described", [d.name, d.is_internal, [[p.id, p.leader.id, len(p.replicas), len(p.isr)] for p in d.partitions]])
    (f,) = admin.describe_topics(TopicCollection(["confluent-none"])).values()
    step("no topic described", kind(f))
    elected = admin.elect_leaders(ElectionType.PREFERRED, [TopicPartition(name, 0)])
    step("leader elected", kind(elected) or [e.name() if e else None for e in elected.result().values()])
    for _ in range(2):
        (f,) = admin.delete_topics([name]).values()
        step("topic deleted", kind(f))


def configs(admin):
    name = "confluent-configs"
    create(admin, name)

    def show(what, policy):
        def ask():
            (f,) = admin.describe_configs([ConfigResource(ConfigResource.Type.TOPIC, name)]).values()
            got = f.result(30)
            return got["cleanup.policy"].value == policy and got

        got, rows = until(f"cleanup.policy is {policy}", ask), []
        for key in "cleanup.policy", "retention.ms", "segment.bytes":
            c = got[key]
            rows.append([c.name, c.value, c.source, c.is_read_only, c.is_default, c.is_sensitive])
        step(what, rows)

    def change(what, *entries):
        res = ConfigResource(ConfigResource.Type.TOPIC, name, incremental_configs=list(entries))
        (f,) = admin.incremental_alter_configs([res]).values()
        step(what, kind(f))

    until("configs", lambda: kind(*admin.describe_configs([ConfigResource(ConfigResource.Type.TOPIC, name)]).values()) is None)
    show("configs at first", "delete")
    change(
        "configs changed",
        ConfigEntry("segment.bytes", "1048576", incremental_operation=AlterConfigOpType.SET),
        ConfigEntry("cleanup.policy", "compact", incremental_operation=AlterConfigOpType.APPEND),
    )
    show("configs then", "delete,compact")
    change("config deleted", ConfigEntry("segment.bytes", None, incremental_operation=AlterConfigOpType.DELETE))
    change("config subtracted", ConfigEntry("cleanup.policy", "delete", incremental_operation=AlterConfigOpType.SUBTRACT))
    show("configs in the end", "compact")
    change("config of a bad value", ConfigEntry("retention.ms", "soon", incremental_operation=AlterConfigOpType.SET))
    change("config of a bad name", ConfigEntry("no.such", "1", incremental_operation=AlterConfigOpType.SET))
    (f,) = admin.alter_configs([ConfigResource(ConfigResource.Type.TOPIC, name, set_config={"retention.ms": "5000"})]).values()
    step("configs replaced", kind(f))
    show("configs after it", "delete")
    (f,) = admin.describe_configs([ConfigResource(ConfigResource.Type.TOPIC, "confluent-none")]).values()
    step("configs of no topic", kind(f))
    (f,) = admin.describe_configs([ConfigResource(ConfigResource.Type.BROKER, "1")]).values()
    step("configs of the broker", len(f.result(30)) > 0)


def producers(addr, admin):
    for codec in CODECS:
        for idempotent in False, True:
            topic = f"confluent-{codec}-{idempotent}"
            offsets = produce(addr, topic, codec, numbered_from(0, 60), **{"enable.idempotence": idempotent})
            offsets += produce(addr, topic, codec, numbered_from(60, 40), **{"enable.idempotence": idempotent})
            got = all_of(addr, topic, 100)
            step(f"producer {codec}, idempotent {idempotent}", [offsets == list(range(100)), in_order(got)])
    many = produce(addr, "confluent-many", "lz4", numbered_from(0, 5000), **{"enable.idempotence": True, "linger.ms": 1})
    step("producer of 5,000", [many == list(range(5000)), in_order(all_of(addr, "confluent-many", 5000))])
    create(admin, "confluent-small", **{"max.message.bytes": "2000"})
    # Kafka takes times up to an hour ahead: message.timestamp.after.max.ms.
    for what, r in ("too large", Record(None, bytes(3000), BASE, [])), ("too far ahead", Record(None, b"x", BASE + 4 * 3600000, [])):
        try:
            step(what, produce(addr, "confluent-small", "none", [r]))
        except KafkaException as e:
            step(what, e.args[0].name())
    odd = [
        Record(None, b"no key", BASE, [("a", b"1"), ("a", b"2"), ("null", None), ("empty", b"")]),
        Record(b"no value", None, BASE, []),
        Record(b"", b"", BASE, []),
    ]
    produce(addr, "confluent-odd", "zstd", odd)
    step("null and empty", [list(map(repr, [r.key, r.value, r.headers])) for r in all_of(addr, "confluent-odd", 3)])


def times(addr, admin):
    topic = "confluent-time"
    for first in 0, 20, 40:
        produce(addr, topic, "snappy", numbered_from(first, 20))
    tp = TopicPartition(topic, 0)

    def at(spec, **more):
        (f,) = admin.list_offsets({tp: spec}, **more).values()
        r = f.result(30)
        return [r.offset, r.timestamp - BASE if r.timestamp >= 0 else r.timestamp]

    step(
        "offsets by time",
        {
            "earliest": at(OffsetSpec.earliest()),
            "latest": at(OffsetSpec.latest()),
            "latest committed": at(OffsetSpec.latest(), isolation_level=IsolationLevel.READ_COMMITTED),
            "max timestamp": at(OffsetSpec.max_timestamp()),
            "before": at(OffsetSpec.for_timestamp(BASE - 3600000)),
            "exact": at(OffsetSpec.for_timestamp(BASE + 33000)),
            "between": at(OffsetSpec.for_timestamp(BASE + 33001)),
            "after": at(OffsetSpec.for_timestamp(BASE + 3600000)),
        },
    )
    c = consumer(addr, "confluent-seek")
    (found,) = c.offsets_for_times([TopicPartition(topic, 0, BASE + 33000)], 30)
    c.assign([found])
    step("read from a time", [r.key.decode() for r in take(c, 3)])
    c.seek(TopicPartition(topic, 0, 58))
    step("read from an offset", [r.key.decode() for r in take(c, 2)])
    step("watermarks", c.get_watermark_offsets(tp, 30))
    c.commit(offsets=[TopicPartition(topic, 0, 42, "meta")], asynchronous=False)
    (got,) = c.committed([tp], 30)
    step("committed", [got.offset, got.metadata])
    c.pause([tp])
    c.seek(TopicPartition(topic, 0, 0))
    step("read while paused", len(c.consume(1, 0.3)))
    c.resume([tp])
    step("read after resume", take(c, 1)[0].key.decode())
    c.close()
    (f,) = admin.delete_records([TopicPartition(topic, 0, 30)]).values()
    step("records deleted", f.result(30).low_watermark)
    (f,) = admin.delete_records([TopicPartition(topic, 0, 61)]).values()
    step("records deleted past the end", kind(f))
    step("first record after it", all_of(addr, topic, 1)[0].key.decode())


class Member:
    """A consumer of a group in a thread of its own."""

    def __init__(self, addr, group, topic, seen, **settings):
        self.parts, self.seen, self.events, self.stop = set(), seen, [], threading.Event()
        self.c = consumer(addr, group, **settings)
        self.c.subscribe([topic], on_assign=self.assigned, on_revoke=self.revoked)
        self.thread = threading.Thread(target=self.run)
        self.thread.start()

    # With a cooperative strategy only what changes is told.
    def assigned(self, _, parts):
        self.parts |= {p.partition for p in parts}
        self.events.append(("+", len(parts)))

    def revoked(self, _, parts):
        self.parts -= {p.partition for p in parts}
        self.events.append(("-", len(parts)))

    def run(self):
        while not self.stop.is_set():
            m = self.c.poll(0.05)
            if m is not None and not m.error():
                self.seen.add((m.partition(), m.offset()))
        self.c.close()

    def leave(self):
        self.stop.set()
        self.thread.join()


def fill(addr, topic, each):
    for p in range(4):
        produce(addr, topic, "none", numbered_from(0, each), partition=p)


def group(addr, admin):
    for strategy in "range", "cooperative-sticky":
        topic, name, seen = f"confluent-{strategy}", f"confluent-group-{strategy}", set()
        create(admin, topic, 4)
        settings = {"partition.assignment.strategy": strategy}
        one = Member(addr, name, topic, seen, **settings)
        until("one has all", lambda: len(one.parts) == 4)
        step(f"{strategy}: alone", sorted(one.parts))
        two = Member(addr, name, topic, seen, **settings)
        until("two share", lambda: len(one.parts) == 2 and len(two.parts) == 2)
        step(f"{strategy}: two", sorted(one.parts | two.parts))
        fill(addr, topic, 25)
        until("all is read", lambda: len(seen) == 100)
        (f,) = admin.describe_consumer_groups([name]).values()
        d = f.result(30)
        step(f"{strategy}: described", [d.state.name, d.is_simple_consumer_group, d.partition_assignor, sorted(len(m.assignment.topic_partitions) for m in d.members)])
        two.leave()
        until("one has all again", lambda: len(one.parts) == 4)
        step(f"{strategy}: one left", sorted(one.parts))
        (f,) = admin.delete_consumer_groups([name]).values()
        step(f"{strategy}: deleted in use", kind(f))
        one.leave()
        # What is revoked while joining says whether all was given up in between.
        step(f"{strategy}: given up", [n for sign, n in one.events if sign == "-"])
        offsets(admin, strategy, name, topic)


def offsets(admin, strategy, name, topic):
    def show(what):
        (f,) = admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(name)]).values()
        step(f"{strategy}: {what}", sorted([p.partition, p.offset] for p in f.result(30).topic_partitions))

    show("committed")
    change = ConsumerGroupTopicPartitions(name, [TopicPartition(topic, 1, 7)])
    (f,) = admin.alter_consumer_group_offsets([change]).values()
    f.result(30)
    show("committed then")
    listed = admin.list_consumer_groups(states={ConsumerGroupState.EMPTY}).result(30)
    step(f"{strategy}: listed", [[g.state.name, g.is_simple_consumer_group, g.type.name] for g in listed.valid if g.group_id == name])
    for _ in range(2):
        (f,) = admin.delete_consumer_groups([name]).values()
        step(f"{strategy}: deleted", kind(f))


def static(addr, admin):
    """A static member that comes back keeps its partitions, and nobody rebalances."""
    topic, name, seen = "confluent-static", "confluent-group-static", set()
    create(admin, topic, 4)
    one = Member(addr, name, topic, seen, **{"group.instance.id": "one"})
    two = Member(addr, name, topic, seen, **{"group.instance.id": "two"})
    until("two share", lambda: len(one.parts) == 2 and len(two.parts) == 2)
    had, events = set(two.parts), len(one.events)
    two.leave()
    two = Member(addr, name, topic, seen, **{"group.instance.id": "two"})
    until("two is back", lambda: len(two.parts) == 2)
    step("static: back", [two.parts == had, len(one.events) - events])
    fill(addr, topic, 5)
    until("all is read", lambda: len(seen) == 20)
    (f,) = admin.describe_consumer_groups([name]).values()
    step("static: described", sorted(m.group_instance_id for m in f.result(30).members))
    one.leave()
    two.leave()


def cluster(addr, admin):
    d = admin.describe_cluster().result(30)
    step("cluster", [len(d.cluster_id), len(d.nodes), f"{d.nodes[0].host}:{d.nodes[0].port}" == addr, d.controller.id == d.nodes[0].id])


main(write, read, suite)
