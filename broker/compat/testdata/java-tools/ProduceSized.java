import java.util.Map;
import java.util.concurrent.ExecutionException;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/** Sends one record with a value of a length and says what came of it. Arguments: server, topic, length. */
public final class ProduceSized {
    private ProduceSized() {
    }

    public static void main(String[] args) throws Exception {
        Map<String, Object> settings = Map.of("bootstrap.servers", args[0], "max.request.size", 10_000_000);
        try (var producer = new KafkaProducer<>(settings, new ByteArraySerializer(), new ByteArraySerializer())) {
            producer.send(new ProducerRecord<>(args[1], new byte[Integer.parseInt(args[2])])).get();
            System.out.println("taken");
        } catch (ExecutionException e) {
            System.out.println(e.getCause().getClass().getSimpleName());
        }
    }
}
