import java.util.Collection;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Properties;
import java.util.Set;
import java.util.TreeMap;
import java.util.concurrent.ExecutionException;
import java.util.stream.Collectors;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.AlterConfigOp;
import org.apache.kafka.clients.admin.Config;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.admin.DescribeClusterResult;
import org.apache.kafka.clients.admin.FeatureUpdate;
import org.apache.kafka.clients.admin.ListConsumerGroupOffsetsSpec;
import org.apache.kafka.clients.admin.MemberToRemove;
import org.apache.kafka.clients.admin.NewPartitionReassignment;
import org.apache.kafka.clients.admin.NewPartitions;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.admin.OffsetSpec;
import org.apache.kafka.clients.admin.RecordsToDelete;
import org.apache.kafka.clients.admin.RemoveMembersFromConsumerGroupOptions;
import org.apache.kafka.clients.admin.ScramCredentialInfo;
import org.apache.kafka.clients.admin.ScramMechanism;
import org.apache.kafka.clients.admin.TopicDescription;
import org.apache.kafka.clients.admin.UserScramCredentialUpsertion;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.common.ElectionType;
import org.apache.kafka.common.TopicCollection;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.TopicPartitionReplica;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.acl.AccessControlEntry;
import org.apache.kafka.common.acl.AclBinding;
import org.apache.kafka.common.acl.AclBindingFilter;
import org.apache.kafka.common.acl.AclOperation;
import org.apache.kafka.common.acl.AclPermissionType;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.quota.ClientQuotaAlteration;
import org.apache.kafka.common.quota.ClientQuotaEntity;
import org.apache.kafka.common.quota.ClientQuotaFilter;
import org.apache.kafka.common.resource.PatternType;
import org.apache.kafka.common.resource.ResourcePattern;
import org.apache.kafka.common.resource.ResourceType;

/** Calls every method of Admin and prints a line for each: its result, or the exception it ended with. */
public final class AdminCalls {
    /** A call, its result as text. */
    private interface Call {
        Object make() throws Exception;
    }

    /** How long calls are given, in milliseconds, that are retried until time is up. */
    private static final int SHORT = 2000;

    private final Admin admin;

    private AdminCalls(Admin admin) {
        this.admin = admin;
    }

    public static void main(String[] args) throws Exception {
        Properties p = new Properties();
        p.put("bootstrap.servers", args[1]);
        p.put("default.api.timeout.ms", "15000");
        p.put("request.timeout.ms", "10000");
        try (Admin admin = Admin.create(p)) {
            AdminCalls calls = new AdminCalls(admin);
            calls.topics();
            calls.configs();
            calls.records();
            calls.groups();
            calls.cluster();
            calls.security();
            calls.transactions();
            calls.others();
            calls.say("deleteTopics", () -> calls.done(admin.deleteTopics(List.of("admin-a", "admin-b")).all()));
        }
    }

    private void say(String name, Call call) {
        String result;
        try {
            result = String.valueOf(call.make());
        } catch (ExecutionException e) {
            result = e.getCause().getClass().getSimpleName();
        } catch (Exception e) {
            result = "thrown " + e.getClass().getSimpleName();
        }
        System.out.println(name + ": " + result);
    }

    private String done(org.apache.kafka.common.KafkaFuture<?> future) throws Exception {
        future.get();
        return "done";
    }

    private static <T> String sorted(Collection<T> all) {
        return all.stream().map(String::valueOf).sorted().collect(Collectors.joining(" "));
    }

    private static TopicPartition at(String topic, int partition) {
        return new TopicPartition(topic, partition);
    }

    private static ConfigResource topic(String name) {
        return new ConfigResource(ConfigResource.Type.TOPIC, name);
    }

    private static String text(TopicDescription d) {
        return d.name() + " internal=" + d.isInternal() + " operations=" + d.authorizedOperations() + " "
            + d.partitions().stream()
                .map(p -> p.partition() + ":leader=" + p.leader().id() + ",replicas=" + p.replicas().size() + ",isr=" + p.isr().size())
                .collect(Collectors.joining(" "));
    }

