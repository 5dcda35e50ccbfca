package broker_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"sawlog/broker"
	"sawlog/broker/brokertest"
	"sawlog/broker/record"
)

// The answers below are those that a single node of Apache Kafka 4.4 gives,
// words included.

func TestElectLeaders(t *testing.T) {
	c := wireClient(t, brokertest.Start(t, nil))
	createTopic(t, c, "led", 2)
	elect := func(version int16, kind int8, topics ...kmsg.ElectLeadersRequestTopic) *kmsg.ElectLeadersResponse {
		r := kmsg.NewPtrElectLeadersRequest()
		r.ElectionType, r.TimeoutMillis, r.Topics = kind, 5000, topics
		return askAt[*kmsg.ElectLeadersResponse](t, c, version, r)
	}
	for version := range int16(3) {
		got := elect(version, 0, kmsg.ElectLeadersRequestTopic{Topic: "led", Partitions: []int32{0, 9}}, kmsg.ElectLeadersRequestTopic{Topic: "absent", Partitions: []int32{0}})
		var answers []string
		for _, topic := range got.Topics {
			for _, p := range topic.Partitions {
				answers = append(answers, fmt.Sprintf("%s-%d %d %s", topic.Topic, p.Partition, p.ErrorCode, deref(p.ErrorMessage)))
			}
		}
		want := []string{
			"led-0 84 Leader election not needed for topic partition.",
			"led-9 3 No such partition as led-9",
			"absent-0 3 No such topic as absent",
		}
		if got.ErrorCode != 0 || !slices.Equal(answers, want) {
			t.Errorf("version %d: code %d, %q", version, got.ErrorCode, answers)
		}
		if all := elect(version, 0); all.ErrorCode != 0 || len(all.Topics) != 1 || len(all.Topics[0].Partitions) != 0 {
			t.Errorf("version %d, all: %+v", version, all)
		}
	}
	bad := elect(2, 5, kmsg.ElectLeadersRequestTopic{Topic: "led", Partitions: []int32{0}})
	if bad.ErrorCode != kerr.InvalidRequest.Code || deref(bad.Topics[0].Partitions[0].ErrorMessage) != "Unknown election type 5" {
		t.Errorf("kind 5: %+v", bad)
	}
	if got := elect(2, 1, kmsg.ElectLeadersRequestTopic{Topic: "led", Partitions: []int32{1}}).Topics[0].Partitions[0]; got.ErrorCode != kerr.ElectionNotNeeded.Code {
		t.Errorf("unclean: %+v", got)
	}
}

func TestPartitionReassignments(t *testing.T) {
	c := wireClient(t, brokertest.Start(t, nil))
	createTopic(t, c, "here", 1)
	for _, tc := range []struct {
		topic     string
		partition int32
		replicas  []int32
		code      *kerr.Error
		message   string
	}{
		{"here", 0, []int32{1}, nil, "<nil>"},
		{"here", 0, nil, kerr.NoReassignmentInProgress, "<nil>"},
		{"here", 0, []int32{}, kerr.InvalidReplicaAssignment, "The manual partition assignment includes an empty replica list."},
		{"here", 0, []int32{9}, kerr.InvalidReplicaAssignment, "The manual partition assignment includes broker 9, but no such broker is registered."},
		{"here", 0, []int32{1, 1}, kerr.InvalidReplicaAssignment, "The manual partition assignment includes the broker 1 more than once."},
		{"here", 7, []int32{1}, kerr.UnknownTopicOrPartition, "Unable to find partition here:7."},
		{"absent", 0, []int32{1}, kerr.UnknownTopicOrPartition, "Unable to find a topic named absent."},
	} {
		r := kmsg.NewPtrAlterPartitionAssignmentsRequest()
		r.Topics = []kmsg.AlterPartitionAssignmentsRequestTopic{{Topic: tc.topic, Partitions: []kmsg.AlterPartitionAssignmentsRequestTopicPartition{{Partition: tc.partition, Replicas: tc.replicas}}}}
		want := int16(0)
		if tc.code != nil {
			want = tc.code.Code
		}
		got := ask[*kmsg.AlterPartitionAssignmentsResponse](t, c, r).Topics[0].Partitions[0]
		if got.ErrorCode != want || deref(got.ErrorMessage) != tc.message {
			t.Errorf("%s-%d to %v: %d %s", tc.topic, tc.partition, tc.replicas, got.ErrorCode, deref(got.ErrorMessage))
		}
	}
	if got := ask[*kmsg.ListPartitionReassignmentsResponse](t, c, kmsg.NewPtrListPartitionReassignmentsRequest()); got.ErrorCode != 0 || len(got.Topics) != 0 {
		t.Errorf("list: %+v", got)
	}
}

