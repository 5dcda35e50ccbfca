// Runs kafkajs against a broker. gzip is its own; the other codecs are plugged
// in as its documentation says, all of them JavaScript or WebAssembly. (The LZ4
// frames of lz4js have dependent blocks, which Kafka does not take.)
import { base, inOrder, main, numberedFrom, step, until } from "./line.mjs";
import { lz4Compress, lz4Decompress } from "@platformatic/wasm-utils";
import kafkajs from "kafkajs";
import snappy from "kafkajs-snappy";
import zstdCodec from "zstd-codec";

const { AssignerProtocol, CompressionCodecs, CompressionTypes, ConfigResourceTypes, Kafka, logLevel } = kafkajs;

// Its simple face needs the content's size in the frame, which not all clients write.
const zstd = await new Promise((done) => zstdCodec.ZstdCodec.run((z) => done(new z.Streaming())));
CompressionCodecs[CompressionTypes.Snappy] = snappy;
CompressionCodecs[CompressionTypes.LZ4] = () => ({
  compress: async (encoder) => Buffer.from(lz4Compress(encoder.buffer)),
  decompress: async (buffer) => Buffer.from(lz4Decompress(buffer)),
});
CompressionCodecs[CompressionTypes.ZSTD] = () => ({
  compress: async (encoder) => Buffer.from(zstd.compress(encoder.buffer)),
  decompress: async (buffer) => Buffer.from(zstd.decompress(buffer)),
});

const codecs = {
  none: CompressionTypes.None,
  gzip: CompressionTypes.GZIP,
  snappy: CompressionTypes.Snappy,
  lz4: CompressionTypes.LZ4,
  zstd: CompressionTypes.ZSTD,
};

const connect = (addr) =>
  new Kafka({ clientId: "compat", brokers: [addr], logLevel: logLevel.NOTHING, retry: { retries: 3, initialRetryTime: 50 } });

// kind is the name of the error code an error carries, null when there is none.
async function kind(promise) {
  try {
    await promise;
    return null;
  } catch (e) {
    const inner = e.cause ?? e;
    return inner.type ?? inner.errors?.[0]?.type ?? inner.groups?.[0]?.error?.type ?? inner.partitions?.[0]?.error?.type ?? `${inner.name}: ${inner.message}`;
  }
}

function message(r, partition = 0) {
  const headers = {};
  for (const [name, value] of r.headers) {
    // Its encoder can't measure null header values.
    const v = value === null ? Buffer.alloc(0) : value;
    headers[name] = name in headers ? [headers[name], v].flat() : v;
  }
  return { key: r.key, value: r.value, timestamp: String(r.time), headers, partition };
}

const record = (m) => ({
  key: m.key,
  value: m.value,
  time: Number(m.timestamp),
  headers: Object.entries(m.headers ?? {}).flatMap(([name, v]) => (Array.isArray(v) ? v.map((x) => [name, x]) : [[name, v]])),
});

async function send(kafka, topic, codec, records, settings = {}) {
  const producer = kafka.producer({ allowAutoTopicCreation: true, ...settings });
  await producer.connect();
  try {
    return await producer.send({ topic, compression: codecs[codec], acks: -1, messages: records.map((r) => message(r)) });
  } finally {
    await producer.disconnect();
  }
}

// take reads count records of each topic by a group of its own; prepare may seek.
async function take(kafka, groupId, topics, count, prepare = () => {}) {
  const consumer = kafka.consumer({ groupId, maxWaitTimeInMs: 100 });
  const got = Object.fromEntries(topics.map((t) => [t, []]));
  await consumer.connect();
  try {
    await consumer.subscribe({ topics, fromBeginning: true });
    await consumer.run({ eachMessage: async ({ topic, message: m }) => void got[topic].push(record(m)) });
    prepare(consumer);
    const lacking = () => topics.filter((t) => got[t].length < count);
    await until(`${count} records of each topic`, () => lacking().length === 0).catch((e) => {
      throw new Error(`${e.message}; less of ${lacking()}`);
    });
  } finally {
    await consumer.disconnect();
  }
  for (const t of topics) got[t] = got[t].slice(0, count);
  return got;
}

