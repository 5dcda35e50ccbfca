import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.Properties;
import java.util.concurrent.Future;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.header.internals.RecordHeader;
import org.apache.kafka.common.serialization.StringSerializer;

/**
 * Fills partition 0 of a topic with records that can be told beforehand: the i-th, from 0 on, has key k-(i % keys),
 * value v-i and dots up to a length, time base + i and, every tenth, a header i=(i).
 *
 * <p>Arguments: server, topic, codec, count, keys (0: no key), base in ms, length of values, and settings of the producer.
 */
public final class Fill {
    private Fill() {
    }

    public static void main(String[] args) throws Exception {
        String topic = args[1];
        int count = Integer.parseInt(args[3]);
        int keys = Integer.parseInt(args[4]);
        long base = Long.parseLong(args[5]);
        int length = Integer.parseInt(args[6]);
        Properties p = new Properties();
        p.put("bootstrap.servers", args[0]);
        p.put("compression.type", args[2]);
        p.put("linger.ms", "5");
        for (int i = 7; i < args.length; i++) {
            p.put(args[i].substring(0, args[i].indexOf('=')), args[i].substring(args[i].indexOf('=') + 1));
        }
        List<Future<RecordMetadata>> acks = new ArrayList<>();
        try (KafkaProducer<String, String> producer = new KafkaProducer<>(p, new StringSerializer(), new StringSerializer())) {
            for (int i = 0; i < count; i++) {
                String value = "v-" + i;
                value += ".".repeat(Math.max(0, length - value.length()));
                var record = new ProducerRecord<>(topic, 0, base + i, keys == 0 ? null : "k-" + i % keys, value);
                if (i % 10 == 0) {
                    record.headers().add(new RecordHeader("i", String.valueOf(i).getBytes(StandardCharsets.UTF_8)));
                }
                acks.add(producer.send(record));
            }
        }
        long first = acks.get(0).get().offset();
        for (int i = 0; i < count; i++) {
            if (acks.get(i).get().offset() != first + i) {
                throw new IllegalStateException("record " + i + " at " + acks.get(i).get().offset() + ", the first at " + first);
            }
        }
        System.out.println("filled " + topic + " from " + first + " to " + (first + count));
    }
}
