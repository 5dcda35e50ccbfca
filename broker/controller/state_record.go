package controller

import (
	"sawlog/offsets"
)

// recordType is the first byte of a record. The numbers are persisted.
type recordType uint8

const (
	clusterType         recordType = 1
	formatType          recordType = 2
	brokerType          recordType = 3
	brokerChangeType    recordType = 4
	brokerRemovalType   recordType = 5
	topicType           recordType = 6
	topicRemovalType    recordType = 7
	partitionType       recordType = 8
	partitionChangeType recordType = 9
	configType          recordType = 10
	producerIDsType     recordType = 11
	nodeIDType          recordType = 12
	imageType           recordType = 13
)

// record is one fact of the metadata log. A record says what is, never what to
// decide, so that replaying it needs no policy.
type record interface {
	kind() recordType
	encode(dst []byte) []byte // body and tags
	decode(r *reader)
	fold(f *fold) error
}

// clusterRecord names the cluster, once.
type clusterRecord struct{ ID string }

// formatRecord raises the format level.
type formatRecord struct{ Level int16 }

// brokerRecord registers a broker or a new incarnation of it.
type brokerRecord struct {
	Broker
	// The Epoch of a Broker with 0 there is the index of the record's entry;
	// only snapshots spell it out.
}

// brokerChangeRecord takes a broker in or out of service.
type brokerChangeRecord BrokerChange

// brokerRemovalRecord forgets a broker.
type brokerRemovalRecord struct {
	ID    offsets.BrokerID
	Epoch int64
}

// topicRecord makes a topic that has no partition yet.
type topicRecord struct {
	Name     string
	ID       offsets.TopicID
	Internal bool
}

// topicRemovalRecord deletes a topic with its partitions and configurations.
type topicRemovalRecord struct{ ID offsets.TopicID }

// partitionRecord adds the next partition of a topic, whole.
type partitionRecord struct {
	Topic offsets.TopicID
	Partition
}

// partitionChangeRecord changes what is set in it. A Leader, even the same
// one, begins a new leader epoch.
type partitionChangeRecord struct {
	Topic          offsets.TopicID
	Index          int32
	PartitionEpoch offsets.Epoch // after the change; must be one more than before
	Leader         *offsets.BrokerID
	Replicas       *[]offsets.BrokerID
	ISR            *[]offsets.BrokerID
	ELR            *[]offsets.BrokerID
	Recovering     *bool
	Adding         *[]offsets.BrokerID
	Removing       *[]offsets.BrokerID
}

// configRecord sets or, with no Value, deletes one configuration.
type configRecord struct {
	Resource
	Key   string
	Value *string
}

// producerIDsRecord hands out a block of producer ids: all below Next are taken.
type producerIDsRecord struct {
	Broker      offsets.BrokerID
	BrokerEpoch int64
	Next        int64
}

// nodeIDRecord hands out a node id: all below Next are taken.
type nodeIDRecord struct{ Next offsets.BrokerID }

// imageRecord opens a snapshot.
type imageRecord struct{ Index, Sequence uint64 }

// newRecord is the table of all record types.
func newRecord(t recordType) (record, bool) {
	switch t {
	case clusterType:
		return new(clusterRecord), true
	case formatType:
		return new(formatRecord), true
	case brokerType:
		return new(brokerRecord), true
	case brokerChangeType:
		return new(brokerChangeRecord), true
	case brokerRemovalType:
		return new(brokerRemovalRecord), true
	case topicType:
		return new(topicRecord), true
	case topicRemovalType:
		return new(topicRemovalRecord), true
	case partitionType:
		return new(partitionRecord), true
	case partitionChangeType:
		return new(partitionChangeRecord), true
	case configType:
		return new(configRecord), true
	case producerIDsType:
		return new(producerIDsRecord), true
	case nodeIDType:
		return new(nodeIDRecord), true
	case imageType:
		return new(imageRecord), true
	default:
		return nil, false
	}
}

func (*clusterRecord) kind() recordType         { return clusterType }
func (*formatRecord) kind() recordType          { return formatType }
func (*brokerRecord) kind() recordType          { return brokerType }
func (*brokerChangeRecord) kind() recordType    { return brokerChangeType }
func (*brokerRemovalRecord) kind() recordType   { return brokerRemovalType }
func (*topicRecord) kind() recordType           { return topicType }
func (*topicRemovalRecord) kind() recordType    { return topicRemovalType }
func (*partitionRecord) kind() recordType       { return partitionType }
func (*partitionChangeRecord) kind() recordType { return partitionChangeType }
func (*configRecord) kind() recordType          { return configType }
func (*producerIDsRecord) kind() recordType     { return producerIDsType }
func (*nodeIDRecord) kind() recordType          { return nodeIDType }
func (*imageRecord) kind() recordType           { return imageType }