func TestDescribeQuorum(t *testing.T) {
	c := wireClient(t, brokertest.Start(t, nil))
	quorum := func(topic string, partition int32) *kmsg.DescribeQuorumResponse {
		r := kmsg.NewPtrDescribeQuorumRequest()
		r.Topics = []kmsg.DescribeQuorumRequestTopic{{Topic: topic, Partitions: []kmsg.DescribeQuorumRequestTopicPartition{{Partition: partition}}}}
		return ask[*kmsg.DescribeQuorumResponse](t, c, r)
	}
	before := quorum("__cluster_metadata", 0).Topics[0].Partitions[0]
	createTopic(t, c, "moves", 1)
	got := quorum("__cluster_metadata", 0)
	p := got.Topics[0].Partitions[0]
	if got.ErrorCode != 0 || p.LeaderID != 1 || p.LeaderEpoch < 1 || p.HighWatermark <= before.HighWatermark || len(p.CurrentVoters) != 1 || len(p.Observers) != 0 {
		t.Fatalf("quorum %+v after %+v", p, before)
	}
	v := p.CurrentVoters[0]
	if v.ReplicaID != 1 || v.LogEndOffset < p.HighWatermark || v.ReplicaDirectoryID == ([16]byte{}) || v.LastFetchTimestamp < now()-60_000 {
		t.Errorf("voter %+v, high watermark %d", v, p.HighWatermark)
	}
	if len(got.Nodes) != 1 || got.Nodes[0].NodeID != 1 {
		t.Errorf("nodes %+v", got.Nodes)
	}
	for topic, partition := range map[string]int32{"moves": 0, "__cluster_metadata": 1} {
		if got := quorum(topic, partition).Topics[0].Partitions[0]; got.ErrorCode != kerr.UnknownTopicOrPartition.Code {
			t.Errorf("%s-%d: %+v", topic, partition, got)
		}
	}
}

