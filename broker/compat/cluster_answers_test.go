package compat_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"sawlog/broker/compat/peer"
)

// TestAnyBrokerAnswers changes a cluster through each of its brokers: every other
// one soon knows of it, all answer the same to whoever asks about the cluster,
// and refuse the same, in the same words.
func TestAnyBrokerAnswers(t *testing.T) {
	c := peer.SawlogCluster(t, 3, peer.Options{})
	versions := servedBy(t, c)
	asked := 0
	for _, s := range c.Nodes {
		for _, change := range clusterChanges(fmt.Sprintf("any-%d", s.ID)) {
			resp, err := askLong(s.Addr, change.req)
			if err != nil {
				t.Fatalf("%s through broker %d: %v", change.what, s.ID, err)
			}
			if code := firstError(canonical(t, resp)); code != 0 {
				t.Errorf("%s through broker %d: error %d", change.what, s.ID, code)
			}
			asked += alike(t, c, versions, fmt.Sprintf("%s through broker %d", change.what, s.ID), change.visible)
		}
	}
	refused := 0
	for _, req := range badRequests() {
		answers := []string{}
		for _, s := range c.Nodes {
			resp, err := askLong(s.Addr, req)
			if err != nil {
				t.Fatalf("%s, broker %d: %v", kmsg.NameForKey(req.Key()), s.ID, err)
			}
			answers = append(answers, canonical(t, resp))
		}
		if firstError(answers[0]) == 0 {
			t.Errorf("%s was not refused: %s", kmsg.NameForKey(req.Key()), answers[0])
		}
		if answers[1] != answers[0] || answers[2] != answers[0] {
			t.Errorf("%s is refused in different words:\n%s", kmsg.NameForKey(req.Key()), strings.Join(answers, "\n"))
		}
		refused++
	}
	one(t, c)
	t.Logf("any broker: %d answers compared on each of 3, %d refusals likewise", asked, refused)
}

// change is one to a cluster, and a word that Metadata or DescribeConfigs then has.
type change struct {
	what    string
	req     kmsg.Request
	visible string
}

// clusterChanges make a topic, grow it, set it up, move it, and delete another.
func clusterChanges(topic string) []change {
	create := kmsg.NewPtrCreateTopicsRequest()
	create.Version, create.TimeoutMillis = 7, 30_000
	gone := topic + "-gone"
	for _, name := range []string{topic, gone} {
		made := kmsg.NewCreateTopicsRequestTopic()
		made.Topic, made.NumPartitions, made.ReplicationFactor = name, 2, 3
		create.Topics = append(create.Topics, made)
	}
	grow := kmsg.NewPtrCreatePartitionsRequest()
	grow.Version, grow.TimeoutMillis = 3, 30_000
	grow.Topics = []kmsg.CreatePartitionsRequestTopic{{Topic: topic, Count: 5}}
	set := kmsg.NewPtrIncrementalAlterConfigsRequest()
	set.Version = 1
	value := "77" + topic[len(topic)-1:] + "777"
	set.Resources = []kmsg.IncrementalAlterConfigsRequestResource{
		{ResourceType: kmsg.ConfigResourceTypeTopic, ResourceName: topic, Configs: []kmsg.IncrementalAlterConfigsRequestResourceConfig{{Name: "max.message.bytes", Value: &value}}},
		{ResourceType: kmsg.ConfigResourceTypeBroker, Configs: []kmsg.IncrementalAlterConfigsRequestResourceConfig{{Name: "message.max.bytes", Value: &value}}},
	}
	move := kmsg.NewPtrAlterPartitionAssignmentsRequest()
	move.TimeoutMillis = 30_000
	move.Topics = []kmsg.AlterPartitionAssignmentsRequestTopic{{Topic: topic, Partitions: []kmsg.AlterPartitionAssignmentsRequestTopicPartition{{Partition: 4, Replicas: []int32{3, 1}}}}}
	elect := kmsg.NewPtrElectLeadersRequest()
	elect.Version, elect.TimeoutMillis = 2, 30_000
	drop := kmsg.NewPtrDeleteTopicsRequest()
	drop.Version, drop.TimeoutMillis = 5, 30_000
	drop.TopicNames = []string{gone}
	return []change{
		{"topics made", create, gone},
		{"a topic grown", grow, topic},
		{"configs set", set, value},
		{"a partition moved", move, topic},
		{"leaders elected", elect, topic},
		{"a topic deleted", drop, topic},
	}
}