    private void topics() {
        say("createTopics", () -> {
            var r = admin.createTopics(List.of(
                new NewTopic("admin-a", Optional.of(2), Optional.empty()).configs(Map.of("retention.ms", "86400000")),
                new NewTopic("admin-b", Map.of(0, List.of(1))).configs(Map.of("retention.ms", "-1"))));
            return done(r.all()) + " partitions=" + r.numPartitions("admin-a").get() + " factor=" + r.replicationFactor("admin-a").get()
                + " retention.ms=" + r.config("admin-a").get().get("retention.ms").value();
        });
        say("createTopics validateOnly", () -> done(admin.createTopics(List.of(new NewTopic("admin-v", 1, (short) 1)),
            new org.apache.kafka.clients.admin.CreateTopicsOptions().validateOnly(true)).all()));
        say("createTopics again", () -> done(admin.createTopics(List.of(new NewTopic("admin-a", 1, (short) 1))).all()));
        say("createTopics bad name", () -> done(admin.createTopics(List.of(new NewTopic("admin a", 1, (short) 1))).all()));
        say("createTopics no partitions", () -> done(admin.createTopics(List.of(new NewTopic("admin-0", 0, (short) 1))).all()));
        say("createTopics factor", () -> done(admin.createTopics(List.of(new NewTopic("admin-3", 1, (short) 3))).all()));
        say("createTopics assignment", () -> done(admin.createTopics(List.of(new NewTopic("admin-m", Map.of(1, List.of(1))))).all()));
        say("createTopics config", () -> done(admin.createTopics(List.of(
            new NewTopic("admin-c", 1, (short) 1).configs(Map.of("segment.bytes", "x")))).all()));
        say("listTopics", () -> sorted(admin.listTopics().names().get().stream().filter(n -> n.startsWith("admin-")).toList()));
        say("describeTopics", () -> text(admin.describeTopics(List.of("admin-a")).topicNameValues().get("admin-a").get()));
        say("describeTopics by id", () -> {
            Uuid id = admin.describeTopics(List.of("admin-b")).topicNameValues().get("admin-b").get().topicId();
            return text(admin.describeTopics(TopicCollection.ofTopicIds(List.of(id))).topicIdValues().get(id).get());
        });
        say("describeTopics operations", () -> text(admin.describeTopics(List.of("admin-a"),
            new org.apache.kafka.clients.admin.DescribeTopicsOptions().includeAuthorizedOperations(true)).topicNameValues().get("admin-a").get()
        ).replaceAll("operations=\\[.*\\]", "operations=some"));
        say("describeTopics unknown", () -> admin.describeTopics(List.of("admin-none")).topicNameValues().get("admin-none").get());
        say("describeTopics unknown id", () -> {
            Uuid id = new Uuid(1, 2);
            return admin.describeTopics(TopicCollection.ofTopicIds(List.of(id))).topicIdValues().get(id).get();
        });
        say("createPartitions", () -> done(admin.createPartitions(Map.of("admin-a", NewPartitions.increaseTo(3))).all()));
        say("createPartitions fewer", () -> done(admin.createPartitions(Map.of("admin-a", NewPartitions.increaseTo(1))).all()));
        say("createPartitions unknown", () -> done(admin.createPartitions(Map.of("admin-none", NewPartitions.increaseTo(1))).all()));
        say("createPartitions validateOnly", () -> done(admin.createPartitions(Map.of("admin-b", NewPartitions.increaseTo(9)),
            new org.apache.kafka.clients.admin.CreatePartitionsOptions().validateOnly(true)).all()));
        say("describeTopics after", () -> text(admin.describeTopics(List.of("admin-a")).topicNameValues().get("admin-a").get()));
        say("deleteTopics unknown", () -> done(admin.deleteTopics(List.of("admin-none")).all()));
        say("deleteTopics by id", () -> {
            done(admin.createTopics(List.of(new NewTopic("admin-d", 1, (short) 1))).all());
            Uuid id = admin.describeTopics(List.of("admin-d")).topicNameValues().get("admin-d").get().topicId();
            return done(admin.deleteTopics(TopicCollection.ofTopicIds(List.of(id))).all());
        });
        say("deleteTopics unknown id", () -> done(admin.deleteTopics(TopicCollection.ofTopicIds(List.of(new Uuid(1, 2)))).all()));
    }

    private String config(ConfigResource resource, String name) throws Exception {
        Config c = admin.describeConfigs(List.of(resource), new org.apache.kafka.clients.admin.DescribeConfigsOptions().timeoutMs(SHORT)
            .includeSynonyms(true).includeDocumentation(true)).all().get().get(resource);
        ConfigEntry e = c.get(name);
        return e == null ? "absent" : e.value() + " " + e.source() + " " + e.type() + " readOnly=" + e.isReadOnly()
            + " sensitive=" + e.isSensitive() + " synonyms=" + e.synonyms().size() + " documented=" + (e.documentation() != null);
    }

