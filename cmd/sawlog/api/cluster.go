package api

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"sawlog/consumer"
)

// Cluster tells of the Kafka side of the server.
type Cluster interface {
	Info(ctx context.Context) (*ClusterInfo, error)
	// Topics describes every topic that is not internal.
	Topics(ctx context.Context) ([]Topic, error)
	// Groups lists every group; with offsets they also say where they stand.
	Groups(ctx context.Context, offsets bool) ([]Group, error)
}

// ClusterInfo is a cluster and its brokers.
type ClusterInfo struct {
	ID         string   `json:"cluster"`
	Controller int32    `json:"controller"`
	Brokers    []Broker `json:"brokers"`
}

// Broker is one broker of a cluster.
type Broker struct {
	ID   int32  `json:"id"`
	Addr string `json:"address"`
	Rack string `json:"rack,omitempty"`
}

// Topic is a topic and its partitions.
type Topic struct {
	Name       string      `json:"topic"`
	Compact    bool        `json:"compact"`
	Records    int64       `json:"records"` // offsets in the log, an upper bound of its records; -1 = not told
	Bytes      int64       `json:"bytes"`   // -1 = not told
	Partitions []Partition `json:"partitions"`
}

// Partition is one partition of a topic.
type Partition struct {
	Index         int32   `json:"partition"`
	Leader        int32   `json:"leader"`
	Replicas      []int32 `json:"replicas"`
	ISR           []int32 `json:"isr"`
	LogStart      int64   `json:"log_start"` // -1 = not told, as these below: there is no leader, or it does not answer
	LastStable    int64   `json:"last_stable"`
	HighWatermark int64   `json:"high_watermark"`
	Bytes         int64   `json:"bytes"`
}

// Group is a consumer group.
type Group struct {
	Name    string        `json:"group"`
	State   string        `json:"state"`
	Members int           `json:"members"`
	Lag     int64         `json:"lag"` // records; -1 = not asked
	Offsets []GroupOffset `json:"offsets,omitempty"`
}

// GroupOffset is where a group stands on one partition.
type GroupOffset struct {
	Topic     string `json:"topic"`
	Partition int32  `json:"partition"`
	Committed int64  `json:"committed"`
	End       int64  `json:"end"`
	Lag       int64  `json:"lag"`
}

// OverKafka tells of a cluster by its own protocol. It connects when first asked.
func OverKafka(c consumer.Config) Cluster { return &kafkaCluster{config: c} }

type kafkaCluster struct {
	config consumer.Config
	mu     sync.Mutex
	conn   *consumer.KafkaCluster
}

func (k *kafkaCluster) dial(ctx context.Context) (consumer.Cluster, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.conn == nil {
		conn, err := consumer.Dial(ctx, k.config)
		if err != nil {
			return nil, err
		}
		k.conn = conn
	}
	return k.conn, nil
}

// Close lets go of the connection.
func (k *kafkaCluster) Close() error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.conn != nil {
		k.conn.Close()
		k.conn = nil
	}
	return nil
}

// ask sends a request and checks the kind of its answer.
func ask[T kmsg.Response](ctx context.Context, c consumer.Requestor, req kmsg.Request) (T, error) {
	var none T
	resp, err := c.Request(ctx, req)
	if err != nil {
		return none, err
	}
	answer, ok := resp.(T)
	if !ok {
		return none, fmt.Errorf("request %s: answer of type %T", kmsg.NameForKey(req.Key()), resp)
	}
	return answer, nil
}

func (k *kafkaCluster) metadata(ctx context.Context, all bool) (*kmsg.MetadataResponse, error) {
	c, err := k.dial(ctx)
	if err != nil {
		return nil, err
	}
	req := kmsg.NewPtrMetadataRequest()
	if !all {
		req.Topics = []kmsg.MetadataRequestTopic{}
	}
	return ask[*kmsg.MetadataResponse](ctx, c, req)
}

func (k *kafkaCluster) Info(ctx context.Context) (*ClusterInfo, error) {
	meta, err := k.metadata(ctx, false)
	if err != nil {
		return nil, err
	}
	info := &ClusterInfo{Controller: meta.ControllerID, Brokers: []Broker{}}
	if meta.ClusterID != nil {
		info.ID = *meta.ClusterID
	}
	for _, b := range meta.Brokers {
		broker := Broker{ID: b.NodeID, Addr: fmt.Sprintf("%s:%d", b.Host, b.Port)}
		if b.Rack != nil {
			broker.Rack = *b.Rack
		}
		info.Brokers = append(info.Brokers, broker)
	}
	slices.SortFunc(info.Brokers, func(a, b Broker) int { return cmp.Compare(a.ID, b.ID) })
	return info, nil
}

