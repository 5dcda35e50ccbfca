package record

import (
	"encoding/binary"
	"fmt"
)

// Types of control records.
const (
	controlAbort  = 0
	controlCommit = 1
)

// ParseControl reads the key of a control record. A type it does not know, as
// those of Raft quorums, is neither a commit nor an abort but an error.
func ParseControl(key []byte) (commit bool, err error) {
	if len(key) < 4 {
		return false, fmt.Errorf("%w: control key of %d bytes", ErrCorrupt, len(key))
	}
	if version := int16(binary.BigEndian.Uint16(key)); version < 0 {
		return false, fmt.Errorf("%w: control key version %d", ErrCorrupt, version)
	}
	switch kind := binary.BigEndian.Uint16(key[2:]); kind {
	case controlAbort:
		return false, nil
	case controlCommit:
		return true, nil
	default:
		return false, fmt.Errorf("%w: control type %d", ErrInvalid, kind)
	}
}

// Marker returns the batch that ends a producer's transaction.
func Marker(commit bool, id int64, epoch int16, coordinatorEpoch int32, timestamp int64) (Batch, error) {
	kind := byte(controlAbort)
	if commit {
		kind = controlCommit
	}
	w := NewBuilder(None, DefaultLevel)
	w.attrs = attrControl | attrTransactional
	w.Producer(id, epoch, NoSequence)
	value := binary.BigEndian.AppendUint32([]byte{0, 0}, uint32(coordinatorEpoch))
	w.Append(Record{Timestamp: timestamp, Key: []byte{0, 0, 0, kind}, Value: value})
	return w.Batch()
}
