// Runs @platformatic/kafka against a broker. It has no zstd before Node 22.15.
import { base, inOrder, main, numberedFrom, step, until } from "./line.mjs";
import {
  Admin,
  Consumer,
  ConfigResourceTypes,
  IncrementalAlterConfigOperationTypes,
  ListOffsetTimestamps,
  MessagesStreamModes,
  ProduceAcks,
  Producer,
} from "@platformatic/kafka";

const client = (addr) => ({ clientId: "compat", bootstrapBrokers: [addr], retries: 50, retryDelay: 100, connectTimeout: 10000 });

// kind is the name of the error code an error carries, null when there is none.
async function kind(promise) {
  try {
    await promise;
    return null;
  } catch (e) {
    const deep = (x) => x.apiId ?? x.errors?.map(deep).find((id) => id) ?? (x.cause && deep(x.cause));
    return deep(e) ?? `${e.name}: ${e.message}`;
  }
}

function message(topic, r, partition = 0) {
  // A map by identity of its keys holds two headers of one name.
  const headers = new Map(r.headers.map(([name, value]) => [Buffer.from(name), value]));
  return { topic, key: r.key ?? undefined, value: r.value ?? undefined, timestamp: BigInt(r.time), headers, partition };
}

const record = (m) => ({
  key: m.key ?? null,
  value: m.value ?? null,
  time: Number(m.timestamp),
  headers: [...m.headers].map(([name, value]) => [name.toString(), value ?? null]),
});

async function send(addr, topic, codec, records, settings = {}) {
  const producer = new Producer({ ...client(addr), autocreateTopics: true, ...settings });
  try {
    const { offsets } = await producer.send({
      messages: records.map((r) => message(topic, r)),
      compression: codec,
      acks: ProduceAcks.ALL,
      ...settings,
    });
    return offsets[0].offset;
  } finally {
    await producer.close();
  }
}

// take reads count records of each topic by a group of its own.
async function take(addr, groupId, topics, count, options = { mode: MessagesStreamModes.EARLIEST }) {
  const consumer = new Consumer({ ...client(addr), groupId, maxWaitTime: 100, maxBytes: 10 << 20, autocommit: false });
  const got = Object.fromEntries(topics.map((t) => [t, []]));
  const stream = await consumer.consume({ topics, ...options });
  stream.on("data", (m) => got[m.topic].push(record(m)));
  await until(`${count} records of each topic`, () => topics.every((t) => got[t].length >= count));
  await stream.close();
  await consumer.close(true);
  for (const t of topics) got[t] = got[t].slice(0, count);
  return got;
}

main({
  write: async (addr, topic, codec, records) => void (await send(addr, topic, codec, records)),

  read: (addr, topics, count) => take(addr, `platformatic-read-${process.pid}`, topics, count),

  async suite(addr) {
    const admin = new Admin(client(addr));
    await topics(admin);
    await configs(admin);
    await producers(addr);
    await times(addr, admin);
    await group(addr, admin);
    await admin.close();
  },
});

async function topics(admin) {
  const name = "platformatic-topics";
  const create = (settings) => admin.createTopics({ topics: [name], ...settings });
  const [made] = await create({ partitions: 3, replicas: 1, configs: [{ name: "retention.ms", value: "3600000" }] });
  step("topic created", [made.name, made.partitions, made.replicas, made.configuration["retention.ms"], made.id.length]);
  step("topic created again", await kind(create({ partitions: 3, replicas: 1 })));
  step("topic of two replicas", await kind(admin.createTopics({ topics: ["platformatic-two"], partitions: 1, replicas: 2 })));
  const widen = (count, assignments = null) => kind(admin.createPartitions({ topics: [{ name, count, assignments }] }));
  step("partitions added without places", await widen(5, []));
  step("partitions added", await widen(5));
  step("partitions taken away", await widen(2));
  const seen = await until("5 partitions", async () => {
    const m = await admin.metadata({ topics: [name], forceUpdate: true });
    const t = m.topics.get(name);
    return t.partitionsCount === 5 && t;
  });
  step("topic described", seen.partitions.map((p) => [p.leader, p.leaderEpoch, p.replicas]));
  step("topic listed", (await admin.listTopics()).includes(name));
  step("topic deleted", await kind(admin.deleteTopics({ topics: [name] })));
  step("topic deleted again", await kind(admin.deleteTopics({ topics: [name] })));
}

async function configs(admin) {
  const name = "platformatic-configs";
  await admin.createTopics({ topics: [name], partitions: 1, replicas: 1 });
  const resource = { resourceType: ConfigResourceTypes.TOPIC, resourceName: name };
  const show = () =>
    until("configs", async () => {
      const [d] = await admin.describeConfigs({ resources: [{ ...resource, configurationKeys: ["cleanup.policy", "segment.bytes"] }], includeSynonyms: true });
      return d?.configs.length === 2 && d.configs.map((c) => [c.name, c.value, c.configSource, c.configType, c.synonyms.map((s) => [s.name, s.value, s.source])]).sort();
    });
  step("configs at first", await show());
  const change = (configs) => kind(admin.incrementalAlterConfigs({ resources: [{ ...resource, configs }] }));
  const op = IncrementalAlterConfigOperationTypes;
  step("configs changed", await change([{ name: "cleanup.policy", configOperation: op.APPEND, value: "compact" }]));
  step("configs changed", await change([{ name: "segment.bytes", configOperation: op.SET, value: "1048576" }]));
  step("configs then", await show());
  step("configs of a bad value", await change([{ name: "segment.bytes", configOperation: op.SET, value: "many" }]));
  step("configs changed", await change([{ name: "segment.bytes", configOperation: op.DELETE }]));
  step("configs in the end", await show());
}