    private String alter(ConfigResource resource, String name, String value, AlterConfigOp.OpType op) throws Exception {
        String answer = done(admin.incrementalAlterConfigs(Map.of(resource, List.of(new AlterConfigOp(new ConfigEntry(name, value), op)))).all());
        Thread.sleep(300); // Apache Kafka's broker follows its controller, it doesn't wait for it
        return answer;
    }

    private void configs() {
        ConfigResource a = topic("admin-a");
        say("describeConfigs", () -> config(a, "cleanup.policy"));
        say("describeConfigs set", () -> config(a, "retention.ms"));
        say("describeConfigs broker", () -> config(new ConfigResource(ConfigResource.Type.BROKER, "1"), "log.cleanup.policy"));
        say("describeConfigs unknown", () -> config(topic("admin-none"), "x"));
        say("describeConfigs no broker", () -> config(new ConfigResource(ConfigResource.Type.BROKER, "99"), "x"));
        say("incrementalAlterConfigs set", () -> alter(a, "max.message.bytes", "5000", AlterConfigOp.OpType.SET));
        say("incrementalAlterConfigs append", () -> alter(a, "cleanup.policy", "compact", AlterConfigOp.OpType.APPEND));
        say("appended", () -> config(a, "cleanup.policy"));
        say("incrementalAlterConfigs subtract", () -> alter(a, "cleanup.policy", "delete", AlterConfigOp.OpType.SUBTRACT));
        say("subtracted", () -> config(a, "cleanup.policy"));
        say("incrementalAlterConfigs delete", () -> alter(a, "cleanup.policy", "", AlterConfigOp.OpType.DELETE));
        say("deleted", () -> config(a, "cleanup.policy"));
        say("incrementalAlterConfigs append scalar", () -> alter(a, "max.message.bytes", "1", AlterConfigOp.OpType.APPEND));
        say("incrementalAlterConfigs unknown config", () -> alter(a, "no.such", "1", AlterConfigOp.OpType.SET));
        say("incrementalAlterConfigs bad value", () -> alter(a, "max.message.bytes", "-1", AlterConfigOp.OpType.SET));
        say("incrementalAlterConfigs unknown topic", () -> alter(topic("admin-none"), "max.message.bytes", "1", AlterConfigOp.OpType.SET));
        say("incrementalAlterConfigs validateOnly", () -> done(admin.incrementalAlterConfigs(
            Map.of(a, List.of(new AlterConfigOp(new ConfigEntry("max.message.bytes", "7"), AlterConfigOp.OpType.SET))),
            new org.apache.kafka.clients.admin.AlterConfigsOptions().validateOnly(true)).all()));
        say("unchanged", () -> config(a, "max.message.bytes"));
        say("listConfigResources", () -> sorted(admin.listConfigResources(Set.of(ConfigResource.Type.TOPIC),
            new org.apache.kafka.clients.admin.ListConfigResourcesOptions()).all().get().stream()
            .filter(r -> r.name().startsWith("admin-")).toList()));
        say("listConfigResources client metrics", () -> sorted(admin.listConfigResources(Set.of(ConfigResource.Type.CLIENT_METRICS),
            new org.apache.kafka.clients.admin.ListConfigResourcesOptions()).all().get()));
    }

