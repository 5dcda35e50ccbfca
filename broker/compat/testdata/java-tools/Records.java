import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.Properties;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.Future;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.header.internals.RecordHeader;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/** The plain producer and consumer: every shape of a record there and back, and every way to move in a log. */
public final class Records {
    private static final List<String> CODECS = List.of("none", "gzip", "snappy", "lz4", "zstd");
    private static final int COUNT = 200;
    private static final Duration PATIENCE = Duration.ofSeconds(20);

    private final String server;
    private final long start = System.currentTimeMillis() - COUNT * 1000L;

    private Records(String server) {
        this.server = server;
    }

    /** What is tried, its outcome as text. */
    private interface Try {
        Object make() throws Exception;
    }

    private static void say(String what, Try attempt) {
        String outcome;
        try {
            outcome = String.valueOf(attempt.make());
        } catch (ExecutionException e) {
            outcome = e.getCause().getClass().getSimpleName();
        } catch (Exception e) {
            outcome = "thrown " + e.getClass().getSimpleName() + ": " + e.getMessage();
        }
        System.out.println(what + ": " + outcome);
    }

    public static void main(String[] args) throws Exception {
        Records r = new Records(args[1]);
        try (Admin admin = Admin.create(Map.of("bootstrap.servers", r.server))) {
            List<NewTopic> topics = new ArrayList<>();
            CODECS.forEach(codec -> topics.add(new NewTopic("records-" + codec, 1, (short) 1)));
            topics.add(new NewTopic("records-small", 1, (short) 1).configs(Map.of("max.message.bytes", "1000")));
            topics.add(new NewTopic("records-compact", 1, (short) 1).configs(Map.of("cleanup.policy", "compact")));
            topics.add(new NewTopic("records-bounds", 1, (short) 1).configs(
                Map.of("message.timestamp.after.max.ms", "1000", "message.timestamp.before.max.ms", "86400000")));
            topics.add(new NewTopic("records-stamped", 1, (short) 1).configs(Map.of("message.timestamp.type", "LogAppendTime")));
            topics.add(new NewTopic("records-sync", 1, (short) 1).configs(Map.of("min.insync.replicas", "2")));
            topics.add(new NewTopic("records-many", 12, (short) 1));
            admin.createTopics(topics).all().get();
        }
        for (String codec : CODECS) {
            say("there and back " + codec, () -> r.thereAndBack(codec));
        }
        r.produce();
        r.move();
        r.commit();
        r.limits();
    }

    private KafkaProducer<byte[], byte[]> producer(String... settings) {
        Properties p = settings(settings);
        return new KafkaProducer<>(p, new ByteArraySerializer(), new ByteArraySerializer());
    }

    private KafkaConsumer<byte[], byte[]> consumer(String... settings) {
        Properties p = settings(settings);
        p.putIfAbsent("enable.auto.commit", "false");
        p.putIfAbsent("auto.offset.reset", "earliest");
        return new KafkaConsumer<>(p, new ByteArrayDeserializer(), new ByteArrayDeserializer());
    }

    private Properties settings(String... settings) {
        Properties p = new Properties();
        p.put("bootstrap.servers", server);
        for (String s : settings) {
            p.put(s.substring(0, s.indexOf('=')), s.substring(s.indexOf('=') + 1));
        }
        return p;
    }

    private static byte[] bytes(String s) {
        return s == null ? null : s.getBytes(StandardCharsets.UTF_8);
    }

    /** The i-th record of a topic: all shapes take turns. */
    private ProducerRecord<byte[], byte[]> record(String topic, int i) {
        byte[] key = i % 3 == 0 ? null : bytes(i % 7 == 0 ? "" : "schlüssel-" + i);
        byte[] value = i % 5 == 0 ? null : bytes(i % 11 == 0 ? "" : "wert-" + i + "-" + "x".repeat(i));
        List<Header> headers = new ArrayList<>();
        for (int h = 0; h < i % 4; h++) {
            headers.add(new RecordHeader("kopf", h == 2 ? null : bytes("h" + h + "-" + i)));
        }
        if (i % 13 == 0) {
            headers.add(new RecordHeader("", new byte[0]));
        }
        return new ProducerRecord<>(topic, 0, start + 1000L * i, key, value, headers);
    }