func (k *kafkaCluster) Topics(ctx context.Context) ([]Topic, error) {
	meta, err := k.metadata(ctx, true)
	if err != nil {
		return nil, err
	}
	type place struct {
		topic     string
		partition int32
	}
	found := map[place]kmsg.MetadataResponseTopicPartition{}
	for _, t := range meta.Topics {
		for _, p := range t.Partitions {
			if t.Topic != nil {
				found[place{*t.Topic, p.Partition}] = p
			}
		}
	}
	c, err := k.dial(ctx)
	if err != nil {
		return nil, err
	}
	described, err := consumer.Survey(ctx, c)
	if err != nil {
		return nil, err
	}
	out := make([]Topic, 0, len(described))
	for _, d := range described {
		t := Topic{Name: d.Name, Compact: d.Compact, Partitions: []Partition{}}
		for _, p := range d.Partitions {
			meta := found[place{d.Name, p.Index}]
			t.Partitions = append(t.Partitions, Partition{
				Index: p.Index, Leader: int32(p.Leader), Replicas: slices.Concat([]int32{}, meta.Replicas), ISR: slices.Concat([]int32{}, meta.ISR),
				LogStart: int64(p.LogStart), LastStable: int64(p.LastStable), HighWatermark: int64(p.HighWatermark), Bytes: p.Size,
			})
			t.Records = sum(t.Records, int64(p.HighWatermark-p.LogStart), p.HighWatermark == consumer.Untold)
			t.Bytes = sum(t.Bytes, p.Size, p.Size < 0)
		}
		out = append(out, t)
	}
	return out, nil
}

// sum adds n to what is -1 from the first number on that is not told.
func sum(all, n int64, untold bool) int64 {
	if untold || all < 0 {
		return -1
	}
	return all + n
}

func (k *kafkaCluster) Groups(ctx context.Context, offsets bool) ([]Group, error) {
	c, err := k.dial(ctx)
	if err != nil {
		return nil, err
	}
	list, err := ask[*kmsg.ListGroupsResponse](ctx, c, kmsg.NewPtrListGroupsRequest())
	if err != nil {
		return nil, err
	}
	if err := kerr.ErrorForCode(list.ErrorCode); err != nil {
		return nil, err
	}
	out := make([]Group, 0, len(list.Groups))
	for _, g := range list.Groups {
		out = append(out, Group{Name: g.Group, State: g.GroupState, Lag: -1})
	}
	slices.SortFunc(out, func(a, b Group) int { return cmp.Compare(a.Name, b.Name) })
	if !offsets || len(out) == 0 {
		return out, nil
	}
	topics, err := k.Topics(ctx)
	if err != nil {
		return nil, err
	}
	return out, errors.Join(k.fillMembers(ctx, c, out), k.fillOffsets(ctx, c, out, topics))
}

func (k *kafkaCluster) fillMembers(ctx context.Context, c consumer.Cluster, groups []Group) error {
	req := kmsg.NewPtrDescribeGroupsRequest()
	byName := map[string]*Group{}
	for i := range groups {
		req.Groups = append(req.Groups, groups[i].Name)
		byName[groups[i].Name] = &groups[i]
	}
	resp, err := ask[*kmsg.DescribeGroupsResponse](ctx, c, req)
	if err != nil {
		return err
	}
	for _, g := range resp.Groups {
		if have := byName[g.Group]; have != nil {
			have.Members, have.State = len(g.Members), cmp.Or(g.State, have.State)
		}
	}
	return nil
}

