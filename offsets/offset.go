// Package offsets answers one question: what position has been reached?
//
// It holds the typed positions of a log, half-open ranges of them, the text
// grammar people write ranges in, and the bbolt store of committed group
// offsets. It knows nothing of record bytes, the network or segment indexes.
package offsets

import (
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"log/slog"
	"strconv"
)

// Offset is the position of a record in one partition. A log end is the offset
// the next record will get.
type Offset int64

// Epoch is a leader epoch: it grows with every change of a partition's leader.
// NoEpoch stands where none is known.
type Epoch int32

// NoEpoch is the epoch of a batch or a client that knows none.
const NoEpoch Epoch = -1

// BrokerID names one broker of a cluster.
type BrokerID int32

// NoBroker is the leader of a partition that has none.
const NoBroker BrokerID = -1

// TopicID is the random UUID a topic gets when it is created; a topic deleted
// and made again under its old name has another one.
type TopicID [16]byte

// IsZero tells whether no id is set.
func (id TopicID) IsZero() bool { return id == TopicID{} }

// String prints the id as Kafka's tools do: URL-safe base64 without padding.
func (id TopicID) String() string { return base64.RawURLEncoding.EncodeToString(id[:]) }

// Hex prints all 32 hex digits; file names carry the first eight.
func (id TopicID) Hex() string { return hex.EncodeToString(id[:]) }

// MarshalText writes the id as String does.
func (id TopicID) MarshalText() ([]byte, error) { return []byte(id.String()), nil }

// UnmarshalText reads what MarshalText wrote.
func (id *TopicID) UnmarshalText(text []byte) error {
	parsed, err := ParseTopicID(string(text))
	if err == nil {
		*id = parsed
	}
	return err
}

// ParseTopicID reads the form String prints.
func ParseTopicID(s string) (TopicID, error) {
	var id TopicID
	b, err := base64.RawURLEncoding.DecodeString(s)
	if err != nil || len(b) != len(id) {
		return id, fmt.Errorf("topic id %q: want 22 characters of URL-safe base64", s)
	}
	copy(id[:], b)
	return id, nil
}

// TopicPartition names one partition.
type TopicPartition struct {
	Topic     string
	Partition int32
}

// String prints "topic/3", the form the range grammar reads.
func (tp TopicPartition) String() string {
	return tp.Topic + "/" + strconv.Itoa(int(tp.Partition))
}

// LogValue prints the same into logs.
func (tp TopicPartition) LogValue() slog.Value { return slog.StringValue(tp.String()) }

// Compare orders by topic, then partition.
func (tp TopicPartition) Compare(other TopicPartition) int {
	switch {
	case tp.Topic < other.Topic:
		return -1
	case tp.Topic > other.Topic:
		return 1
	default:
		return int(tp.Partition) - int(other.Partition)
	}
}