    private void records() {
        TopicPartition b = at("admin-b", 0);
        say("produce", () -> {
            Properties p = new Properties();
            p.put("bootstrap.servers", admin.describeCluster().controller().get().host() + ":" + admin.describeCluster().controller().get().port());
            p.put("key.serializer", "org.apache.kafka.common.serialization.StringSerializer");
            p.put("value.serializer", "org.apache.kafka.common.serialization.StringSerializer");
            try (var producer = new org.apache.kafka.clients.producer.KafkaProducer<String, String>(p)) {
                for (long i = 1; i <= 5; i++) {
                    producer.send(new org.apache.kafka.clients.producer.ProducerRecord<>("admin-b", 0, 1000 * i, "k", "v" + i)).get();
                }
            }
            return "5 records at 1000, 2000 … 5000";
        });
        for (OffsetSpec spec : List.of(OffsetSpec.latest(), OffsetSpec.earliest(), OffsetSpec.maxTimestamp(), OffsetSpec.forTimestamp(2500),
            OffsetSpec.forTimestamp(9999), OffsetSpec.earliestLocal(), OffsetSpec.latestTiered())) {
            say("listOffsets " + spec.getClass().getSimpleName(), () -> {
                var r = admin.listOffsets(Map.of(b, spec)).partitionResult(b).get();
                return r.offset() + " at " + r.timestamp() + " epoch " + r.leaderEpoch().map(String::valueOf).orElse("none");
            });
        }
        say("listOffsets unknown", () -> admin.listOffsets(Map.of(at("admin-b", 7), OffsetSpec.latest()),
            new org.apache.kafka.clients.admin.ListOffsetsOptions().timeoutMs(SHORT)).all().get());
        say("deleteRecords", () -> admin.deleteRecords(Map.of(b, RecordsToDelete.beforeOffset(2))).lowWatermarks().get(b).get().lowWatermark());
        say("deleteRecords beyond", () -> admin.deleteRecords(Map.of(b, RecordsToDelete.beforeOffset(99))).lowWatermarks().get(b).get().lowWatermark());
        say("listOffsets after", () -> admin.listOffsets(Map.of(b, OffsetSpec.earliest())).partitionResult(b).get().offset());
        say("describeProducers", () -> admin.describeProducers(List.of(b)).partitionResult(b).get().activeProducers().stream()
            .map(s -> "epoch=" + s.producerEpoch() + " sequence=" + s.lastSequence() + " coordinator=" + s.coordinatorEpoch()
                + " transaction=" + s.currentTransactionStartOffset()).toList());
        say("describeLogDirs", () -> admin.describeLogDirs(List.of(1)).descriptions().get(1).get().values().stream().map(d ->
            "error=" + d.error() + " sizes=" + (d.totalBytes().orElse(0) > d.usableBytes().orElse(0)) + " "
                + new TreeMap<>(d.replicaInfos().entrySet().stream().filter(e -> e.getKey().topic().startsWith("admin-"))
                    .collect(Collectors.toMap(e -> e.getKey().toString(), e -> (e.getValue().size() > 0) + "/" + e.getValue().offsetLag() + "/" + e.getValue().isFuture())))
        ).toList());
        TopicPartitionReplica replica = new TopicPartitionReplica("admin-b", 0, 1);
        say("describeReplicaLogDirs", () -> {
            var i = admin.describeReplicaLogDirs(List.of(replica)).all().get().get(replica);
            return (i.getCurrentReplicaLogDir() != null) + " lag=" + i.getCurrentReplicaOffsetLag() + " future=" + i.getFutureReplicaLogDir();
        });
        say("alterReplicaLogDirs", () -> done(admin.alterReplicaLogDirs(Map.of(replica, "/nowhere")).all()));
    }