main({
  write: (addr, topic, codec, records) => send(connect(addr), topic, codec, records),

  read: (addr, topics, count) => take(connect(addr), `kafkajs-read-${process.pid}`, topics, count),

  async suite(addr) {
    const kafka = connect(addr);
    const admin = kafka.admin();
    await admin.connect();
    await topics(admin);
    await configs(admin);
    await producers(kafka);
    await times(kafka, admin);
    await group(kafka, admin);
    await cluster(admin, addr);
    await admin.disconnect();
  },
});

async function topics(admin) {
  const topic = "kafkajs-topics";
  const spec = { topic, numPartitions: 3, replicationFactor: 1, configEntries: [{ name: "retention.ms", value: "3600000" }] };
  step("topic validated", await admin.createTopics({ topics: [spec], validateOnly: true, waitForLeaders: false }));
  step("topic created", await admin.createTopics({ topics: [spec] }));
  step("topic created again", await admin.createTopics({ topics: [spec] }));
  step("topic of two replicas", await kind(admin.createTopics({ topics: [{ topic: "kafkajs-two", replicationFactor: 2 }] })));
  step("topic listed", (await admin.listTopics()).includes(topic));
  step("partitions added", await kind(admin.createPartitions({ topicPartitions: [{ topic, count: 5 }] })));
  step("partitions taken away", await kind(admin.createPartitions({ topicPartitions: [{ topic, count: 2 }] })));
  const seen = await until("5 partitions", async () => {
    const [t] = (await admin.fetchTopicMetadata({ topics: [topic] })).topics;
    return t.partitions.length === 5 && t;
  });
  step(
    "topic described",
    seen.partitions.map((p) => [p.partitionId, p.partitionErrorCode, p.leader, p.replicas, p.isr]).sort((a, b) => a[0] - b[0]),
  );
  step("topic deleted", await kind(admin.deleteTopics({ topics: [topic] })));
  step("topic deleted again", await kind(admin.deleteTopics({ topics: [topic] })));
}

async function configs(admin) {
  const name = "kafkajs-configs";
  await admin.createTopics({ topics: [{ topic: name }] });
  const show = async () => {
    const res = await admin.describeConfigs({
      includeSynonyms: true,
      resources: [{ type: ConfigResourceTypes.TOPIC, name, configNames: ["cleanup.policy", "retention.ms"] }],
    });
    const [r] = res.resources;
    return r.configEntries
      .map((e) => [e.configName, e.configValue, e.readOnly, e.isDefault, e.configSource, e.isSensitive, e.configSynonyms.map((s) => [s.configName, s.configValue])])
      .sort();
  };
  step("configs at first", await show());
  const alter = (value) =>
    kind(admin.alterConfigs({ validateOnly: false, resources: [{ type: ConfigResourceTypes.TOPIC, name, configEntries: [{ name: "retention.ms", value }] }] }));
  step("configs altered", await alter("5000"));
  step("configs then", await show());
  step("configs of a bad value", await alter("soon"));
}

async function producers(kafka) {
  const names = Object.keys(codecs);
  const sent = {};
  for (const codec of names) {
    // The idempotent producer needs acks of all and one request under way.
    const settings = codec === "none" || codec === "snappy" ? {} : { idempotent: true, maxInFlightRequests: 1 };
    const [first] = await send(kafka, `kafkajs-${codec}`, codec, numberedFrom(0, 60), settings);
    const [second] = await send(kafka, `kafkajs-${codec}`, codec, numberedFrom(60, 40), settings);
    sent[codec] = [first.errorCode, first.baseOffset, second.baseOffset];
  }
  const topics = names.map((codec) => `kafkajs-${codec}`);
  const got = await take(kafka, "kafkajs-take", topics, 100);
  for (const codec of names) step(`producer ${codec}`, [...sent[codec], inOrder(got[`kafkajs-${codec}`])]);
}

async function times(kafka, admin) {
  const topic = "kafkajs-time";
  for (const first of [0, 20, 40]) await send(kafka, topic, "gzip", numberedFrom(first, 20));
  const at = async (ms) => (await admin.fetchTopicOffsetsByTimestamp(topic, ms))[0].offset;
  step("offsets by time", {
    before: await at(base - 3600000),
    exact: await at(base + 33000),
    between: await at(base + 33001),
    last: await at(base + 59000),
    after: await at(base + 3600000), // kafkajs takes the end when nothing is found
  });
  step("offsets", await admin.fetchTopicOffsets(topic));
  const offset = await at(base + 33000);
  const got = await take(kafka, "kafkajs-seek", [topic], 3, (c) => c.seek({ topic, partition: 0, offset }));
  step("read from a time", got[topic].map((r) => r.key.toString()));
  step("records deleted", await kind(admin.deleteTopicRecords({ topic, partitions: [{ partition: 0, offset: "30" }] })));
  step("offsets after it", await admin.fetchTopicOffsets(topic));
  const left = (await take(kafka, "kafkajs-left", [topic], 30))[topic];
  step("records after it", [left[0].key.toString(), left.at(-1).key.toString()]);
}

