import java.time.Duration;
import java.util.ArrayList;
import java.util.Collection;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.consumer.ConsumerRebalanceListener;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.WakeupException;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/** Groups of the classic protocol while members come and go, under every assignor of the client. */
public final class Rebalance {
    private static final int PARTITIONS = 6;
    private static final int ROUND = 60;
    private static final long PATIENCE = Duration.ofSeconds(45).toNanos();
    private static final String ASSIGNORS = "org.apache.kafka.clients.consumer.";

    private final String server;

    private Rebalance(String server) {
        this.server = server;
    }

    /** A consumer in a thread of its own. */
    private final class Member implements ConsumerRebalanceListener, Runnable {
        final KafkaConsumer<String, String> consumer;
        final Set<TopicPartition> assigned = ConcurrentHashMap.newKeySet();
        final AtomicInteger assignments = new AtomicInteger();
        final AtomicInteger revoked = new AtomicInteger();
        final Map<String, AtomicInteger> seen;
        final Thread thread = new Thread(this);
        volatile boolean leaving;
        volatile int generation;
        volatile Exception failure;

        Member(String topic, String group, Map<String, AtomicInteger> seen, String... settings) {
            Properties p = new Properties();
            p.put("bootstrap.servers", server);
            p.put("group.id", group);
            p.put("auto.offset.reset", "earliest");
            p.put("session.timeout.ms", "10000");
            p.put("heartbeat.interval.ms", "500");
            for (String s : settings) {
                p.put(s.substring(0, s.indexOf('=')), s.substring(s.indexOf('=') + 1));
            }
            this.seen = seen;
            consumer = new KafkaConsumer<>(p, new StringDeserializer(), new StringDeserializer());
            consumer.subscribe(List.of(topic), this);
            thread.start();
        }

        @Override
        public void onPartitionsAssigned(Collection<TopicPartition> partitions) {
            assignments.incrementAndGet();
            assigned.addAll(partitions);
        }

        @Override
        public void onPartitionsRevoked(Collection<TopicPartition> partitions) {
            if (!leaving) {
                revoked.addAndGet(partitions.size());
            }
            assigned.removeAll(partitions);
        }

        @Override
        public void onPartitionsLost(Collection<TopicPartition> partitions) {
            assigned.removeAll(partitions);
        }

        @Override
        public void run() {
            try (consumer) {
                while (!leaving) {
                    consumer.poll(Duration.ofMillis(100))
                        .forEach(r -> seen.computeIfAbsent(r.value(), v -> new AtomicInteger()).incrementAndGet());
                    generation = consumer.groupMetadata().generationId();
                }
            } catch (WakeupException e) {
                // closed by leave
            } catch (Exception e) {
                failure = e;
                assigned.clear();
            }
        }

        void leave() throws InterruptedException {
            leaving = true;
            consumer.wakeup();
            thread.join();
        }
    }

    public static void main(String[] args) throws Exception {
        Rebalance r = new Rebalance(args[1]);
        ExecutorService pool = Executors.newCachedThreadPool(work -> {
            Thread t = new Thread(work);
            t.setDaemon(true);
            return t;
        });
        List<Future<String>> outcomes = new ArrayList<>();
        for (String assignor : List.of("RangeAssignor", "RoundRobinAssignor", "StickyAssignor", "CooperativeStickyAssignor")) {
            outcomes.add(pool.submit(() -> assignor + ": " + r.comeAndGo(assignor)));
        }
        outcomes.add(pool.submit(() -> "upgrade: " + r.upgrade()));
        outcomes.add(pool.submit(() -> "static members: " + r.statics()));
        outcomes.add(pool.submit(() -> "expired: " + r.expired()));
        outcomes.add(pool.submit(() -> "inconsistent: " + r.inconsistent()));
        for (Future<String> outcome : outcomes) {
            System.out.println(outcome.get());
        }
        pool.shutdown();
    }