func TestDescribeProducers(t *testing.T) {
	c := wireClient(t, brokertest.Start(t, nil))
	createTopic(t, c, "written", 1)
	describe := func(topic string, partition int32) kmsg.DescribeProducersResponseTopicPartition {
		r := kmsg.NewPtrDescribeProducersRequest()
		r.Topics = []kmsg.DescribeProducersRequestTopic{{Topic: topic, Partitions: []int32{partition}}}
		return ask[*kmsg.DescribeProducersResponse](t, c, r).Topics[0].Partitions[0]
	}
	if got := describe("written", 0); got.ErrorCode != 0 || len(got.ActiveProducers) != 0 {
		t.Errorf("before: %+v", got)
	}
	w := record.NewBuilder(record.None, 0)
	w.Producer(77, 3, 0)
	at := now()
	for i := range int64(3) {
		w.Append(record.Record{Timestamp: at + i, Value: []byte("x")})
	}
	batch, err := w.Batch()
	if err != nil {
		t.Fatal(err)
	}
	if got := put(t, c, "written", batch); got.ErrorCode != 0 {
		t.Fatal(got.ErrorCode)
	}
	got := describe("written", 0)
	if len(got.ActiveProducers) != 1 {
		t.Fatalf("after: %+v", got)
	}
	if p := got.ActiveProducers[0]; p.ProducerID != 77 || p.ProducerEpoch != 3 || p.LastSequence != 2 || p.LastTimestamp != at+2 || p.CoordinatorEpoch != -1 || p.CurrentTxnStartOffset != -1 {
		t.Errorf("producer %+v", p)
	}
	for _, tc := range []struct {
		topic     string
		partition int32
		code      *kerr.Error
		message   string
	}{
		{"written", 9, kerr.UnknownTopicOrPartition, "<nil>"},
		{"absent", 0, kerr.UnknownTopicOrPartition, "This server does not host this topic-partition."},
		{"a/b", 0, kerr.InvalidTopicException, "Topic name is invalid: 'a/b' contains one or more characters other than ASCII alphanumerics, '.', '_' and '-'"},
	} {
		if got := describe(tc.topic, tc.partition); got.ErrorCode != tc.code.Code || deref(got.ErrorMessage) != tc.message {
			t.Errorf("%s-%d: %d %s", tc.topic, tc.partition, got.ErrorCode, deref(got.ErrorMessage))
		}
	}
}

func TestAlterReplicaLogDirs(t *testing.T) {
	dir := t.TempDir()
	c := wireClient(t, brokertest.Start(t, func(c *broker.Config) { c.Dir = dir }))
	createTopic(t, c, "stays", 1)
	for _, tc := range []struct {
		dir, topic string
		code       int16
	}{
		{dir, "stays", 0},
		{dir, "absent", kerr.UnknownTopicOrPartition.Code},
		{dir + "/other", "stays", kerr.LogDirNotFound.Code},
		{"relative", "stays", kerr.LogDirNotFound.Code},
	} {
		r := kmsg.NewPtrAlterReplicaLogDirsRequest()
		r.Dirs = []kmsg.AlterReplicaLogDirsRequestDir{{Dir: tc.dir, Topics: []kmsg.AlterReplicaLogDirsRequestDirTopic{{Topic: tc.topic, Partitions: []int32{0}}}}}
		if got := ask[*kmsg.AlterReplicaLogDirsResponse](t, c, r).Topics[0].Partitions[0]; got.ErrorCode != tc.code {
			t.Errorf("%s to %s: code %d, want %d", tc.topic, tc.dir, got.ErrorCode, tc.code)
		}
	}
	// DescribeLogDirs names the directory as AlterReplicaLogDirs takes it.
	r := kmsg.NewPtrDescribeLogDirsRequest()
	r.Topics = []kmsg.DescribeLogDirsRequestTopic{{Topic: "stays", Partitions: []int32{0, 9}}, {Topic: "absent", Partitions: []int32{0}}}
	got := ask[*kmsg.DescribeLogDirsResponse](t, c, r).Dirs[0]
	if got.Dir != dir || len(got.Topics) != 1 || len(got.Topics[0].Partitions) != 1 {
		t.Errorf("described: %+v", got)
	}
}

func TestListConfigResources(t *testing.T) {
	c := wireClient(t, brokertest.Start(t, nil))
	createTopic(t, c, "one", 1)
	list := func(version int16, kinds ...int8) (names []string, code int16) {
		r := kmsg.NewPtrListConfigResourcesRequest()
		r.ResourceTypes = kinds
		got := askAt[*kmsg.ListConfigResourcesResponse](t, c, version, r)
		for _, res := range got.ConfigResources {
			names = append(names, fmt.Sprint(res.Type, " ", res.Name))
		}
		return names, got.ErrorCode
	}
	for _, tc := range []struct {
		version int16
		kinds   []int8
		want    []string
		code    int16
	}{
		{0, nil, nil, 0},
		{1, nil, []string{"2 one", "4 1", "8 1"}, 0},
		{1, []int8{2}, []string{"2 one"}, 0},
		{1, []int8{4, 4}, []string{"4 1"}, 0},
		{1, []int8{16, 32}, nil, 0},
		{1, []int8{7}, nil, kerr.UnsupportedVersion.Code},
	} {
		if names, code := list(tc.version, tc.kinds...); code != tc.code || !slices.Equal(names, tc.want) {
			t.Errorf("version %d, kinds %v: code %d, %q", tc.version, tc.kinds, code, names)
		}
	}
}