    private void groups() {
        TopicPartition b = at("admin-b", 0);
        say("alterConsumerGroupOffsets", () -> done(admin.alterConsumerGroupOffsets("admin-g",
            Map.of(b, new OffsetAndMetadata(3, Optional.of(0), "note"), at("admin-a", 1), new OffsetAndMetadata(0))).all()));
        say("alterConsumerGroupOffsets unknown", () -> done(admin.alterConsumerGroupOffsets("admin-g", Map.of(at("admin-none", 0), new OffsetAndMetadata(0))).all()));
        say("alterConsumerGroupOffsets long note", () -> done(admin.alterConsumerGroupOffsets("admin-g", Map.of(b, new OffsetAndMetadata(1, "n".repeat(5000)))).all()));
        say("listConsumerGroupOffsets", () -> new TreeMap<>(admin.listConsumerGroupOffsets("admin-g").partitionsToOffsetAndMetadata().get().entrySet().stream()
            .collect(Collectors.toMap(e -> e.getKey().toString(), e -> e.getValue().offset() + "/" + e.getValue().leaderEpoch().map(String::valueOf).orElse("-") + "/" + e.getValue().metadata()))));
        say("listConsumerGroupOffsets chosen", () -> {
            var got = admin.listConsumerGroupOffsets(Map.of("admin-g", new ListConsumerGroupOffsetsSpec().topicPartitions(List.of(b, at("admin-a", 0)))))
                .partitionsToOffsetAndMetadata("admin-g").get();
            return got.get(b).offset() + " " + got.get(at("admin-a", 0));
        });
        say("listConsumerGroupOffsets no group", () -> admin.listConsumerGroupOffsets("admin-none").partitionsToOffsetAndMetadata().get());
        say("listConsumerGroupOffsets many", () -> {
            var r = admin.listConsumerGroupOffsets(Map.of("admin-g", new ListConsumerGroupOffsetsSpec(), "admin-none", new ListConsumerGroupOffsetsSpec()));
            return r.partitionsToOffsetAndMetadata("admin-g").get().size() + " " + r.partitionsToOffsetAndMetadata("admin-none").get().size();
        });
        say("listGroups", () -> sorted(admin.listGroups().all().get().stream().filter(g -> g.groupId().startsWith("admin-")).toList()));
        say("describeConsumerGroups", () -> {
            var d = admin.describeConsumerGroups(List.of("admin-g")).describedGroups().get("admin-g").get();
            return d.groupState() + " " + d.type() + " members=" + d.members().size() + " coordinator=" + d.coordinator().id() + " assignor=" + d.partitionAssignor();
        });
        say("describeConsumerGroups unknown", () -> admin.describeConsumerGroups(List.of("admin-none")).describedGroups().get("admin-none").get());
        say("describeClassicGroups", () -> {
            var d = admin.describeClassicGroups(List.of("admin-g")).describedGroups().get("admin-g").get();
            return d.state() + " protocol=" + d.protocol() + " members=" + d.members().size();
        });
        say("removeMembersFromConsumerGroup", () -> done(admin.removeMembersFromConsumerGroup("admin-g",
            new RemoveMembersFromConsumerGroupOptions(Set.of(new MemberToRemove("nobody")))).all()));
        say("removeMembersFromConsumerGroup all", () -> done(admin.removeMembersFromConsumerGroup("admin-g", new RemoveMembersFromConsumerGroupOptions()).all()));
        say("listTopics internal", () -> admin.listTopics(new org.apache.kafka.clients.admin.ListTopicsOptions().listInternal(true))
            .listings().get().stream().filter(l -> l.name().equals("__consumer_offsets")).map(l -> l.isInternal()).toList());
        say("deleteConsumerGroupOffsets", () -> done(admin.deleteConsumerGroupOffsets("admin-g", Set.of(b)).all()));
        say("deleteConsumerGroupOffsets no group", () -> done(admin.deleteConsumerGroupOffsets("admin-none", Set.of(b)).all()));
        say("listConsumerGroupOffsets after", () -> admin.listConsumerGroupOffsets("admin-g").partitionsToOffsetAndMetadata().get().keySet());
        say("deleteConsumerGroups", () -> done(admin.deleteConsumerGroups(List.of("admin-g")).all()));
        say("deleteConsumerGroups unknown", () -> done(admin.deleteConsumerGroups(List.of("admin-none")).all()));
    }