func (k *kafkaCluster) fillOffsets(ctx context.Context, c consumer.Cluster, groups []Group, topics []Topic) error {
	ends := map[string]map[int32]int64{}
	for _, t := range topics {
		ends[t.Name] = map[int32]int64{}
		for _, p := range t.Partitions {
			ends[t.Name][p.Index] = p.HighWatermark
		}
	}
	for i := range groups {
		g := &groups[i]
		req := kmsg.NewPtrOffsetFetchRequest()
		req.Group = g.Name
		one := kmsg.NewOffsetFetchRequestGroup()
		one.Group = g.Name
		req.Groups = append(req.Groups, one)
		resp, err := ask[*kmsg.OffsetFetchResponse](ctx, c, req)
		if err != nil {
			return err
		}
		g.Lag = 0
		add := func(topic string, partition int32, committed int64) {
			end, known := ends[topic][partition]
			if committed < 0 || !known || end < 0 {
				return
			}
			o := GroupOffset{Topic: topic, Partition: partition, Committed: committed, End: end, Lag: max(0, end-committed)}
			g.Lag += o.Lag
			g.Offsets = append(g.Offsets, o)
		}
		for _, t := range resp.Topics {
			for _, p := range t.Partitions {
				add(t.Topic, p.Partition, p.Offset)
			}
		}
		for _, rg := range resp.Groups {
			for _, t := range rg.Topics {
				for _, p := range t.Partitions {
					add(t.Topic, p.Partition, p.Offset)
				}
			}
		}
		slices.SortFunc(g.Offsets, func(a, b GroupOffset) int {
			return cmp.Or(cmp.Compare(a.Topic, b.Topic), cmp.Compare(a.Partition, b.Partition))
		})
	}
	return nil
}

func (s *server) getCluster(w http.ResponseWriter, r *http.Request) {
	info, err := s.Cluster.Info(r.Context())
	s.answer(w, r, info, err)
}

func (s *server) listTopics(w http.ResponseWriter, r *http.Request) {
	topics, err := s.Cluster.Topics(r.Context())
	if err != nil {
		s.fail(w, r, err)
		return
	}
	listed(s, w, r, topics, true, func(t *Topic) string { return t.Name }, func(part []Topic, next string) any { return TopicList{part, next} })
}

func (s *server) getTopic(w http.ResponseWriter, r *http.Request) {
	topics, err := s.Cluster.Topics(r.Context())
	i := slices.IndexFunc(topics, func(t Topic) bool { return t.Name == r.PathValue("topic") })
	if err != nil || i < 0 {
		s.fail(w, r, cmp.Or(err, error(&Error{Code: CodeNotFound, Message: "no topic " + r.PathValue("topic"), Hint: "GET /api/v1/topics lists them"})))
		return
	}
	reply(w, http.StatusOK, topics[i])
}

func (s *server) listGroups(w http.ResponseWriter, r *http.Request) {
	groups, err := s.Cluster.Groups(r.Context(), truth(r.URL.Query(), "offsets"))
	if err != nil {
		s.fail(w, r, err)
		return
	}
	listed(s, w, r, groups, true, func(g *Group) string { return g.Name }, func(part []Group, next string) any { return GroupList{part, next} })
}

func (s *server) getGroup(w http.ResponseWriter, r *http.Request) {
	groups, err := s.Cluster.Groups(r.Context(), true)
	i := slices.IndexFunc(groups, func(g Group) bool { return g.Name == r.PathValue("group") })
	if err != nil || i < 0 {
		s.fail(w, r, cmp.Or(err, error(&Error{Code: CodeNotFound, Message: "no group " + r.PathValue("group"), Hint: "GET /api/v1/groups lists them"})))
		return
	}
	reply(w, http.StatusOK, groups[i])
}

// TopicList is the answer to GET /api/v1/topics.
type TopicList struct {
	Topics []Topic `json:"topics"`
	Next   string  `json:"next,omitempty"` // after= of the page that follows; none = this is the last
}

// GroupList is the answer to GET /api/v1/groups.
type GroupList struct {
	Groups []Group `json:"groups"`
	Next   string  `json:"next,omitempty"` // after= of the page that follows; none = this is the last
}

// clusterPatience bounds how long a request waits for the cluster.
const clusterPatience = 10 * time.Second

// overCluster asks the cluster, and not for ever.
func (s *server) overCluster(do http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if s.Cluster == nil {
			s.fail(w, r, notAvailable("the cluster"))
			return
		}
		ctx, cancel := context.WithTimeout(r.Context(), clusterPatience)
		defer cancel()
		do(w, r.WithContext(ctx))
	}
}

func sortPartitions(ps []PartitionState) {
	slices.SortFunc(ps, func(a, b PartitionState) int {
		return cmp.Or(cmp.Compare(a.Topic, b.Topic), cmp.Compare(a.Partition, b.Partition))
	})
}