    private String topic(String name) throws Exception {
        try (Admin admin = Admin.create(Map.of("bootstrap.servers", server))) {
            admin.createTopics(List.of(new NewTopic(name, PARTITIONS, (short) 1))).all().get();
        }
        return name;
    }

    /** Waits until the members share all partitions evenly, in one generation. */
    private String settle(Member... members) throws Exception {
        long end = System.nanoTime() + PATIENCE;
        List<Integer> sizes = List.of();
        while (System.nanoTime() < end) {
            sizes = new ArrayList<>();
            Set<TopicPartition> all = ConcurrentHashMap.newKeySet();
            Set<Integer> generations = ConcurrentHashMap.newKeySet();
            for (Member m : members) {
                sizes.add(m.assigned.size());
                all.addAll(m.assigned);
                generations.add(m.generation);
                if (m.failure != null) {
                    return m.failure.getClass().getSimpleName();
                }
            }
            int sum = sizes.stream().mapToInt(Integer::intValue).sum();
            int least = sizes.stream().mapToInt(Integer::intValue).min().orElse(0);
            if (all.size() == PARTITIONS && sum == PARTITIONS && least == PARTITIONS / members.length && generations.size() == 1) {
                return sizes.toString();
            }
            Thread.sleep(20);
        }
        return "never, " + sizes;
    }

    private void produce(String topic, int round) throws Exception {
        Properties p = new Properties();
        p.put("bootstrap.servers", server);
        try (KafkaProducer<String, String> producer = new KafkaProducer<>(p, new StringSerializer(), new StringSerializer())) {
            for (int i = 0; i < ROUND; i++) {
                producer.send(new ProducerRecord<>(topic, i % PARTITIONS, null, round + "-" + i));
            }
        }
    }

    private String consumed(Map<String, AtomicInteger> seen, int rounds) throws Exception {
        long end = System.nanoTime() + PATIENCE;
        while (seen.size() < rounds * ROUND && System.nanoTime() < end) {
            Thread.sleep(20);
        }
        int twice = seen.values().stream().mapToInt(n -> n.get() - 1).sum();
        return "read " + seen.size() + " of " + rounds * ROUND + ", " + twice + " twice";
    }

    private String comeAndGo(String assignor) throws Exception {
        String topic = topic("rebalance-" + assignor);
        String group = "rebalance-g-" + assignor;
        String how = "partition.assignment.strategy=" + ASSIGNORS + assignor;
        Map<String, AtomicInteger> seen = new ConcurrentHashMap<>();
        produce(topic, 1);
        Member a = new Member(topic, group, seen, how);
        StringBuilder said = new StringBuilder(settle(a));
        Member b = new Member(topic, group, seen, how);
        said.append(' ').append(settle(a, b));
        produce(topic, 2);
        Member c = new Member(topic, group, seen, how);
        said.append(' ').append(settle(a, b, c));
        produce(topic, 3);
        if (assignor.startsWith("Cooperative")) {
            // Only what moves is taken away: three to the second, two to the third.
            said.append(" moved ").append(a.revoked.get() + b.revoked.get() + c.revoked.get());
        }
        b.leave();
        said.append(' ').append(settle(a, c));
        produce(topic, 4);
        said.append(' ').append(consumed(seen, 4));
        a.leave();
        c.leave();
        return said.toString();
    }

    /** Members that know range and cooperative, beside ones that know range only. */
    private String upgrade() throws Exception {
        String topic = topic("rebalance-upgrade");
        Map<String, AtomicInteger> seen = new ConcurrentHashMap<>();
        String both = "partition.assignment.strategy=" + ASSIGNORS + "CooperativeStickyAssignor," + ASSIGNORS + "RangeAssignor";
        Member old = new Member(topic, "rebalance-u", seen, "partition.assignment.strategy=" + ASSIGNORS + "RangeAssignor");
        String said = settle(old);
        Member fresh = new Member(topic, "rebalance-u", seen, both);
        said += " " + settle(old, fresh) + " " + protocol("rebalance-u");
        old.leave();
        said += " " + settle(fresh);
        Member second = new Member(topic, "rebalance-u", seen, both);
        said += " " + settle(fresh, second) + " " + protocol("rebalance-u");
        fresh.leave();
        second.leave();
        return said;
    }

