package controller

import "sawlog/offsets"

// NewTopic asks for a topic.
type NewTopic struct {
	Name              string
	Partitions        int32 // -1 = num.partitions, else 1
	ReplicationFactor int16 // -1 = default.replication.factor, else min(3, brokers)
	// Assignment names the replicas of every partition, preferred leader
	// first; nil = the controller places them.
	Assignment   [][]offsets.BrokerID
	Configs      map[string]string
	Internal     bool
	ValidateOnly bool
}

// ResourceKind tells what a configuration belongs to. The numbers are Kafka's
// and persisted.
type ResourceKind int8

// The kinds of resource that have configurations.
const (
	TopicResource  ResourceKind = 2
	BrokerResource ResourceKind = 4
)

// Resource is the owner of a configuration: a topic by name, or a broker by
// the decimal form of its id; BrokerResource with "" is all brokers.
type Resource struct {
	Kind ResourceKind
	Name string
}

// OpKind is what a ConfigOp does.
type OpKind int8

// Append and Subtract act on values that are lists with commas between.
const (
	Set OpKind = iota
	Delete
	Append
	Subtract
)

// ConfigOp changes one key.
type ConfigOp struct {
	Kind  OpKind
	Key   string
	Value string // not for Delete
}

// ConfigChange asks for new configurations of one resource.
type ConfigChange struct {
	Resource     Resource
	Ops          []ConfigOp
	Replace      bool // keys not named in Ops are deleted
	ValidateOnly bool
}

// Registration is what a broker says of itself when it starts.
type Registration struct {
	ID          offsets.BrokerID
	Incarnation UUID
	Directory   UUID
	Endpoints   []Endpoint
	Rack        string
	// Intact: nothing acknowledged was lost since the broker's last epoch, by
	// a clean shutdown or because the machine did not restart.
	Intact bool
	// PreviousEpoch is the epoch the proof of Intact was written under.
	PreviousEpoch int64
	// Fenced registers the broker without taking it into service.
	Fenced bool
	Levels Levels // format levels the broker's process knows
}

// BrokerChange moves a registered broker in or out of service.
type BrokerChange struct {
	ID           offsets.BrokerID
	Epoch        int64 // must be the broker's present one
	Fenced       bool
	ShuttingDown bool
	Full         bool
}

// Member is a replica proposed for an ISR with the broker epoch it last fetched under.
type Member struct {
	ID    offsets.BrokerID
	Epoch int64
}

// ISRChange is a leader's wish for a new ISR.
type ISRChange struct {
	Topic          offsets.TopicID
	Partition      int32
	Broker         offsets.BrokerID // the leader
	BrokerEpoch    int64
	LeaderEpoch    offsets.Epoch
	PartitionEpoch offsets.Epoch
	ISR            []Member
	Recovering     bool // stays true until an uncleanly elected leader is done
}

// ElectionKind is how a leader may be chosen.
type ElectionKind int8

// Preferred moves leadership to the first replica, Unclean takes any live one
// where there is no leader.
const (
	Preferred ElectionKind = iota
	Unclean
)

// Reassignment asks for other replicas of a partition; with none it takes a
// reassignment that is under way back.
type Reassignment struct {
	Topic     string
	Partition int32
	Replicas  []offsets.BrokerID // preferred leader first
}

// ISRResult is what became of an ISRChange, and the partition after it.
type ISRResult struct {
	Partition Partition
	Err       error
}

// ElectResult is what became of one partition's election, and the partition after it.
type ElectResult struct {
	Partition Partition
	Err       error
}