    private static boolean same(ProducerRecord<byte[], byte[]> sent, ConsumerRecord<byte[], byte[]> got) {
        return Arrays.equals(sent.key(), got.key()) && Arrays.equals(sent.value(), got.value())
            && Objects.equals(sent.timestamp(), got.timestamp()) && got.timestampType().name.equals("CreateTime")
            && Arrays.equals(sent.headers().toArray(), got.headers().toArray())
            && got.serializedKeySize() == (sent.key() == null ? -1 : sent.key().length)
            && got.serializedValueSize() == (sent.value() == null ? -1 : sent.value().length);
    }

    private String thereAndBack(String codec) throws Exception {
        String topic = "records-" + codec;
        int bad = 0;
        try (var producer = producer("compression.type=" + codec, "linger.ms=50", "enable.idempotence=true", "acks=all")) {
            List<Future<RecordMetadata>> acks = new ArrayList<>();
            for (int i = 0; i < COUNT; i++) {
                acks.add(producer.send(record(topic, i)));
            }
            for (int i = 0; i < COUNT; i++) {
                RecordMetadata m = acks.get(i).get();
                if (m.offset() != i || m.timestamp() != start + 1000L * i || m.partition() != 0) {
                    bad++;
                }
            }
        }
        List<ConsumerRecord<byte[], byte[]>> got = new ArrayList<>();
        try (var consumer = consumer("isolation.level=read_committed", "max.poll.records=17")) {
            consumer.assign(List.of(new TopicPartition(topic, 0)));
            long end = System.nanoTime() + PATIENCE.toNanos();
            while (got.size() < COUNT && System.nanoTime() < end) {
                consumer.poll(Duration.ofMillis(500)).forEach(got::add);
            }
        }
        for (int i = 0; i < got.size(); i++) {
            if (got.get(i).offset() != i || !same(record(topic, i), got.get(i)) || got.get(i).leaderEpoch().isEmpty()) {
                bad++;
            }
        }
        return got.size() + " of " + COUNT + ", " + bad + " bad";
    }

    private String send(KafkaProducer<byte[], byte[]> producer, ProducerRecord<byte[], byte[]> record) throws Exception {
        RecordMetadata m = producer.send(record).get();
        return "offset " + m.offset() + " timestamp " + (m.hasTimestamp() && m.timestamp() > 0);
    }

