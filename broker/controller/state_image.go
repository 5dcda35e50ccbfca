package controller

import (
	"cmp"
	"slices"
	"strings"

	"sawlog/offsets"
)

// Image is the cluster's metadata as of one Raft index. It never changes: a
// change makes a new Image that shares all it did not touch with the old one.
type Image struct {
	ClusterID   string
	FormatLevel int16
	// Index is the Raft index of the last entry in the image, Sequence the
	// number of entries in it.
	Index    uint64
	Sequence uint64
	// Brokers are in ascending order of ID.
	Brokers []Broker
	// BrokerConfig holds what was set for all brokers; BrokerConfigs has the rest.
	BrokerConfig map[string]string

	brokerConfigs  map[offsets.BrokerID]map[string]string
	byName         tree[string, *Topic]
	byID           tree[offsets.TopicID, *Topic]
	collisions     tree[string, string] // folded name → name, see foldName
	partitions     int
	load           map[offsets.BrokerID]Load
	nextProducerID int64
	nextNodeID     offsets.BrokerID
}

// Broker is one registered broker.
type Broker struct {
	ID           offsets.BrokerID
	Incarnation  UUID // one per process start
	Directory    UUID // one per data directory
	Epoch        int64
	Endpoints    []Endpoint // in ascending order of listener name
	Rack         string     // "" = none told
	Fenced       bool       // leads nothing and joins no ISR
	ShuttingDown bool       // leads nothing; its place in an ISR is being taken
	Full         bool       // its disk is full: it leads, and is in sync, only where nobody else can
	Levels       Levels     // format levels its process knows
}

// usable tells whether the broker may lead a partition.
func (b *Broker) usable() bool { return b.inService() && !b.Full }

// inService tells whether the broker may lead a partition at need.
func (b *Broker) inService() bool { return !b.Fenced && !b.ShuttingDown }

// Endpoint is an address of a broker under the name of the listener it serves.
type Endpoint struct {
	Listener string
	Host     string
	Port     int32
}

// Topic is one topic. Partitions[i].Index == i.
type Topic struct {
	Name       string
	ID         offsets.TopicID
	Internal   bool
	Partitions []Partition
	Configs    map[string]string
}

// Partition is who owns a partition and which of its replicas are in sync.
//
// Invariants: Replicas is not empty and holds no broker twice; ISR and ELR are
// disjoint subsets of Replicas, and so are Adding and Removing; Leader is NoBroker or in ISR; Epoch grows with
// every new leader, PartitionEpoch with every change.
type Partition struct {
	Index          int32
	Leader         offsets.BrokerID
	Epoch          offsets.Epoch
	PartitionEpoch offsets.Epoch
	Recovering     bool // the leader was elected uncleanly and has not said it is done
	Replicas       []offsets.BrokerID
	ISR            []offsets.BrokerID
	ELR            []offsets.BrokerID
	// Adding and Removing are the replicas that come and go by a reassignment
	// that is under way; both are among Replicas.
	Adding, Removing []offsets.BrokerID
}

// Load counts what a broker carries.
type Load struct {
	Leading   int // partitions it leads
	Preferred int // partitions it would lead if all brokers were up
	Replicas  int
}

// UUID is 16 random bytes.
type UUID [16]byte

// IsZero tells whether no UUID is set.
func (u UUID) IsZero() bool { return u == UUID{} }

func emptyImage() *Image {
	return &Image{
		byName:     newTree[string, *Topic](strings.Compare),
		collisions: newTree[string, string](strings.Compare),
		byID:       newTree[offsets.TopicID, *Topic](compareTopicID),
		nextNodeID: 1,
	}
}

func compareTopicID(a, b offsets.TopicID) int { return slices.Compare(a[:], b[:]) }

// TopicByName finds a topic by its name.
func (im *Image) TopicByName(name string) (*Topic, bool) { return im.byName.get(name) }

// TopicByID finds a topic by its id.
func (im *Image) TopicByID(id offsets.TopicID) (*Topic, bool) { return im.byID.get(id) }

// Topics lists all topics in ascending order of name.
func (im *Image) Topics() []*Topic {
	all := make([]*Topic, 0, im.byName.len())
	for _, t := range im.byName.all() {
		all = append(all, t)
	}
	return all
}

// TopicCount is the number of topics.
func (im *Image) TopicCount() int { return im.byName.len() }

// PartitionCount is the number of partitions of all topics.
func (im *Image) PartitionCount() int { return im.partitions }

// Partition finds one partition by its topic's id.
func (im *Image) Partition(id offsets.TopicID, index int32) (*Partition, bool) {
	t, ok := im.byID.get(id)
	if !ok || index < 0 || int(index) >= len(t.Partitions) {
		return nil, false
	}
	return &t.Partitions[index], true
}

// Broker finds a broker by its id.
func (im *Image) Broker(id offsets.BrokerID) (*Broker, bool) {
	i, ok := im.brokerAt(id)
	if !ok {
		return nil, false
	}
	return &im.Brokers[i], true
}

func (im *Image) brokerAt(id offsets.BrokerID) (int, bool) {
	return slices.BinarySearchFunc(im.Brokers, id, func(b Broker, id offsets.BrokerID) int { return cmp.Compare(b.ID, id) })
}

// BrokerConfigs is what was set for one broker alone.
func (im *Image) BrokerConfigs(id offsets.BrokerID) map[string]string { return im.brokerConfigs[id] }

// Load is what a broker carries.
func (im *Image) Load(id offsets.BrokerID) Load { return im.load[id] }

// usable tells whether a broker is registered and may lead.
func (im *Image) usable(id offsets.BrokerID) bool {
	b, ok := im.Broker(id)
	return ok && b.usable()
}

func (im *Image) inService(id offsets.BrokerID) bool {
	b, ok := im.Broker(id)
	return ok && b.inService()
}
