package controller

import "sawlog/offsets"

// The body of every record type, written and read side by side. The layouts
// are drawn in doc.go.

func (c *clusterRecord) encode(dst []byte) []byte { return append(appendString(dst, c.ID), 0) }

func (c *clusterRecord) decode(r *reader) {
	c.ID = r.string()
	r.noTags()
}

func (c *formatRecord) encode(dst []byte) []byte { return append(appendInt16(dst, c.Level), 0) }

func (c *formatRecord) decode(r *reader) {
	c.Level = r.int16()
	r.noTags()
	if own := LevelsTo(0); r.err == nil && c.Level > own.Max {
		r.err = own.check(c.Level) // rather than stumble over what comes after it
	}
}

// Bits of the flags byte of broker records.
const (
	fencedFlag       = 1
	shuttingDownFlag = 2
	fullFlag         = 4
)

func brokerFlags(fenced, shuttingDown, full bool) (flags byte) {
	if fenced {
		flags |= fencedFlag
	}
	if shuttingDown {
		flags |= shuttingDownFlag
	}
	if full {
		flags |= fullFlag
	}
	return flags
}

func (r *reader) brokerFlags() (fenced, shuttingDown, full bool) {
	flags := r.uint8()
	if flags&^(fencedFlag|shuttingDownFlag|fullFlag) != 0 {
		r.fail("unknown broker flags")
	}
	return flags&fencedFlag != 0, flags&shuttingDownFlag != 0, flags&fullFlag != 0
}

func (c *brokerRecord) encode(dst []byte) []byte {
	dst = appendInt32(dst, c.ID)
	dst = append(dst, c.Incarnation[:]...)
	dst = append(dst, c.Directory[:]...)
	dst = appendInt64(dst, c.Epoch)
	dst = appendUvarint(dst, uint64(len(c.Endpoints))+1)
	for _, e := range c.Endpoints {
		dst = appendString(dst, e.Listener)
		dst = appendString(dst, e.Host)
		dst = appendInt32(dst, e.Port)
	}
	dst = appendString(dst, c.Rack)
	dst = append(dst, brokerFlags(c.Fenced, c.ShuttingDown, c.Full))
	if c.Levels == (Levels{}) {
		return append(dst, 0)
	}
	return appendTag(append(dst, 1), levelsTag, appendInt16(appendInt16(nil, c.Levels.Min), c.Levels.Max))
}

// levelsTag is a tag of brokerRecord: the format levels the broker knows.
const levelsTag = 0

func (c *brokerRecord) decode(r *reader) {
	c.ID, c.Incarnation, c.Directory, c.Epoch = r.brokerID(), r.uuid(), r.uuid(), r.int64()
	for range r.arrayLen(6) {
		c.Endpoints = append(c.Endpoints, Endpoint{r.string(), r.string(), r.int32()})
	}
	c.Rack = r.string()
	c.Fenced, c.ShuttingDown, c.Full = r.brokerFlags()
	r.tags(func(tag uint64, r *reader) bool {
		if tag == levelsTag {
			if c.Levels = (Levels{r.int16(), r.int16()}); c.Levels == (Levels{}) {
				r.fail("tagged without levels")
			}
		}
		return tag == levelsTag
	})
}

func (c *brokerChangeRecord) encode(dst []byte) []byte {
	dst = appendInt64(appendInt32(dst, c.ID), c.Epoch)
	return append(dst, brokerFlags(c.Fenced, c.ShuttingDown, c.Full), 0)
}

func (c *brokerChangeRecord) decode(r *reader) {
	c.ID, c.Epoch = r.brokerID(), r.int64()
	c.Fenced, c.ShuttingDown, c.Full = r.brokerFlags()
	r.noTags()
}

func (c *brokerRemovalRecord) encode(dst []byte) []byte {
	return append(appendInt64(appendInt32(dst, c.ID), c.Epoch), 0)
}

func (c *brokerRemovalRecord) decode(r *reader) {
	c.ID, c.Epoch = r.brokerID(), r.int64()
	r.noTags()
}

func (c *topicRecord) encode(dst []byte) []byte {
	dst = append(appendString(dst, c.Name), c.ID[:]...)
	return append(appendBool(dst, c.Internal), 0)
}

func (c *topicRecord) decode(r *reader) {
	c.Name, c.ID, c.Internal = r.string(), r.topicID(), r.bool()
	r.noTags()
}

func (c *topicRemovalRecord) encode(dst []byte) []byte { return append(append(dst, c.ID[:]...), 0) }

func (c *topicRemovalRecord) decode(r *reader) {
	c.ID = r.topicID()
	r.noTags()
}