    private void produce() {
        for (String acks : List.of("0", "1", "all")) {
            say("acks " + acks, () -> {
                try (var p = producer("acks=" + acks, "enable.idempotence=false")) {
                    return send(p, new ProducerRecord<>("records-many", 3, null, null, bytes("a")));
                }
            });
        }
        say("without partition", () -> {
            try (var p = producer("linger.ms=20")) {
                List<Future<RecordMetadata>> acks = new ArrayList<>();
                for (int i = 0; i < 120; i++) {
                    acks.add(p.send(new ProducerRecord<>("records-many", bytes("k" + i), bytes("v"))));
                }
                long partitions = 0;
                for (Future<RecordMetadata> ack : acks) {
                    partitions |= 1L << ack.get().partition();
                }
                return Long.bitCount(partitions) + " partitions";
            }
        });
        say("too large for the topic", () -> {
            try (var p = producer()) {
                return send(p, new ProducerRecord<>("records-small", bytes("x".repeat(2000))));
            }
        });
        say("a batch too large, each record not", () -> {
            try (var p = producer("linger.ms=100")) {
                List<Future<RecordMetadata>> acks = new ArrayList<>();
                for (int i = 0; i < 20; i++) {
                    acks.add(p.send(new ProducerRecord<>("records-small", bytes("y".repeat(100)))));
                }
                long last = 0;
                for (Future<RecordMetadata> ack : acks) {
                    last = ack.get().offset();
                }
                return "split, last offset " + last;
            }
        });
        say("without key into a compacted topic", () -> {
            try (var p = producer()) {
                return send(p, new ProducerRecord<>("records-compact", bytes("v")));
            }
        });
        say("with key into a compacted topic", () -> {
            try (var p = producer()) {
                return send(p, new ProducerRecord<>("records-compact", bytes("k"), bytes("v")));
            }
        });
        say("from the future", () -> {
            try (var p = producer()) {
                return send(p, new ProducerRecord<>("records-bounds", 0, System.currentTimeMillis() + 3_600_000, bytes("k"), bytes("v")));
            }
        });
        say("from long ago", () -> {
            try (var p = producer()) {
                return send(p, new ProducerRecord<>("records-bounds", 0, System.currentTimeMillis() - 10 * 86_400_000L, bytes("k"), bytes("v")));
            }
        });
        say("stamped by the broker", () -> {
            try (var p = producer()) {
                RecordMetadata m = p.send(new ProducerRecord<>("records-stamped", 0, 1000L, bytes("k"), bytes("v"))).get();
                return "offset " + m.offset() + " now " + (Math.abs(System.currentTimeMillis() - m.timestamp()) < 60_000);
            }
        });
        say("a minimum of two replicas", () -> {
            try (var p = producer("delivery.timeout.ms=3000", "request.timeout.ms=2000", "linger.ms=0")) {
                return send(p, new ProducerRecord<>("records-sync", bytes("v")));
            }
        });
        say("into a name that isn't one", () -> {
            try (var p = producer("max.block.ms=5000")) {
                return send(p, new ProducerRecord<>("records bad", bytes("v")));
            }
        });
        say("into a partition there isn't", () -> {
            try (var p = producer("max.block.ms=1500")) {
                return send(p, new ProducerRecord<>("records-none", 5, null, bytes("v")));
            }
        });
        say("partitionsFor", () -> {
            try (var p = producer()) {
                return p.partitionsFor("records-many").size();
            }
        });
    }

    private static String first(KafkaConsumer<byte[], byte[]> c) {
        long end = System.nanoTime() + PATIENCE.toNanos();
        while (System.nanoTime() < end) {
            for (ConsumerRecord<byte[], byte[]> r : c.poll(Duration.ofMillis(200))) {
                return String.valueOf(r.offset());
            }
        }
        return "nothing";
    }

    private void move() {
        for (String codec : CODECS) {
            TopicPartition at = new TopicPartition("records-" + codec, 0);
            try (var c = consumer()) {
                c.assign(List.of(at));
                say("by time " + codec, () -> {
                    Map<Long, String> found = new java.util.TreeMap<>();
                    for (long t : List.of(0L, start, start + 1L, start + 57_000L, start + 57_001L, start + 199_000L, start + 199_001L)) {
                        var o = c.offsetsForTimes(Map.of(at, t)).get(at);
                        found.put(t == 0 ? -1 : t - start, o == null ? "none" : o.offset() + "@" + (o.timestamp() - start) + "/" + o.leaderEpoch().orElse(-1));
                    }
                    return found;
                });
                say("seek into " + codec, () -> {
                    c.seek(at, 57);
                    return first(c);
                });
            }
        }
        TopicPartition at = new TopicPartition("records-lz4", 0);
        try (var c = consumer("client.id=records-move")) {
            c.assign(List.of(at));
            say("ends", () -> c.beginningOffsets(List.of(at)).get(at) + " to " + c.endOffsets(List.of(at)).get(at));
            say("seek to the end", () -> {
                c.seekToEnd(List.of(at));
                return c.position(at) + " lag " + c.currentLag(at);
            });
            say("seek to the beginning", () -> {
                c.seekToBeginning(List.of(at));
                return c.position(at) + " then " + first(c);
            });
            say("paused", () -> {
                c.pause(List.of(at));
                return c.poll(Duration.ofMillis(300)).count() + " of " + c.paused();
            });
            say("resumed", () -> {
                c.seek(at, new OffsetAndMetadata(100));
                c.resume(List.of(at));
                return first(c);
            });
            say("beyond the end", () -> {
                c.seek(at, 5000);
                return first(c);
            });
            say("listTopics", () -> c.listTopics().get("records-many").size());
            say("partitionsFor unknown", () -> c.partitionsFor("records-nowhere", Duration.ofSeconds(3)).size());
        }
        say("beyond the end without reset", () -> {
            try (var c = consumer("auto.offset.reset=none")) {
                c.assign(List.of(at));
                c.seek(at, 5000);
                return first(c);
            }
        });
        say("by duration", () -> {
            try (var c = consumer("auto.offset.reset=by_duration:PT1M")) {
                c.assign(List.of(at));
                return Integer.parseInt(first(c)) > 100;
            }
        });
        say("fetches of one byte", () -> {
            try (var c = consumer("max.partition.fetch.bytes=1", "fetch.max.bytes=1")) {
                c.assign(List.of(at));
                return first(c);
            }
        });
        say("without checks", () -> {
            try (var c = consumer("check.crcs=false", "fetch.min.bytes=100000", "fetch.max.wait.ms=200")) {
                c.assign(List.of(at));
                return first(c);
            }
        });
    }

