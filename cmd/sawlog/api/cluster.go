package api

import (
	"cmp"
	"context"
	"net/http"
	"slices"
	"time"

	"sawlog/consumer"
	"sawlog/consumer/admin"
)

// Cluster tells of the Kafka side of the server.
type Cluster interface {
	Info(ctx context.Context) (*ClusterInfo, error)
	// Topics describes every topic that is not internal.
	Topics(ctx context.Context) ([]Topic, error)
	// Groups lists every group; with offsets they also say where they stand. The error
	// names the brokers that did not tell; what others told stands beside it.
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
	Members int           `json:"members"` // -1 = not asked, or not told
	Lag     int64         `json:"lag"`     // records; -1 = not asked, or not told of all its partitions
	Offsets []GroupOffset `json:"offsets,omitempty"`
}

// GroupOffset is where a group stands on one partition.
type GroupOffset struct {
	Topic     string `json:"topic"`
	Partition int32  `json:"partition"`
	Committed int64  `json:"committed"`
	End       int64  `json:"end"` // -1 = not told
	Lag       int64  `json:"lag"` // records; -1 = not told
}

// OverKafka tells of a cluster by its own protocol, over a link that stays its
// owner's to close.
func OverKafka(l *consumer.Link) Cluster { return overKafka{l} }

type overKafka struct{ link *consumer.Link }

func (k overKafka) Info(ctx context.Context) (*ClusterInfo, error) {
	c, err := k.link.Cluster(ctx)
	if err != nil {
		return nil, err
	}
	f, err := admin.Describe(ctx, c)
	if err != nil {
		return nil, err
	}
	info := &ClusterInfo{ID: f.ID, Controller: f.Controller, Brokers: []Broker{}}
	for _, b := range f.Brokers {
		if !b.Fenced {
			info.Brokers = append(info.Brokers, Broker{ID: b.ID, Addr: b.Addr, Rack: b.Rack})
		}
	}
	return info, nil
}

func (k overKafka) Topics(ctx context.Context) ([]Topic, error) {
	c, err := k.link.Cluster(ctx)
	if err != nil {
		return nil, err
	}
	topics, err := survey(ctx, c)
	if err != nil {
		return nil, err
	}
	out := make([]Topic, 0, len(topics))
	for i := range topics {
		out = append(out, topicOf(&topics[i]))
	}
	return out, nil
}

func (k overKafka) Groups(ctx context.Context, offsets bool) ([]Group, error) {
	c, err := k.link.Cluster(ctx)
	if err != nil {
		return nil, err
	}
	list, untold := admin.Groups(ctx, c)
	out := make([]Group, 0, len(list))
	for _, g := range list {
		out = append(out, Group{Name: g.Name, State: g.State, Members: admin.Untold, Lag: admin.Untold})
	}
	if !offsets || len(out) == 0 {
		return out, untold
	}
	if err := fillGroups(ctx, c, out); err != nil {
		return nil, err
	}
	return out, untold
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
	if err != nil && len(groups) == 0 {
		s.fail(w, r, err)
		return
	}
	untold := ""
	if err != nil {
		untold = err.Error()
	}
	listed(s, w, r, groups, true, func(g *Group) string { return g.Name }, func(part []Group, next string) any { return GroupList{part, untold, next} })
}

func (s *server) getGroup(w http.ResponseWriter, r *http.Request) {
	groups, err := s.Cluster.Groups(r.Context(), true)
	i := slices.IndexFunc(groups, func(g Group) bool { return g.Name == r.PathValue("group") })
	if i < 0 {
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
	Untold string  `json:"untold,omitempty"` // which brokers did not tell of theirs, and why; none = all told
	Next   string  `json:"next,omitempty"`   // after= of the page that follows; none = this is the last
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