func TestWhatIsNotThereSaysSo(t *testing.T) {
	c := wireClient(t, brokertest.Start(t, nil))
	acl := ask[*kmsg.DescribeACLsResponse](t, c, &kmsg.DescribeACLsRequest{ResourceType: 1, Operation: 1, PermissionType: 1, ResourcePatternType: 1})
	if acl.ErrorCode != kerr.SecurityDisabled.Code || deref(acl.ErrorMessage) != "No Authorizer is configured on the broker" {
		t.Errorf("describe ACLs: %+v", acl)
	}
	create := kmsg.NewPtrCreateACLsRequest()
	create.Creations = []kmsg.CreateACLsRequestCreation{{ResourceType: 2, ResourceName: "a", ResourcePatternType: 3, Principal: "User:x", Host: "*", Operation: 3, PermissionType: 3}}
	if got := ask[*kmsg.CreateACLsResponse](t, c, create); len(got.Results) != 1 || got.Results[0].ErrorCode != kerr.SecurityDisabled.Code {
		t.Errorf("create ACLs: %+v", got)
	}
	remove := kmsg.NewPtrDeleteACLsRequest()
	remove.Filters = make([]kmsg.DeleteACLsRequestFilter, 2)
	if got := ask[*kmsg.DeleteACLsResponse](t, c, remove); len(got.Results) != 2 || got.Results[1].ErrorCode != kerr.SecurityDisabled.Code {
		t.Errorf("delete ACLs: %+v", got)
	}
	if got := ask[*kmsg.SASLHandshakeResponse](t, c, &kmsg.SASLHandshakeRequest{Mechanism: "PLAIN"}); got.ErrorCode != kerr.IllegalSaslState.Code {
		t.Errorf("SASL handshake: %+v", got)
	}
	if got := ask[*kmsg.SASLAuthenticateResponse](t, c, &kmsg.SASLAuthenticateRequest{}); got.ErrorCode != kerr.IllegalSaslState.Code {
		t.Errorf("SASL authenticate: %+v", got)
	}
	want := kerr.DelegationTokenRequestNotAllowed.Code
	if got := ask[*kmsg.DescribeDelegationTokenResponse](t, c, kmsg.NewPtrDescribeDelegationTokenRequest()); got.ErrorCode != want {
		t.Errorf("describe tokens: %+v", got)
	}
	if got := ask[*kmsg.CreateDelegationTokenResponse](t, c, kmsg.NewPtrCreateDelegationTokenRequest()); got.ErrorCode != want || got.PrincipalName != "ANONYMOUS" || got.TokenRequesterPrincipalName != "ANONYMOUS" {
		t.Errorf("create token: %+v", got)
	}
	if got := ask[*kmsg.RenewDelegationTokenResponse](t, c, kmsg.NewPtrRenewDelegationTokenRequest()); got.ErrorCode != want {
		t.Errorf("renew token: %+v", got)
	}
	if got := ask[*kmsg.ExpireDelegationTokenResponse](t, c, kmsg.NewPtrExpireDelegationTokenRequest()); got.ErrorCode != want {
		t.Errorf("expire token: %+v", got)
	}
	scram := kmsg.NewPtrDescribeUserSCRAMCredentialsRequest()
	scram.Users = []kmsg.DescribeUserSCRAMCredentialsRequestUser{{Name: "u"}, {Name: "twice"}, {Name: "twice"}}
	got := ask[*kmsg.DescribeUserSCRAMCredentialsResponse](t, c, scram)
	if got.ErrorCode != 0 || len(got.Results) != 2 || got.Results[0].ErrorCode != kerr.ResourceNotFound.Code || got.Results[1].ErrorCode != kerr.DuplicateResource.Code {
		t.Errorf("SCRAM: %+v", got)
	}
	for id, code := range map[int32]int16{9: kerr.BrokerIDNotRegistered.Code, -1: kerr.BrokerIDNotRegistered.Code} {
		if got := ask[*kmsg.UnregisterBrokerResponse](t, c, &kmsg.UnregisterBrokerRequest{BrokerID: id}); got.ErrorCode != code {
			t.Errorf("unregister %d: %+v", id, got)
		}
	}
	if got := ask[*kmsg.UnregisterBrokerResponse](t, c, &kmsg.UnregisterBrokerRequest{BrokerID: 1}); got.ErrorCode != kerr.InvalidRequest.Code {
		t.Errorf("the broker that answers was unregistered: %+v", got)
	}
	createTopic(t, c, "lives", 1)
}

