package controller

import (
	"crypto/sha256"
	"fmt"
	"maps"
	"slices"

	"sawlog/offsets"
)

// Limits of one entry of the Raft log (guard G3).
const (
	maxEntryRecords = 10_000
	maxEntryBytes   = 256 << 10
)

// hashEvery: the entry whose sequence is a multiple of it carries the hash of
// the state it builds on (guard G7).
const hashEvery = 1024

func hashed(sequence uint64) bool { return sequence%hashEvery == 0 }

// entryFormat is the first byte of an entry and of a snapshot's body.
const entryFormat = 1

// entry is the data of one Raft command: records decided together, on the
// image of Sequence-1, by the leader of Term. It takes effect only when it was
// appended in that term and follows that image; otherwise it is dropped, on
// every node alike. So no record is ever applied to a state other than the one
// it was decided on, whatever happened between decision and append.
type entry struct {
	Term     uint64
	Sequence uint64
	Before   *[sha256.Size]byte // hash of the image before; nil = not checked
	records  [][]byte           // encoded
	size     int                // sum of what the records take
}

// entryOverhead bounds the bytes of an entry around its records.
const entryOverhead = 96

func (e *entry) fits(records, bytes int) bool {
	return len(e.records)+records <= maxEntryRecords && e.size+bytes+entryOverhead <= maxEntryBytes
}

// recordSize is what an encoded record takes in an entry, length included.
func recordSize(encoded []byte) int { return len(encoded) + 5 }

func (e *entry) add(encoded []byte) {
	e.records = append(e.records, encoded)
	e.size += recordSize(encoded)
}

func (e *entry) encode() []byte {
	dst := make([]byte, 0, e.size+entryOverhead)
	dst = append(dst, entryFormat)
	dst = appendInt64(appendInt64(dst, e.Term), e.Sequence)
	dst = appendUvarint(dst, uint64(len(e.records))+1)
	for _, rec := range e.records {
		dst = append(appendUvarint(dst, uint64(len(rec))), rec...)
	}
	if e.Before == nil {
		return append(dst, 0)
	}
	return appendTag(append(dst, 1), 0, e.Before[:])
}

// decodeEntry reads an entry and all its records.
func decodeEntry(src []byte) (entry, []record, error) {
	var e entry
	r := &reader{src: src}
	if format := r.uint8(); r.err == nil && format != entryFormat {
		return e, nil, fmt.Errorf("%w: entry format %d is not known to this build", errFormat, format)
	}
	e.Term, e.Sequence = uint64(r.int64()), uint64(r.int64())
	records := readRecords(r, r.arrayLen(4))
	r.tags(func(tag uint64, r *reader) bool {
		if tag == 0 {
			e.Before = new([sha256.Size]byte)
			copy(e.Before[:], r.bytes(sha256.Size))
		}
		return tag == 0
	})
	return e, records, r.done()
}

func readRecords(r *reader, n int) []record {
	records := make([]record, 0, n)
	for i := 0; i < n && r.err == nil; i++ {
		src := r.bytes(r.uvarint())
		if r.err != nil {
			break
		}
		rec, err := decodeRecord(src)
		if err != nil {
			r.err = fmt.Errorf("record %d: %w", i, err)
			break
		}
		records = append(records, rec)
	}
	return records
}

// encodeImage writes the whole image as records in one fixed order: equal
// images have equal bytes.
func encodeImage(im *Image) []byte {
	records := imageRecords(im)
	dst := make([]byte, 0, 64*len(records)+64)
	dst = append(dst, entryFormat)
	dst = appendUvarint(dst, uint64(len(records))+1)
	var scratch []byte
	for _, rec := range records {
		scratch = appendRecord(scratch[:0], rec)
		dst = append(appendUvarint(dst, uint64(len(scratch))), scratch...)
	}
	return dst
}

func imageRecords(im *Image) []record {
	records := make([]record, 0, 8+len(im.Brokers)+2*im.byName.len()+im.partitions)
	records = append(records, &imageRecord{im.Index, im.Sequence})
	if im.ClusterID != "" {
		records = append(records, &clusterRecord{im.ClusterID})
	}
	if im.FormatLevel != 0 {
		records = append(records, &formatRecord{im.FormatLevel})
	}
	records = append(records,
		&producerIDsRecord{Broker: offsets.NoBroker, Next: im.nextProducerID},
		&nodeIDRecord{im.nextNodeID})
	for _, b := range im.Brokers {
		records = append(records, &brokerRecord{b})
	}
	records = appendConfigs(records, Resource{BrokerResource, ""}, im.BrokerConfig)
	for _, id := range slices.Sorted(maps.Keys(im.brokerConfigs)) {
		records = appendConfigs(records, brokerResource(id), im.brokerConfigs[id])
	}
	for _, t := range im.byName.all() {
		records = append(records, &topicRecord{t.Name, t.ID, t.Internal})
		records = appendConfigs(records, Resource{TopicResource, t.Name}, t.Configs)
		for _, p := range t.Partitions {
			records = append(records, &partitionRecord{t.ID, p})
		}
	}
	return records
}

func appendConfigs(records []record, r Resource, configs map[string]string) []record {
	for _, key := range slices.Sorted(maps.Keys(configs)) {
		value := configs[key]
		records = append(records, &configRecord{r, key, &value})
	}
	return records
}

// decodeImage reads what encodeImage wrote.
func decodeImage(src []byte) (*Image, error) {
	r := &reader{src: src}
	if format := r.uint8(); r.err == nil && format != entryFormat {
		return nil, fmt.Errorf("%w: snapshot format %d is not known to this build", errFormat, format)
	}
	records := readRecords(r, r.arrayLen(4))
	if err := r.done(); err != nil {
		return nil, err
	}
	if len(records) == 0 || records[0].kind() != imageType {
		return nil, fmt.Errorf("%w: snapshot does not begin with its position", errFormat)
	}
	f := &fold{im: emptyImage(), loading: true}
	for i, rec := range records {
		if err := rec.fold(f); err != nil {
			return nil, fmt.Errorf("record %d: %w", i, err)
		}
	}
	return f.im, nil
}

// decodeImage reads what encodeImage wrote, of a level that is known.
func (l Levels) decodeImage(src []byte) (*Image, error) {
	im, err := decodeImage(src)
	if err == nil {
		err = l.check(im.FormatLevel)
	}
	return im, err
}

// Hash is equal on two nodes exactly when their images are.
func (im *Image) Hash() [sha256.Size]byte { return sha256.Sum256(encodeImage(im)) }
