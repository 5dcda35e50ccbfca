"""Runs aiokafka against a broker."""

import asyncio

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, ConsumerRebalanceListener, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, NewPartitions, NewTopic, RecordsToDelete
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType
from aiokafka.errors import KafkaError, for_code
from aiokafka.structs import OffsetAndMetadata

from line import BASE, Record, in_order, main, numbered_from, step

CODECS = ["none", "gzip", "snappy", "lz4", "zstd"]


async def until(what, condition, limit=30):
    end = asyncio.get_running_loop().time() + limit
    while not (got := await condition()):
        if asyncio.get_running_loop().time() > end:
            raise TimeoutError(f"not within {limit} s: {what}")
        await asyncio.sleep(0.02)
    return got


async def produce(addr, topic, codec, records, partition=0, **settings):
    p = AIOKafkaProducer(bootstrap_servers=addr, compression_type=None if codec == "none" else codec, linger_ms=20, acks="all", **settings)
    await p.start()
    try:
        sent = [await p.send(topic, r.value, r.key, partition, r.time, r.headers) for r in records]
        return [(await f).offset for f in sent]
    finally:
        await p.stop()


def consumer(addr, *topics, **settings):
    return AIOKafkaConsumer(*topics, bootstrap_servers=addr, auto_offset_reset="earliest", fetch_max_wait_ms=100, max_partition_fetch_bytes=10 << 20, **settings)


async def take(c, count):
    got = []
    for _ in range(count):
        m = await asyncio.wait_for(c.getone(), 30)
        got.append(Record(m.key, m.value, m.timestamp, list(m.headers)))
    return got


async def all_of(addr, topic, count):
    c = consumer(addr)
    await c.start()
    try:
        tp = TopicPartition(topic, 0)
        c.assign([tp])
        await c.seek_to_beginning(tp)
        return await take(c, count)
    finally:
        await c.stop()


def write(addr, topic, codec, records):
    asyncio.run(produce(addr, topic, codec, records))


def read(addr, topics, count):
    async def each():
        return {t: await all_of(addr, t, count) for t in topics}

    return asyncio.run(each())


def suite(addr):
    asyncio.run(scenario(addr))


async def scenario(addr):
    admin = AIOKafkaAdminClient(bootstrap_servers=addr)
    await admin.start()
    try:
        await topics(admin)
        await configs(admin)
        await producers(addr)
        await times(addr, admin)
        await group(addr, admin)
    finally:
        await admin.close()


def name_of(code):
    """The name of an error code, None for that of success."""
    return None if code == 0 else for_code(code).__name__


async def kind(call):
    """The name of the error a call raises, None when it raises none."""
    try:
        await call
        return None
    except KafkaError as e:
        return type(e).__name__


async def topics(admin):
    name = "aio-topics"

    async def make(name, replicas=1, **more):
        res = await admin.create_topics([NewTopic(name, 3, replicas, topic_configs={"retention.ms": "3600000"})], **more)
        return name_of(res.topic_errors[0][1])

    step("topic validated", await make(name, validate_only=True))
    step("topic created", await make(name))
    step("topic created again", await make(name))
    step("topic of two replicas", await make("aio-two", 2))
    for count in 5, 2:
        step(f"partitions: {count}", await kind(admin.create_partitions({name: NewPartitions(count)})))

    async def described():
        (t,) = await admin.describe_topics([name])
        return len(t["partitions"]) == 5 and t

    t = await until("5 partitions", described)
    step("topic described", sorted([p["partition"], p["leader"], p["replicas"], p["isr"], p["error_code"]] for p in t["partitions"]))
    step("topic listed", name in await admin.list_topics())
    for _ in range(2):
        res = await admin.delete_topics([name])
        step("topic deleted", name_of(res.topic_error_codes[0][1]))


async def configs(admin):
    name = "aio-configs"
    await admin.create_topics([NewTopic(name, 1, 1)])

    async def show(what, policy):
        async def ask():
            (res,) = await admin.describe_configs([ConfigResource(ConfigResourceType.TOPIC, name, {"cleanup.policy": None, "segment.bytes": None})])
            rows = {r[0]: list(r[1:5]) for r in res.resources[0][4]}
            return "cleanup.policy" in rows and rows["cleanup.policy"][0] == policy and rows

        step(what, await until(f"cleanup.policy is {policy}", ask))

    await show("configs at first", "delete")
    for value in "compact", "crushed":
        (res,) = await admin.alter_configs([ConfigResource(ConfigResourceType.TOPIC, name, {"cleanup.policy": value})])
        step(f"cleanup.policy {value}", name_of(res.resources[0][0]))
    await show("configs then", "compact")