func TestDescribeClientQuotas(t *testing.T) {
	c := wireClient(t, brokertest.Start(t, nil))
	name := "x"
	type part = kmsg.DescribeClientQuotasRequestComponent
	for _, tc := range []struct {
		parts   []part
		code    int16
		message string
	}{
		{nil, 0, ""},
		{[]part{{EntityType: "user", Match: &name}, {EntityType: "client-id", MatchType: 2}}, 0, ""},
		{[]part{{EntityType: "user"}}, 42, "Request specified MATCH_TYPE_EXACT, but set match string to null."},
		{[]part{{EntityType: "user", MatchType: 1, Match: &name}}, 42, "Request specified MATCH_TYPE_DEFAULT, but also specified a match string."},
		{[]part{{EntityType: "user", MatchType: 2, Match: &name}}, 42, "Request specified MATCH_TYPE_SPECIFIED, but also specified a match string."},
		{[]part{{EntityType: "user", MatchType: 9}}, 42, "Unknown match type 9"},
		{[]part{{EntityType: "", MatchType: 2}}, 42, "Invalid empty entity type."},
		{[]part{{EntityType: "planet", MatchType: 2}}, 35, "Unsupported entity type planet"},
		{[]part{{EntityType: "user", MatchType: 2}, {EntityType: "user", MatchType: 1}}, 42, "Entity type user cannot appear more than once in the filter."},
		{[]part{{EntityType: "user", MatchType: 2}, {EntityType: "ip", MatchType: 2}}, 42, "Invalid entity filter component combination. IP filter component should not be used with user or clientId filter component."},
	} {
		r := kmsg.NewPtrDescribeClientQuotasRequest()
		r.Components = tc.parts
		got := ask[*kmsg.DescribeClientQuotasResponse](t, c, r)
		if got.ErrorCode != tc.code || deref(got.ErrorMessage) != tc.message || (got.Entries == nil) != (tc.code != 0) {
			t.Errorf("%+v: %+v, %s", tc.parts, got, deref(got.ErrorMessage))
		}
	}
}