    private void cluster() {
        say("describeCluster", () -> {
            DescribeClusterResult r = admin.describeCluster(new org.apache.kafka.clients.admin.DescribeClusterOptions().includeAuthorizedOperations(true));
            return r.nodes().get().stream().map(n -> n.id() + " rack=" + n.rack() + " fenced=" + n.isFenced()).toList() + " controller=" + r.controller().get().id()
                + " id=" + (r.clusterId().get().length() > 0) + " operations=" + (r.authorizedOperations().get() != null);
        });
        say("describeFeatures", () -> {
            var f = admin.describeFeatures().featureMetadata().get();
            return f.finalizedFeatures().get("metadata.version") + " " + f.finalizedFeatures().containsKey("transaction.version");
        });
        say("updateFeatures", () -> done(admin.updateFeatures(Map.of("no.such", new FeatureUpdate((short) 1, FeatureUpdate.UpgradeType.UPGRADE)),
            new org.apache.kafka.clients.admin.UpdateFeaturesOptions()).all()));
        say("describeMetadataQuorum", () -> {
            var q = admin.describeMetadataQuorum().quorumInfo().get();
            return "leader=" + q.leaderId() + " voters=" + q.voters().stream().map(v -> v.replicaId()).toList() + " observers=" + q.observers().size()
                + " mark=" + (q.highWatermark() > 0) + " end=" + (q.voters().get(0).logEndOffset() > 0);
        });
        TopicPartition b = at("admin-b", 0);
        say("electLeaders", () -> admin.electLeaders(ElectionType.PREFERRED, Set.of(b)).partitions().get().get(b).map(e -> e.getClass().getSimpleName()));
        say("electLeaders unknown", () -> admin.electLeaders(ElectionType.PREFERRED, Set.of(at("admin-none", 0))).partitions().get()
            .get(at("admin-none", 0)).map(e -> e.getClass().getSimpleName()));
        say("electLeaders all", () -> admin.electLeaders(ElectionType.PREFERRED, null).partitions().get().size());
        say("alterPartitionReassignments", () -> done(admin.alterPartitionReassignments(Map.of(b, Optional.of(new NewPartitionReassignment(List.of(1))))).all()));
        say("alterPartitionReassignments away", () -> done(admin.alterPartitionReassignments(Map.of(b, Optional.of(new NewPartitionReassignment(List.of(9))))).all()));
        say("alterPartitionReassignments cancel", () -> done(admin.alterPartitionReassignments(Map.of(b, Optional.empty())).all()));
        say("alterPartitionReassignments unknown", () -> done(admin.alterPartitionReassignments(
            Map.of(at("admin-none", 0), Optional.of(new NewPartitionReassignment(List.of(1))))).all()));
        say("listPartitionReassignments", () -> admin.listPartitionReassignments().reassignments().get());
        say("unregisterBroker", () -> done(admin.unregisterBroker(77).all()));
        say("addRaftVoter", () -> done(admin.addRaftVoter(7, Uuid.randomUuid(), Set.of(new org.apache.kafka.clients.admin.RaftVoterEndpoint("CONTROLLER", "127.0.0.1", 1)),
            new org.apache.kafka.clients.admin.AddRaftVoterOptions().timeoutMs(SHORT)).all()));
        say("removeRaftVoter", () -> done(admin.removeRaftVoter(7, Uuid.randomUuid(),
            new org.apache.kafka.clients.admin.RemoveRaftVoterOptions().timeoutMs(SHORT)).all()));
    }

    private void security() {
        say("describeAcls", () -> admin.describeAcls(AclBindingFilter.ANY).values().get());
        say("createAcls", () -> done(admin.createAcls(List.of(new AclBinding(new ResourcePattern(ResourceType.TOPIC, "t", PatternType.LITERAL),
            new AccessControlEntry("User:a", "*", AclOperation.READ, AclPermissionType.ALLOW)))).all()));
        say("deleteAcls", () -> done(admin.deleteAcls(List.of(AclBindingFilter.ANY)).all()));
        say("describeClientQuotas", () -> admin.describeClientQuotas(ClientQuotaFilter.all()).entities().get());
        say("alterClientQuotas", () -> done(admin.alterClientQuotas(List.of(new ClientQuotaAlteration(new ClientQuotaEntity(Map.of("client-id", "x")),
            List.of(new ClientQuotaAlteration.Op("no_such_quota", 1.0))))).all()));
        say("describeUserScramCredentials", () -> admin.describeUserScramCredentials().all().get());
        say("describeUserScramCredentials unknown", () -> admin.describeUserScramCredentials(List.of("nobody")).description("nobody").get());
        say("alterUserScramCredentials", () -> done(admin.alterUserScramCredentials(List.of(
            new UserScramCredentialUpsertion("", new ScramCredentialInfo(ScramMechanism.SCRAM_SHA_256, 4096), "x"))).all()));
        say("createDelegationToken", () -> admin.createDelegationToken().delegationToken().get());
        say("describeDelegationToken", () -> admin.describeDelegationToken().delegationTokens().get());
    }

    private void transactions() {
        say("listTransactions", () -> admin.listTransactions().all().get().stream()
            .filter(t -> t.transactionalId().startsWith("admin-")).toList());
        say("describeTransactions", () -> admin.describeTransactions(List.of("nobody")).description("nobody").get());
        say("describeProducers unknown", () -> admin.describeProducers(List.of(at("admin-b", 9)),
            new org.apache.kafka.clients.admin.DescribeProducersOptions().timeoutMs(SHORT)).partitionResult(at("admin-b", 9)).get());
    }

    private void others() {
        say("listConfigResources groups", () -> admin.listConfigResources(Set.of(ConfigResource.Type.GROUP),
            new org.apache.kafka.clients.admin.ListConfigResourcesOptions()).all().get().size());
        say("clientInstanceId", () -> admin.clientInstanceId(java.time.Duration.ofSeconds(5)));
        say("metrics", () -> admin.metrics().size() > 0);
    }
}