async def producers(addr):
    for codec in CODECS:
        for idempotent in False, True:
            topic = f"aio-{codec}-{idempotent}"
            offsets = await produce(addr, topic, codec, numbered_from(0, 60), enable_idempotence=idempotent)
            offsets += await produce(addr, topic, codec, numbered_from(60, 40), enable_idempotence=idempotent)
            step(f"producer {codec}, idempotent {idempotent}", [offsets == list(range(100)), in_order(await all_of(addr, topic, 100))])
    odd = [
        Record(None, b"no key", BASE, [("a", b"1"), ("a", b"2"), ("null", None), ("empty", b"")]),
        Record(b"no value", None, BASE, []),
        Record(b"", b"", BASE, []),
    ]
    await produce(addr, "aio-odd", "zstd", odd)
    step("null and empty", [list(map(repr, [r.key, r.value, r.headers])) for r in await all_of(addr, "aio-odd", 3)])


async def times(addr, admin):
    topic = "aio-time"
    tp = TopicPartition(topic, 0)
    for first in 0, 20, 40:
        await produce(addr, topic, "lz4", numbered_from(first, 20))
    c = consumer(addr, group_id="aio-seek", enable_auto_commit=False)
    await c.start()
    c.assign([tp])
    found = {}
    for what, at in ("before", -3600000), ("exact", 33000), ("between", 33001), ("after", 3600000):
        got = (await c.offsets_for_times({tp: BASE + at}))[tp]
        found[what] = got and [got.offset, got.timestamp - BASE]
    step("offsets by time", found)
    c.seek(tp, found["exact"][0])
    step("read from a time", [r.key.decode() for r in await take(c, 3)])
    step("ends", [(await c.beginning_offsets([tp]))[tp], (await c.end_offsets([tp]))[tp], c.highwater(tp)])
    await c.commit({tp: OffsetAndMetadata(42, "meta")})
    step("committed", await c.committed(tp))
    c.pause(tp)
    c.seek(tp, 0)
    step("read while paused", len(await c.getmany(timeout_ms=300)))
    c.resume(tp)
    step("read after resume", (await take(c, 1))[0].key.decode())
    await c.stop()
    step("records deleted", (await admin.delete_records({tp: RecordsToDelete(30)}))[tp])
    step("first record after it", (await all_of(addr, topic, 1))[0].key.decode())


class Member(ConsumerRebalanceListener):
    """A consumer of a group with a task of its own."""

    def __init__(self, addr, group, topic, seen):
        self.parts, self.seen = set(), seen
        self.c = consumer(addr, group_id=group, heartbeat_interval_ms=200, session_timeout_ms=6000, auto_commit_interval_ms=100)
        self.c.subscribe([topic], listener=self)

    async def join(self):
        await self.c.start()
        self.task = asyncio.create_task(self.run())
        return self

    async def on_partitions_assigned(self, assigned):
        self.parts = {p.partition for p in assigned}

    async def on_partitions_revoked(self, revoked):
        self.parts = set()

    async def run(self):
        async for m in self.c:
            self.seen.add((m.partition, m.offset))

    async def leave(self):
        self.task.cancel()
        await asyncio.gather(self.task, return_exceptions=True)
        await self.c.stop()


async def group(addr, admin):
    topic, name, seen = "aio-shared", "aio-group", set()
    await admin.create_topics([NewTopic(topic, 4, 1)])

    async def true(condition):
        return condition()

    one = Member(addr, name, topic, seen)
    await one.join()
    await until("one has all", lambda: true(lambda: len(one.parts) == 4))
    step("group alone", sorted(one.parts))
    two = Member(addr, name, topic, seen)
    await two.join()
    await until("two share", lambda: true(lambda: len(one.parts) == 2 and len(two.parts) == 2))
    step("group of two", sorted(one.parts | two.parts))
    for p in range(4):
        await produce(addr, topic, "none", numbered_from(0, 25), partition=p)
    await until("all is read", lambda: true(lambda: len(seen) == 100))
    step("group read", len(seen))
    (res,) = await admin.describe_consumer_groups([name])
    code, _, state, protocol_type, protocol, members = res.groups[0][:6]
    step("group described", [name_of(code), state, protocol_type, protocol, len(members)])
    await two.leave()
    await until("one has all again", lambda: true(lambda: len(one.parts) == 4))
    step("group after one left", sorted(one.parts))
    await one.leave()
    committed = await admin.list_consumer_group_offsets(name)
    step("offsets committed", sorted([tp.partition, o.offset] for tp, o in committed.items()))
    step("group listed", [g[1] for g in await admin.list_consumer_groups() if g[0] == name])
    c = await admin.describe_cluster()
    step("cluster", [len(c["brokers"]), len(c["cluster_id"]), c["controller_id"] == c["brokers"][0]["node_id"]])


main(write, read, suite)