func TestTransactionsAreListedAsNone(t *testing.T) {
	c := wireClient(t, brokertest.Start(t, nil))
	r := kmsg.NewPtrListTransactionsRequest()
	r.StateFilters = []string{"Ongoing", "Nonsense", "PrepareEpochFence"}
	if got := ask[*kmsg.ListTransactionsResponse](t, c, r); got.ErrorCode != 0 || !slices.Equal(got.UnknownStateFilters, []string{"Nonsense"}) || len(got.TransactionStates) != 0 {
		t.Errorf("list: %+v", got)
	}
	pattern := "a("
	r = kmsg.NewPtrListTransactionsRequest()
	r.TransactionalIDPattern = &pattern
	if got := ask[*kmsg.ListTransactionsResponse](t, c, r); got.ErrorCode != kerr.InvalidRegularExpression.Code {
		t.Errorf("bad pattern: %+v", got)
	}
	describe := &kmsg.DescribeTransactionsRequest{TransactionalIDs: []string{"x", ""}}
	got := ask[*kmsg.DescribeTransactionsResponse](t, c, describe).TransactionStates
	if len(got) != 2 || got[0].ErrorCode != kerr.TransactionalIDNotFound.Code || got[1].ErrorCode != kerr.InvalidRequest.Code {
		t.Errorf("describe: %+v", got)
	}
}

func TestFeatures(t *testing.T) {
	c := wireClient(t, brokertest.Start(t, nil))
	v := kmsg.NewPtrApiVersionsRequest()
	v.ClientSoftwareName, v.ClientSoftwareVersion = "test", "1"
	answer := askAt[*kmsg.ApiVersionsResponse](t, c, 4, v)
	levels := map[string]int16{}
	for _, f := range answer.FinalizedFeatures {
		if f.MaxVersionLevel == 0 {
			t.Errorf("%s is finalised at level 0", f.Name)
		}
		levels[f.Name] = f.MaxVersionLevel
	}
	for _, f := range answer.SupportedFeatures {
		if levels[f.Name] < f.MinVersion || levels[f.Name] > f.MaxVersion {
			t.Errorf("%s at level %d, supported %d to %d", f.Name, levels[f.Name], f.MinVersion, f.MaxVersion)
		}
	}
	if len(levels) != len(answer.SupportedFeatures) || levels["metadata.version"] != 33 || answer.FinalizedFeaturesEpoch < 0 {
		t.Errorf("features %v, epoch %d", levels, answer.FinalizedFeaturesEpoch)
	}
	for _, name := range []string{"transaction.version", "group.version", "share.version", "streams.version"} {
		if _, ok := levels[name]; ok {
			t.Errorf("%s is finalised: clients would act on it", name)
		}
	}
	for _, tc := range []struct {
		name    string
		level   int16
		message string
	}{
		{"metadata.version", 33, ""},
		{"metadata.version", 34, "Invalid update version 34 for feature metadata.version. Local controller 1 only supports versions 33-33"},
		{"sawlog.format.level", 2, ""},
		{"sawlog.format.level", 3, "Invalid update version 3 for feature sawlog.format.level. Local controller 1 only supports versions 1-2"},
		{"sawlog.format.level", 1, "Invalid update version 1 for feature sawlog.format.level. The format level can't be lowered from 2 to 1: what was written since could not be read."},
		{"metadata.version", -1, "Invalid update version -1 for feature metadata.version. A feature version cannot be less than 0."},
		{"transaction.version", 2, "Invalid update version 2 for feature transaction.version. Local controller 1 does not support this feature."},
	} {
		for version := range int16(3) {
			r := kmsg.NewPtrUpdateFeaturesRequest()
			r.FeatureUpdates = []kmsg.UpdateFeaturesRequestFeatureUpdate{{Feature: tc.name, MaxVersionLevel: tc.level, UpgradeType: 1}}
			got := askAt[*kmsg.UpdateFeaturesResponse](t, c, version, r)
			switch {
			case tc.message == "" && (got.ErrorCode != 0 || len(got.Results) != map[bool]int{true: 1}[version < 2]):
				t.Errorf("version %d, %s to %d: %+v", version, tc.name, tc.level, got)
			case tc.message != "" && (got.ErrorCode != kerr.InvalidUpdateVersion.Code || deref(got.ErrorMessage) != "The update failed for all features since the following feature had an error: "+tc.message):
				t.Errorf("version %d, %s to %d: %d %s", version, tc.name, tc.level, got.ErrorCode, deref(got.ErrorMessage))
			}
		}
	}
}