func (c *partitionRecord) encode(dst []byte) []byte {
	dst = appendInt32(append(dst, c.Topic[:]...), c.Index)
	dst = appendInt32(dst, c.Leader)
	dst = appendInt32(dst, c.Epoch)
	dst = appendInt32(dst, c.PartitionEpoch)
	dst = appendBrokers(dst, c.Replicas)
	dst = appendBrokers(dst, c.ISR)
	dst = appendBrokers(dst, c.ELR)
	dst = appendBool(dst, c.Recovering)
	count := len(dst)
	dst = append(dst, 0)
	for tag, ids := range [...][]offsets.BrokerID{wholeAddingTag: c.Adding, wholeRemovingTag: c.Removing} {
		if len(ids) > 0 {
			dst[count]++
			dst = appendTag(dst, uint64(tag), appendBrokers(nil, ids))
		}
	}
	return dst
}

// Tags of partitionRecord, only there during a reassignment.
const (
	wholeAddingTag   = 0
	wholeRemovingTag = 1
)

func (c *partitionRecord) decode(r *reader) {
	c.Topic, c.Index, c.Leader = r.topicID(), r.int32(), r.brokerID()
	c.Epoch, c.PartitionEpoch = r.epoch(), r.epoch()
	c.Replicas, c.ISR, c.ELR = r.brokers(), r.brokers(), r.brokers()
	c.Recovering = r.bool()
	r.tags(func(tag uint64, r *reader) bool {
		switch tag {
		case wholeAddingTag:
			c.Adding = r.someBrokers()
		case wholeRemovingTag:
			c.Removing = r.someBrokers()
		default:
			return false
		}
		return true
	})
}

// Tags of partitionChangeRecord.
const (
	leaderTag     = 0
	replicasTag   = 1
	isrTag        = 2
	elrTag        = 3
	recoveringTag = 4
	addingTag     = 5
	removingTag   = 6
)

func (c *partitionChangeRecord) encode(dst []byte) []byte {
	dst = appendInt32(append(dst, c.Topic[:]...), c.Index)
	dst = appendInt32(dst, c.PartitionEpoch)
	count := len(dst)
	dst = append(dst, 0)
	field := make([]byte, 0, 32)
	if c.Leader != nil {
		dst[count]++
		dst = appendTag(dst, leaderTag, appendInt32(field, *c.Leader))
	}
	for tag, ids := range [...]*[]offsets.BrokerID{replicasTag: c.Replicas, isrTag: c.ISR, elrTag: c.ELR} {
		if ids != nil {
			dst[count]++
			dst = appendTag(dst, uint64(tag), appendBrokers(field, *ids))
		}
	}
	if c.Recovering != nil {
		dst[count]++
		dst = appendTag(dst, recoveringTag, appendBool(field, *c.Recovering))
	}
	for i, ids := range [...]*[]offsets.BrokerID{c.Adding, c.Removing} {
		if ids != nil {
			dst[count]++
			dst = appendTag(dst, uint64(addingTag+i), appendBrokers(field, *ids))
		}
	}
	return dst
}

func (c *partitionChangeRecord) decode(r *reader) {
	c.Topic, c.Index, c.PartitionEpoch = r.topicID(), r.int32(), r.epoch()
	brokers := func(r *reader) *[]offsets.BrokerID {
		ids := r.brokers()
		return &ids
	}
	r.tags(func(tag uint64, r *reader) bool {
		switch tag {
		case leaderTag:
			leader := r.brokerID()
			c.Leader = &leader
		case replicasTag:
			c.Replicas = brokers(r)
		case isrTag:
			c.ISR = brokers(r)
		case elrTag:
			c.ELR = brokers(r)
		case recoveringTag:
			recovering := r.bool()
			c.Recovering = &recovering
		case addingTag:
			c.Adding = brokers(r)
		case removingTag:
			c.Removing = brokers(r)
		default:
			return false
		}
		return true
	})
}

func (c *configRecord) encode(dst []byte) []byte {
	dst = appendString(append(dst, byte(c.Kind)), c.Name)
	return append(appendNullable(appendString(dst, c.Key), c.Value), 0)
}

func (c *configRecord) decode(r *reader) {
	c.Kind, c.Name, c.Key, c.Value = ResourceKind(r.uint8()), r.string(), r.string(), r.nullable()
	r.noTags()
}

func (c *producerIDsRecord) encode(dst []byte) []byte {
	dst = appendInt64(appendInt32(dst, c.Broker), c.BrokerEpoch)
	return append(appendInt64(dst, c.Next), 0)
}

func (c *producerIDsRecord) decode(r *reader) {
	c.Broker, c.BrokerEpoch, c.Next = r.brokerID(), r.int64(), r.int64()
	r.noTags()
}

func (c *nodeIDRecord) encode(dst []byte) []byte { return append(appendInt32(dst, c.Next), 0) }

func (c *nodeIDRecord) decode(r *reader) {
	c.Next = r.brokerID()
	r.noTags()
}

func (c *imageRecord) encode(dst []byte) []byte {
	return append(appendInt64(appendInt64(dst, c.Index), c.Sequence), 0)
}

func (c *imageRecord) decode(r *reader) {
	c.Index, c.Sequence = uint64(r.int64()), uint64(r.int64())
	r.noTags()
}
