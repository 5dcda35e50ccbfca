package broker

import (
	"slices"
	"strings"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"sawlog/broker/controller"
	"sawlog/offsets"
)

// Metadata, versions 0–13: brokers, topics and their partitions. A topic that
// doesn't exist is made with the default number of partitions when the client
// allows it (always before version 4), as Kafka's auto.create.topics.enable
// says; the answer waits for it, so the client need not ask twice. Topic ids
// since version 10 (KIP-516).

// Bits of the operations a client may do, told when it asks (KIP-430). Nobody is
// kept from anything yet.
const (
	topicOperations   = 1<<3 | 1<<4 | 1<<5 | 1<<6 | 1<<7 | 1<<8 | 1<<10 | 1<<11
	clusterOperations = 1<<5 | 1<<7 | 1<<8 | 1<<9 | 1<<10 | 1<<11 | 1<<12
)

func (b *Broker) metadata(r *kmsg.MetadataRequest) kmsg.Response {
	m := r.ResponseKind().(*kmsg.MetadataResponse)
	if m.ControllerID = -1; namesNoTopic(r) {
		for i := range r.Topics {
			t := kmsg.NewMetadataResponseTopic()
			t.Topic, t.TopicID, t.ErrorCode = r.Topics[i].Topic, r.Topics[i].TopicID, kerr.InvalidRequest.Code
			m.Topics = append(m.Topics, t)
		}
		return m
	}
	im := b.controller.Image()
	m.ClusterID = &b.clusterID
	m.ControllerID = int32(b.controllerFor(im))
	for i := range im.Brokers {
		if host, port, ok := b.endpoint(&im.Brokers[i]); ok && !im.Brokers[i].Fenced {
			m.Brokers = append(m.Brokers, kmsg.MetadataResponseBroker{
				NodeID: int32(im.Brokers[i].ID), Host: host, Port: port, Rack: optional(im.Brokers[i].Rack),
			})
		}
	}
	if r.IncludeClusterAuthorizedOperations {
		m.AuthorizedOperations = clusterOperations
	}
	if r.Topics == nil || r.Version == 0 && len(r.Topics) == 0 {
		for _, t := range im.Topics() {
			m.Topics = append(m.Topics, b.metadataTopic(r, t))
		}
		return m
	}
	create := r.Version < 4 || r.AllowAutoTopicCreation
	type asked struct {
		name string
		id   offsets.TopicID
	}
	seen := map[asked]bool{}
	for i := range r.Topics {
		want := asked{id: r.Topics[i].TopicID}
		if r.Topics[i].Topic != nil {
			want.name = *r.Topics[i].Topic
		}
		if !seen[want] {
			seen[want] = true
			m.Topics = append(m.Topics, b.metadataAsked(r, &r.Topics[i], create))
		}
	}
	return m
}

// controllerFor is the broker that clients are sent to with what a controller
// decides: the active one, or while its broker is out of service this one, which
// passes on what is asked of it.
func (b *Broker) controllerFor(im *controller.Image) offsets.BrokerID {
	leader := b.controller.Leader()
	if br, ok := im.Broker(leader); leader == offsets.NoBroker || ok && !br.Fenced {
		return leader
	}
	return b.nodeID
}

// namesNoTopic tells whether a request asks by ids in one of the versions that
// have them and no use for them.
func namesNoTopic(r *kmsg.MetadataRequest) bool {
	return r.Version < 12 && slices.ContainsFunc(r.Topics, func(t kmsg.MetadataRequestTopic) bool {
		return t.Topic == nil || !offsets.TopicID(t.TopicID).IsZero()
	})
}

// metadataAsked answers for one topic of the request.
func (b *Broker) metadataAsked(r *kmsg.MetadataRequest, want *kmsg.MetadataRequestTopic, create bool) kmsg.MetadataResponseTopic {
	im := b.controller.Image()
	failed := kmsg.NewMetadataResponseTopic()
	failed.Topic, failed.TopicID = want.Topic, want.TopicID
	if want.Topic == nil || !offsets.TopicID(want.TopicID).IsZero() {
		if t, ok := im.TopicByID(want.TopicID); ok {
			return b.metadataTopic(r, t)
		}
		failed.ErrorCode = kerr.UnknownTopicID.Code
		return failed
	}
	if t, ok := im.TopicByName(*want.Topic); ok {
		return b.metadataTopic(r, t)
	}
	if controller.CheckTopicName(*want.Topic) != nil || *want.Topic == metadataTopic {
		failed.ErrorCode = kerr.InvalidTopicException.Code
		return failed
	}
	if !create || strings.EqualFold(b.config.startValue("auto.create.topics.enable"), "false") {
		failed.ErrorCode = kerr.UnknownTopicOrPartition.Code
		return failed
	}
	ask := controller.NewTopic{Name: *want.Topic, Partitions: -1, ReplicationFactor: -1}
	if isInternal(*want.Topic) {
		ask = internalTopic(*want.Topic)
	}
	ctx, cancel := b.adminContext(0)
	defer cancel()
	t, err := b.ensureTopic(ctx, ask)
	if err != nil {
		if failed.ErrorCode = codeOf(err); failed.ErrorCode == kerr.TopicAlreadyExists.Code {
			failed.ErrorCode = kerr.InvalidTopicException.Code // its name collides with another one
		}
		return failed
	}
	return b.metadataTopic(r, t.meta)
}

func (b *Broker) metadataTopic(r *kmsg.MetadataRequest, t *controller.Topic) kmsg.MetadataResponseTopic {
	m := kmsg.NewMetadataResponseTopic()
	m.Topic, m.TopicID, m.IsInternal = &t.Name, t.ID, t.Internal
	if r.IncludeTopicAuthorizedOperations {
		m.AuthorizedOperations = topicOperations
	}
	im := b.controller.Image()
	m.Partitions = make([]kmsg.MetadataResponseTopicPartition, 0, len(t.Partitions))
	for i := range t.Partitions {
		p := &t.Partitions[i]
		part := kmsg.NewMetadataResponseTopicPartition()
		part.Partition, part.Leader, part.LeaderEpoch = p.Index, int32(p.Leader), int32(p.Epoch)
		part.Replicas, part.ISR = ids(p.Replicas), ids(p.ISR)
		part.OfflineReplicas = offline(im, p)
		if p.Leader == offsets.NoBroker {
			part.ErrorCode = kerr.LeaderNotAvailable.Code
		}
		m.Partitions = append(m.Partitions, part)
	}
	return m
}

// offline lists the replicas whose broker is away.
func offline(im *controller.Image, p *controller.Partition) []int32 {
	away := []int32{}
	for _, id := range p.Replicas {
		if br, ok := im.Broker(id); !ok || br.Fenced {
			away = append(away, int32(id))
		}
	}
	return away
}

func ids(brokers []offsets.BrokerID) []int32 {
	out := make([]int32, len(brokers))
	for i, id := range brokers {
		out[i] = int32(id)
	}
	return out
}

// endpoint is where clients reach a broker.
func (b *Broker) endpoint(br *controller.Broker) (string, int32, bool) {
	i := slices.IndexFunc(br.Endpoints, func(e controller.Endpoint) bool { return e.Listener == clientListener })
	if i < 0 {
		return "", 0, false
	}
	return br.Endpoints[i].Host, br.Endpoints[i].Port, true
}

// optional is nil for the empty string.
func optional(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}