// badRequests are wrong in something that the controller judges.
func badRequests() []kmsg.Request {
	var all []kmsg.Request
	for _, c := range []struct {
		name       string
		partitions int32
		replicas   int16
		config     string
	}{{"bad-factor", 1, 9, ""}, {"bad/name", 1, 1, ""}, {"bad-count", 0, 1, ""}, {"bad-config", 1, 1, "no.such"}, {"any-1", 1, 1, ""}} {
		create := kmsg.NewPtrCreateTopicsRequest()
		create.Version, create.TimeoutMillis = 7, 30_000
		topic := kmsg.NewCreateTopicsRequestTopic()
		topic.Topic, topic.NumPartitions, topic.ReplicationFactor = c.name, c.partitions, c.replicas
		if c.config != "" {
			topic.Configs = []kmsg.CreateTopicsRequestTopicConfig{{Name: c.config, Value: new("1")}}
		}
		create.Topics = append(create.Topics, topic)
		all = append(all, create)
	}
	grow := kmsg.NewPtrCreatePartitionsRequest()
	grow.Version, grow.TimeoutMillis = 3, 30_000
	grow.Topics = []kmsg.CreatePartitionsRequestTopic{{Topic: "any-1", Count: 1}, {Topic: "nowhere", Count: 1}}
	drop := kmsg.NewPtrDeleteTopicsRequest()
	drop.Version, drop.TimeoutMillis = 5, 30_000
	drop.TopicNames = []string{"nowhere"}
	set := kmsg.NewPtrIncrementalAlterConfigsRequest()
	set.Version = 1
	set.Resources = []kmsg.IncrementalAlterConfigsRequestResource{
		{ResourceType: kmsg.ConfigResourceTypeTopic, ResourceName: "any-1", Configs: []kmsg.IncrementalAlterConfigsRequestResourceConfig{{Name: "max.message.bytes", Value: new("-1")}}},
		{ResourceType: kmsg.ConfigResourceTypeTopic, ResourceName: "nowhere", Configs: []kmsg.IncrementalAlterConfigsRequestResourceConfig{{Name: "retention.ms", Value: new("1")}}},
	}
	move := kmsg.NewPtrAlterPartitionAssignmentsRequest()
	move.TimeoutMillis = 30_000
	move.Topics = []kmsg.AlterPartitionAssignmentsRequestTopic{{Topic: "any-1", Partitions: []kmsg.AlterPartitionAssignmentsRequestTopicPartition{
		{Partition: 0, Replicas: []int32{1, 9}}, {Partition: 1}, {Partition: 77, Replicas: []int32{1}},
	}}}
	elect := kmsg.NewPtrElectLeadersRequest()
	elect.Version, elect.TimeoutMillis = 2, 30_000
	elect.Topics = []kmsg.ElectLeadersRequestTopic{{Topic: "nowhere", Partitions: []int32{0}}}
	forget := kmsg.NewPtrUnregisterBrokerRequest()
	forget.BrokerID = 77
	return append(all, grow, drop, set, move, elect, forget)
}

// clusterQuestions are asked of any broker at every version it serves.
func clusterQuestions() []kmsg.Request {
	metadata := kmsg.NewPtrMetadataRequest()
	metadata.IncludeTopicAuthorizedOperations = true
	cluster := kmsg.NewPtrDescribeClusterRequest()
	cluster.IncludeFencedBrokers = true
	configs := kmsg.NewPtrDescribeConfigsRequest()
	configs.IncludeSynonyms, configs.IncludeDocumentation = true, true
	partitions := kmsg.NewPtrDescribeTopicPartitionsRequest()
	partitions.ResponsePartitionLimit = 2000
	for _, name := range []string{"any-1", "any-2", "any-3", "nowhere"} {
		configs.Resources = append(configs.Resources, kmsg.DescribeConfigsRequestResource{ResourceType: kmsg.ConfigResourceTypeTopic, ResourceName: name})
		partitions.Topics = append(partitions.Topics, kmsg.DescribeTopicPartitionsRequestTopic{Topic: name})
	}
	configs.Resources = append(configs.Resources, kmsg.DescribeConfigsRequestResource{ResourceType: kmsg.ConfigResourceTypeBroker})
	moves := kmsg.NewPtrListPartitionReassignmentsRequest()
	moves.TimeoutMillis = 30_000
	find := kmsg.NewPtrFindCoordinatorRequest()
	find.CoordinatorKey, find.CoordinatorKeys = "any-group", []string{"any-group", "another", "a third"}
	return []kmsg.Request{
		metadata, cluster, configs, partitions, moves, find,
		kmsg.NewPtrApiVersionsRequest(), kmsg.NewPtrListConfigResourcesRequest(), kmsg.NewPtrDescribeClientQuotasRequest(),
		kmsg.NewPtrDescribeUserSCRAMCredentialsRequest(), kmsg.NewPtrDescribeACLsRequest(),
	}
}

// alike asks every question of every broker until all answer the same and one
// answer has a word in it; it says how many questions there were.
func alike(t *testing.T, c *peer.Cluster, versions map[int16]kmsg.ApiVersionsResponseApiKey, when, visible string) (asked int) {
	t.Helper()
	limit := time.Now().Add(time.Minute)
	for {
		var differs string
		seen := false
		asked = 0
		for _, req := range clusterQuestions() {
			k := versions[req.Key()]
			for v := k.MinVersion; v <= k.MaxVersion; v++ {
				req.SetVersion(v)
				asked++
				var answers []string
				for _, s := range c.Nodes {
					resp, err := askLong(s.Addr, req)
					if err != nil {
						t.Fatalf("%s v%d, broker %d: %v", kmsg.NameForKey(req.Key()), v, s.ID, err)
					}
					answers = append(answers, canonical(t, resp))
				}
				seen = seen || strings.Contains(answers[0], visible)
				for i, a := range answers[1:] {
					if a != answers[0] && differs == "" {
						differs = fmt.Sprintf("%s v%d: brokers 1 and %d answer differently: %s", kmsg.NameForKey(req.Key()), v, i+2, firstDifference(answers[0], a))
					}
				}
			}
		}
		if differs == "" && seen {
			return asked
		}
		if time.Now().After(limit) {
			t.Fatalf("%s: %s (%q seen: %t)", when, differs, visible, seen)
		}
		time.Sleep(20 * time.Millisecond) // other processes act
	}
}