    private void commit() {
        TopicPartition at = new TopicPartition("records-zstd", 0);
        TopicPartition other = new TopicPartition("records-gzip", 0);
        try (var c = consumer("group.id=records-g")) {
            c.assign(List.of(at));
            say("nothing committed", () -> c.committed(java.util.Set.of(at)).get(at));
            say("first of a group", () -> first(c));
            say("commitSync", () -> {
                c.commitSync(Map.of(at, new OffsetAndMetadata(40, java.util.Optional.of(0), "a note")));
                OffsetAndMetadata o = c.committed(java.util.Set.of(at)).get(at);
                return o.offset() + " " + o.metadata() + " " + o.leaderEpoch();
            });
            say("commitAsync", () -> {
                CompletableFuture<Map<TopicPartition, OffsetAndMetadata>> done = new CompletableFuture<>();
                c.commitAsync(Map.of(at, new OffsetAndMetadata(41), other, new OffsetAndMetadata(7)),
                    (offsets, e) -> {
                        if (e != null) {
                            done.completeExceptionally(e);
                        } else {
                            done.complete(offsets);
                        }
                    });
                long end = System.nanoTime() + PATIENCE.toNanos();
                while (!done.isDone() && System.nanoTime() < end) {
                    c.poll(Duration.ofMillis(100));
                }
                return done.get().size();
            });
            say("committed", () -> {
                Map<TopicPartition, OffsetAndMetadata> o = c.committed(new java.util.HashSet<>(List.of(at, other)));
                return o.get(at).offset() + " and " + o.get(other).offset();
            });
            say("commit of an unknown topic", () -> {
                c.commitSync(new HashMap<>(Map.of(new TopicPartition("records-never", 0), new OffsetAndMetadata(1))), Duration.ofSeconds(2));
                return "done";
            });
        }
        say("goes on", () -> {
            try (var c = consumer("group.id=records-g")) {
                c.assign(List.of(at));
                return first(c);
            }
        });
        say("no offset and no reset", () -> {
            try (var c = consumer("group.id=records-h", "auto.offset.reset=none")) {
                c.assign(List.of(at));
                return first(c);
            }
        });
    }

    /** What isn't served yet must end at once and by name. */
    private void limits() {
        say("transactional producer", () -> {
            try (var p = producer("transactional.id=records-t", "max.block.ms=5000")) {
                p.initTransactions();
                return "begun";
            }
        });
        say("consumer protocol", () -> {
            try (var c = consumer("group.protocol=consumer", "group.id=records-848")) {
                c.subscribe(List.of("records-many"));
                return first(c).equals("nothing") ? "nothing" : "records";
            }
        });
    }
}
