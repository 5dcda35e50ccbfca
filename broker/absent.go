package broker

// absence is a request kind of Apache Kafka 4.4 that this broker doesn't speak.
type absence struct {
	key    int16
	name   string
	reason string
}

// absentAPIs is the one list of what is knowingly missing: with apis it holds
// every request kind there is. README.md shows it.
func absentAPIs() []absence {
	const (
		zookeeper    = "spoken between brokers before Kafka 4.0 only"
		transactions = "no transactions yet"
		controllers  = "spoken between Kafka's controllers and brokers only; ours speak Raft"
		next         = "no groups of the consumer protocol (KIP-848) yet; clients use the classic one"
		share        = "no share groups (KIP-932)"
		streams      = "no streams groups (KIP-1071); Kafka Streams uses the classic protocol"
		telemetry    = "nobody would receive client metrics (KIP-714)"
		voters       = "the voters on the metadata can't be changed from outside"
		quotas       = "no quotas yet; DescribeClientQuotas says so"
		scram        = "no authentication yet; DescribeUserScramCredentials says so"
	)
	return []absence{
		{4, "LeaderAndIsr", zookeeper},
		{5, "StopReplica", zookeeper},
		{6, "UpdateMetadata", zookeeper},
		{7, "ControlledShutdown", zookeeper},
		{24, "AddPartitionsToTxn", transactions},
		{25, "AddOffsetsToTxn", transactions},
		{26, "EndTxn", transactions},
		{27, "WriteTxnMarkers", transactions},
		{28, "TxnOffsetCommit", transactions},
		{49, "AlterClientQuotas", quotas},
		{51, "AlterUserScramCredentials", scram},
		{52, "Vote", controllers},
		{53, "BeginQuorumEpoch", controllers},
		{54, "EndQuorumEpoch", controllers},
		{56, "AlterPartition", controllers},
		{58, "Envelope", controllers},
		{59, "FetchSnapshot", controllers},
		{62, "BrokerRegistration", controllers},
		{63, "BrokerHeartbeat", controllers},
		{67, "AllocateProducerIds", controllers},
		{68, "ConsumerGroupHeartbeat", next},
		{69, "ConsumerGroupDescribe", next},
		{70, "ControllerRegistration", controllers},
		{71, "GetTelemetrySubscriptions", telemetry},
		{72, "PushTelemetry", telemetry},
		{73, "AssignReplicasToDirs", controllers},
		{76, "ShareGroupHeartbeat", share},
		{77, "ShareGroupDescribe", share},
		{78, "ShareFetch", share},
		{79, "ShareAcknowledge", share},
		{80, "AddRaftVoter", voters},
		{81, "RemoveRaftVoter", voters},
		{82, "UpdateRaftVoter", controllers},
		{83, "InitializeShareGroupState", share},
		{84, "ReadShareGroupState", share},
		{85, "WriteShareGroupState", share},
		{86, "DeleteShareGroupState", share},
		{87, "ReadShareGroupStateSummary", share},
		{88, "StreamsGroupHeartbeat", streams},
		{89, "StreamsGroupDescribe", streams},
		{90, "DescribeShareGroupOffsets", share},
		{91, "AlterShareGroupOffsets", share},
		{92, "DeleteShareGroupOffsets", share},
		{93, "StreamsGroupTopologyDescriptionUpdate", streams},
		{94, "UnregisterController", controllers},
	}
}