    private String protocol(String group) throws Exception {
        try (Admin admin = Admin.create(Map.of("bootstrap.servers", server))) {
            return admin.describeConsumerGroups(List.of(group)).describedGroups().get(group).get().partitionAssignor();
        }
    }

    /** A static member may go and come back within its session without a rebalance; another of its name fences it. */
    private String statics() throws Exception {
        String topic = topic("rebalance-static");
        Map<String, AtomicInteger> seen = new ConcurrentHashMap<>();
        Member a = new Member(topic, "rebalance-s", seen, "group.instance.id=one");
        settle(a);
        Member b = new Member(topic, "rebalance-s", seen, "group.instance.id=two");
        String said = settle(a, b);
        int generation = a.generation;
        int assignments = a.assignments.get();
        b.leave();
        Member back = new Member(topic, "rebalance-s", seen, "group.instance.id=two");
        said += " " + settle(a, back);
        said += " generation " + (a.generation == generation && back.generation == generation ? "kept" : "changed");
        said += " calls " + (a.assignments.get() - assignments);
        Member twin = new Member(topic, "rebalance-s", seen, "group.instance.id=two");
        said += " " + settle(a, twin);
        long end = System.nanoTime() + PATIENCE;
        while (back.failure == null && System.nanoTime() < end) {
            Thread.sleep(20);
        }
        said += " twin " + (back.failure == null ? "unnoticed" : back.failure.getClass().getSimpleName());
        a.leave();
        twin.leave();
        return said;
    }

    /** A member that stops polling is taken out by its poll interval, and comes back when it polls again. */
    private String expired() throws Exception {
        String topic = topic("rebalance-expired");
        Map<String, AtomicInteger> seen = new ConcurrentHashMap<>();
        Member a = new Member(topic, "rebalance-e", seen);
        settle(a);
        Properties p = new Properties();
        p.put("bootstrap.servers", server);
        p.put("group.id", "rebalance-e");
        p.put("max.poll.interval.ms", "3000");
        p.put("session.timeout.ms", "10000");
        p.put("heartbeat.interval.ms", "500");
        String said = "";
        try (KafkaConsumer<String, String> slow = new KafkaConsumer<>(p, new StringDeserializer(), new StringDeserializer())) {
            slow.subscribe(List.of(topic));
            long end = System.nanoTime() + PATIENCE;
            while (slow.assignment().size() != PARTITIONS / 2 && System.nanoTime() < end) {
                slow.poll(Duration.ofMillis(100));
            }
            said += slow.assignment().size() + " then " + settle(a);
            while (slow.assignment().size() != PARTITIONS / 2 || a.assigned.size() != PARTITIONS / 2) {
                if (System.nanoTime() > end) {
                    return said + " and never back";
                }
                slow.poll(Duration.ofMillis(100));
            }
            said += " and back " + slow.assignment().size();
        }
        a.leave();
        return said;
    }

    /** A member without a protocol in common is refused by name. */
    private String inconsistent() throws Exception {
        String topic = topic("rebalance-other");
        Map<String, AtomicInteger> seen = new ConcurrentHashMap<>();
        Member a = new Member(topic, "rebalance-i", seen, "partition.assignment.strategy=" + ASSIGNORS + "RangeAssignor");
        settle(a);
        Member b = new Member(topic, "rebalance-i", seen, "partition.assignment.strategy=" + ASSIGNORS + "RoundRobinAssignor");
        b.thread.join(Duration.ofNanos(PATIENCE).toMillis());
        String said = b.failure == null ? "taken" : b.failure.getClass().getSimpleName();
        said += " " + settle(a);
        a.leave();
        return said;
    }
}