const codecs = ["none", "gzip", "snappy", "lz4"];

async function producers(addr) {
  const first = {};
  for (const codec of codecs) {
    const settings = codec === "none" ? {} : { idempotent: true };
    first[codec] = [await send(addr, `platformatic-${codec}`, codec, numberedFrom(0, 60), settings)];
    first[codec].push(await send(addr, `platformatic-${codec}`, codec, numberedFrom(60, 40), settings));
  }
  const all = codecs.map((c) => `platformatic-${c}`);
  const got = await take(addr, "platformatic-take", all, 100);
  for (const codec of codecs) step(`producer ${codec}`, [...first[codec].map(Number), inOrder(got[`platformatic-${codec}`])]);
}

async function times(addr, admin) {
  const topic = "platformatic-time";
  for (const first of [0, 20, 40]) await send(addr, topic, "gzip", numberedFrom(first, 20));
  const at = async (timestamp) => {
    const [t] = await admin.listOffsets({ topics: [{ name: topic, partitions: [{ partitionIndex: 0, timestamp: BigInt(timestamp) }] }] });
    return Number(t.partitions[0].offset);
  };
  step("offsets by time", {
    earliest: await at(ListOffsetTimestamps.EARLIEST),
    latest: await at(ListOffsetTimestamps.LATEST),
    before: await at(base - 3600000),
    exact: await at(base + 33000),
    between: await at(base + 33001),
    last: await at(base + 59000),
    after: await at(base + 3600000),
  });
  const offsets = [{ topic, partition: 0, offset: BigInt(await at(base + 33000)) }];
  const got = await take(addr, "platformatic-seek", [topic], 3, { mode: MessagesStreamModes.MANUAL, offsets });
  step("read from a time", got[topic].map((r) => r.key.toString()));
  const [deleted] = await admin.deleteRecords({ topics: [{ name: topic, partitions: [{ partition: 0, offset: 30n }] }] });
  step("records deleted", Number(deleted.partitions[0].lowWatermark));
  step("earliest after it", await at(ListOffsetTimestamps.EARLIEST));
}

async function group(addr, admin) {
  const topic = "platformatic-shared";
  const groupId = "platformatic-group";
  await admin.createTopics({ topics: [topic], partitions: 4, replicas: 1 });
  const seen = new Set();
  const join = async () => {
    const consumer = new Consumer({ ...client(addr), groupId, heartbeatInterval: 200, maxWaitTime: 100 });
    const m = { consumer, parts: () => [...(consumer.assignments?.find((a) => a.topic === topic)?.partitions ?? [])].sort() };
    m.stream = await consumer.consume({ topics: [topic], mode: MessagesStreamModes.COMMITTED, fallbackMode: "earliest", autocommit: 100 });
    m.stream.on("data", (r) => seen.add(`${r.partition}:${r.offset}`));
    return m;
  };
  const produce = async (count) => {
    const producer = new Producer(client(addr));
    const messages = numberedFrom(0, count).map((r, i) => message(topic, r, i % 4));
    await producer.send({ messages, acks: ProduceAcks.ALL });
    await producer.close();
  };
  const one = await join();
  await until("one has all", () => one.parts().length === 4);
  step("group alone", one.parts());
  const two = await join();
  await until("two share", () => one.parts().length === 2 && two.parts().length === 2);
  step("group of two", [...one.parts(), ...two.parts()].sort());
  await produce(100);
  await until("the group has read 100", () => seen.size === 100);
  step("group read", seen.size);
  const d = (await admin.describeGroups({ groups: [groupId] })).get(groupId);
  step("group described", [d.state, d.protocolType, d.protocol, d.members.size]);
  const committed = async () => {
    const [g] = await admin.listConsumerGroupOffsets({ groups: [groupId] });
    return (g.topics[0]?.partitions ?? []).map((p) => [p.partitionIndex, Number(p.committedOffset)]).sort((a, b) => a[0] - b[0]);
  };
  await until("all is committed", async () => (await committed()).every(([, offset]) => offset === 25));
  await two.stream.close();
  await two.consumer.close(true);
  await until("one has all again", () => one.parts().length === 4);
  step("group after one left", one.parts());
  await one.stream.close();
  await one.consumer.close(true);
  step("offsets committed", await committed());
  await admin.alterConsumerGroupOffsets({ groupId, topics: [{ name: topic, partitionOffsets: [{ partition: 1, offset: 7n }] }] });
  await admin.deleteConsumerGroupOffsets({ groupId, topics: [{ name: topic, partitionIndexes: [2] }] });
  step("offsets altered", await committed());
  const listed = (await admin.listGroups()).get(groupId);
  step("group listed", [listed.state, listed.protocolType, listed.groupType]);
  step("group deleted", await kind(admin.deleteGroups({ groups: [groupId] })));
  step("group deleted again", await kind(admin.deleteGroups({ groups: [groupId] })));
}