// one wants exactly one broker to lead each partition and to coordinate each
// group; the others say so.
func one(t *testing.T, c *peer.Cluster) {
	t.Helper()
	for p := range int32(5) {
		req := kmsg.NewPtrListOffsetsRequest()
		req.Version = 4
		partition := kmsg.NewListOffsetsRequestTopicPartition()
		partition.Partition, partition.Timestamp = p, -1
		req.Topics = []kmsg.ListOffsetsRequestTopic{{Topic: "any-2", Partitions: []kmsg.ListOffsetsRequestTopicPartition{partition}}}
		onlyOne(t, c, fmt.Sprintf("any-2/%d", p), req, 6) // NOT_LEADER_OR_FOLLOWER
	}
	for i := range 9 {
		group := fmt.Sprintf("any-group-%d", i)
		if _, err := coordinatorOf(c, group); err != nil {
			t.Fatal(err)
		}
		req := kmsg.NewPtrOffsetFetchRequest()
		req.Version, req.Group = 5, group
		onlyOne(t, c, group, req, 16) // NOT_COORDINATOR
	}
}

func onlyOne(t *testing.T, c *peer.Cluster, what string, req kmsg.Request, other int) {
	t.Helper()
	var codes []int
	limit := time.Now().Add(30 * time.Second)
	for {
		codes = codes[:0]
		for _, s := range c.Nodes {
			resp, err := askLong(s.Addr, req)
			if err != nil {
				t.Fatal(err)
			}
			codes = append(codes, firstError(canonical(t, resp)))
		}
		slices.Sort(codes)
		if slices.Equal(codes, []int{0, other, other}) {
			return
		}
		if time.Now().After(limit) {
			t.Errorf("%s: the brokers answer with errors %d, one has to answer and two to say %d", what, codes, other)
			return
		}
		time.Sleep(20 * time.Millisecond) // a coordinator may be loading
	}
}

// servedBy is the version table of the first broker.
func servedBy(t *testing.T, c *peer.Cluster) map[int16]kmsg.ApiVersionsResponseApiKey {
	t.Helper()
	resp, err := askLong(c.Nodes[0].Addr, kmsg.NewPtrApiVersionsRequest())
	if err != nil {
		t.Fatal(err)
	}
	all := map[int16]kmsg.ApiVersionsResponseApiKey{}
	for _, k := range resp.(*kmsg.ApiVersionsResponse).ApiKeys {
		all[k.ApiKey] = k
	}
	return all
}

// askLong asks a broker over a connection of its own and gives it time.
func askLong(addr string, req kmsg.Request) (kmsg.Response, error) {
	return askWithin(addr, req, time.Minute)
}

// canonical is an answer as text, the items of its lists in order.
func canonical(t *testing.T, resp kmsg.Response) string {
	t.Helper()
	b, err := json.Marshal(resp)
	if err != nil {
		t.Fatal(err)
	}
	var v any
	d := json.NewDecoder(bytes.NewReader(b))
	d.UseNumber()
	if err := d.Decode(&v); err != nil {
		t.Fatal(err)
	}
	return ordered(v)
}

// ordered is a JSON value with its lists in order.
func ordered(v any) string {
	switch v := v.(type) {
	case []any:
		items := make([]string, len(v))
		for i, item := range v {
			items[i] = ordered(item)
		}
		slices.Sort(items)
		return "[" + strings.Join(items, ",") + "]"
	case map[string]any:
		fields := make([]string, 0, len(v))
		for name, field := range v {
			fields = append(fields, fmt.Sprintf("%q:%s", name, ordered(field)))
		}
		slices.Sort(fields)
		return "{" + strings.Join(fields, ",") + "}"
	}
	b, err := json.Marshal(v)
	if err != nil {
		panic(err) // it was read from JSON
	}
	return string(b)
}

var errorCode = regexp.MustCompile(`"ErrorCode":(-?[1-9][0-9]*)`)

// firstError is the first error code in an answer that isn't 0.
func firstError(answer string) int {
	m := errorCode.FindStringSubmatch(answer)
	if m == nil {
		return 0
	}
	code, err := strconv.Atoi(m[1])
	if err != nil {
		panic(err) // it is digits
	}
	return code
}

// firstDifference is where two texts part.
func firstDifference(a, b string) string {
	i := 0
	for i < min(len(a), len(b)) && a[i] == b[i] {
		i++
	}
	part := func(s string) string { return s[max(0, i-80):min(len(s), i+80)] }
	return fmt.Sprintf("…%s… and …%s…", part(a), part(b))
}
