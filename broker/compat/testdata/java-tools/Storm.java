import java.time.Duration;
import java.util.List;
import java.util.Properties;
import java.util.concurrent.atomic.AtomicBoolean;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicPartition;

/**
 * A producer or a member of a group that works through whatever happens and says what became of each record, a line each:
 *
 * <pre>
 * sent PARTITION OFFSET KEY SEQUENCE        failed KEY SEQUENCE WHY
 * got PARTITION OFFSET KEY SEQUENCE         committed PARTITION OFFSET
 * </pre>
 *
 * <p>produce ADDR TOPIC KEYS MS ends with its standard input, consume ADDR TOPIC GROUP with SIGTERM.
 */
public final class Storm {
    public static void main(String[] args) throws Exception {
        Properties p = new Properties();
        p.put("bootstrap.servers", args[1]);
        if (args[0].equals("produce")) {
            produce(p, args[2], Integer.parseInt(args[3]), Long.parseLong(args[4]));
        } else {
            consume(p, args[2], args[3]);
        }
    }

    /** The defaults of a producer: idempotent, all acknowledgements, two minutes of retries. */
    private static void produce(Properties p, String topic, int keys, long pause) throws Exception {
        p.put("key.serializer", "org.apache.kafka.common.serialization.StringSerializer");
        p.put("value.serializer", "org.apache.kafka.common.serialization.StringSerializer");
        try (KafkaProducer<String, String> producer = new KafkaProducer<>(p)) {
            AtomicBoolean done = new AtomicBoolean();
            Thread input = new Thread(() -> {
                try {
                    while (System.in.read() >= 0) { }
                } catch (java.io.IOException e) {
                    e.printStackTrace();
                }
                done.set(true);
            });
            input.setDaemon(true);
            input.start();
            for (long n = 0; !done.get(); n++) {
                String key = "k" + n % keys;
                String sequence = Long.toString(n);
                producer.send(new ProducerRecord<>(topic, key, sequence), (at, e) -> System.out.println(e == null
                    ? "sent " + at.partition() + " " + at.offset() + " " + key + " " + sequence
                    : "failed " + key + " " + sequence + " " + e));
                Thread.sleep(pause);
            }
        }
    }

    private static void consume(Properties p, String topic, String group) {
        p.put("key.deserializer", "org.apache.kafka.common.serialization.StringDeserializer");
        p.put("value.deserializer", "org.apache.kafka.common.serialization.StringDeserializer");
        p.put("group.id", group);
        p.put("group.protocol", "classic");
        p.put("session.timeout.ms", "10000");
        p.put("auto.offset.reset", "earliest");
        p.put("enable.auto.commit", "false");
        AtomicBoolean done = new AtomicBoolean();
        Thread reader = Thread.currentThread();
        Runtime.getRuntime().addShutdownHook(new Thread(() -> {
            done.set(true);
            try {
                reader.join(20_000);
            } catch (InterruptedException e) {
                e.printStackTrace();
            }
        }));
        try (KafkaConsumer<String, String> consumer = new KafkaConsumer<>(p)) {
            consumer.subscribe(List.of(topic));
            while (!done.get()) {
                var records = consumer.poll(Duration.ofMillis(200));
                for (ConsumerRecord<String, String> r : records) {
                    System.out.println("got " + r.partition() + " " + r.offset() + " " + r.key() + " " + r.value());
                }
                if (records.isEmpty()) {
                    continue;
                }
                var upTo = records.nextOffsets();
                try {
                    consumer.commitSync(upTo);
                } catch (KafkaException e) {
                    System.err.println("commit: " + e); // the group has moved on, or nobody answered: it is read again
                    continue;
                }
                for (var at : upTo.entrySet()) {
                    say(at.getKey(), at.getValue());
                }
            }
        }
    }

    private static void say(TopicPartition p, OffsetAndMetadata upTo) {
        System.out.println("committed " + p.partition() + " " + upTo.offset());
    }
}