async function group(kafka, admin) {
  const topic = "kafkajs-shared";
  const groupId = "kafkajs-group";
  await admin.createTopics({ topics: [{ topic, numPartitions: 4 }] });
  const seen = new Set();
  const join = async () => {
    const consumer = kafka.consumer({ groupId, heartbeatInterval: 200, maxWaitTimeInMs: 100, rebalanceTimeout: 10000 });
    const m = { consumer, parts: [] };
    consumer.on(consumer.events.GROUP_JOIN, (e) => (m.parts = [...(e.payload.memberAssignment[topic] ?? [])].sort()));
    await consumer.connect();
    await consumer.subscribe({ topic, fromBeginning: true });
    await consumer.run({
      partitionsConsumedConcurrently: 4,
      eachMessage: async ({ partition, message: msg }) => void seen.add(`${partition}:${msg.offset}`),
    });
    return m;
  };
  const produce = async (count) => {
    const producer = kafka.producer();
    await producer.connect();
    const messages = numberedFrom(0, count).map((r, i) => message(r, i % 4));
    await producer.send({ topic, messages });
    await producer.disconnect();
  };
  const one = await join();
  await until("one has all", () => one.parts.length === 4);
  step("group alone", one.parts);
  const two = await join();
  await until("two share", () => one.parts.length === 2 && two.parts.length === 2);
  step("group of two", [...one.parts, ...two.parts].sort());
  await produce(100);
  await until("the group has read 100", () => seen.size === 100);
  step("group read", seen.size);
  const [d] = (await admin.describeGroups([groupId])).groups;
  step("group described", [d.errorCode, d.state, d.protocolType, d.protocol, d.members.map((m) => AssignerProtocol.MemberAssignment.decode(m.memberAssignment).assignment[topic].length)]);

  two.consumer.pause([{ topic }]);
  one.consumer.pause([{ topic }]);
  step("paused", [...one.consumer.paused()[0].partitions, ...two.consumer.paused()[0].partitions].sort());
  await produce(20);
  await new Promise((r) => setTimeout(r, 300)); // long enough for a fetch that must not be made
  step("read while paused", seen.size);
  one.consumer.resume([{ topic }]);
  two.consumer.resume([{ topic }]);
  await until("the group has read 120", () => seen.size === 120);
  step("read after resume", seen.size);

  await two.consumer.disconnect();
  await until("one has all again", () => one.parts.length === 4);
  step("group after one left", one.parts);
  step("group in use deleted", await kind(admin.deleteGroups([groupId])));
  await one.consumer.disconnect();
  await offsets(admin, groupId, topic);
}

async function offsets(admin, groupId, topic) {
  const show = async () => {
    const [t] = await admin.fetchOffsets({ groupId, topics: [topic] });
    return t.partitions.map((p) => [p.partition, p.offset]).sort((a, b) => a[0] - b[0]);
  };
  step("offsets committed", await show());
  await admin.setOffsets({ groupId, topic, partitions: [{ partition: 1, offset: "7" }] });
  step("offsets set", await show());
  await admin.resetOffsets({ groupId, topic, earliest: true });
  step("offsets reset", await show());
  const { groups } = await admin.listGroups();
  step("group listed", groups.find((g) => g.groupId === groupId)?.protocolType);
  step("group deleted", await kind(admin.deleteGroups([groupId])));
  step("group deleted again", await kind(admin.deleteGroups([groupId])));
}

async function cluster(admin, addr) {
  const c = await admin.describeCluster();
  step("cluster", [c.brokers.length, `${c.brokers[0].host}:${c.brokers[0].port}` === addr, c.controller === c.brokers[0].nodeId, c.clusterId.length]);
  step("reassignments", (await admin.listPartitionReassignments({ topics: [{ topic: "kafkajs-configs", partitions: [0] }] })).topics);
}
