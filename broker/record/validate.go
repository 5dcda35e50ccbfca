package record

import (
	"errors"
	"fmt"
	"sync"
)

// Rules are what a batch must keep to be taken from a client.
type Rules struct {
	// MaxDecompressed caps the decompressed size in bytes; 0 is
	// DefaultMaxDecompressed.
	MaxDecompressed int
	// NeedKeys refuses null keys: the topic is compacted.
	NeedKeys bool
	// AllowControl takes control batches: they come from a coordinator.
	AllowControl bool
	// LogAppendTime leaves timestamps as they are: the log will set its own.
	LogAppendTime bool
	// Now is the broker's time in milliseconds. Records more than BeforeMax ms
	// older or AfterMax ms younger are refused; 0 is no bound, less than 0 lets
	// none be older or younger at all. Records without a time are not judged.
	Now, BeforeMax, AfterMax int64
}

// Facts are what Validate learned on its way.
type Facts struct {
	Count int32
	Codec Codec
	// MaxTimestamp is the greatest timestamp of the records.
	MaxTimestamp int64
	// Corrected tells that the batch claimed another greatest timestamp, or the
	// broker's time, and was changed in place, CRC included.
	Corrected bool
}

// bodies holds decompression buffers between batches.
var bodies = sync.Pool{New: func() any { return new([]byte) }}

// Validate checks one whole batch as a client sent it: length, CRC, header
// fields, then every record inside. A wrong greatest timestamp is corrected in
// place; base offset and leader epoch are not looked at, as the log stamps
// both. Errors wrap ErrCorrupt (bytes damaged), ErrInvalid (a rule broken),
// ErrMagic, ErrUnsupportedCodec, ErrTimestamp or ErrTooLarge.
func Validate(b Batch, v Rules) (Facts, error) {
	facts, err := checkHeader(b, v)
	if err != nil {
		return facts, err
	}
	body := []byte(b[HeaderSize:])
	if facts.Codec != None {
		limit := v.MaxDecompressed
		if limit == 0 {
			limit = DefaultMaxDecompressed
		}
		buf := bodies.Get().(*[]byte)
		defer func() {
			if cap(*buf) <= keepBuffer {
				bodies.Put(buf)
			}
		}()
		if *buf, err = facts.Codec.Decompress((*buf)[:0], body, limit); err != nil {
			return facts, err
		}
		body = *buf
	}
	if err := checkRecords(b, body, v, &facts); err != nil {
		return facts, err
	}
	if !v.LogAppendTime && (b.LogAppendTime() || b.MaxTimestamp() != facts.MaxTimestamp) {
		b.SetMaxTimestamp(facts.MaxTimestamp, false)
		facts.Corrected = true
	}
	return facts, nil
}

func checkHeader(b Batch, v Rules) (Facts, error) {
	size, err := PeekSize(b)
	switch {
	case err != nil && !errors.Is(err, ErrMagic) && !errors.Is(err, ErrCorrupt):
		return Facts{}, fmt.Errorf("%w: batch of %d bytes", ErrCorrupt, len(b))
	case err != nil:
		return Facts{}, err
	case size != len(b):
		return Facts{}, fmt.Errorf("%w: length field says %d bytes, there are %d", ErrCorrupt, size, len(b))
	}
	if err := b.CheckCRC(); err != nil {
		return Facts{}, err
	}
	facts := Facts{Count: b.Count(), Codec: b.Codec(), MaxTimestamp: NoTimestamp}
	switch {
	case !facts.Codec.known():
		return facts, fmt.Errorf("%w: %s", ErrUnsupportedCodec, facts.Codec)
	case facts.Count <= 0:
		return facts, fmt.Errorf("%w: %d records", ErrInvalid, facts.Count)
	case b.LastOffsetDelta() != facts.Count-1:
		return facts, fmt.Errorf("%w: last offset delta %d of %d records", ErrInvalid, b.LastOffsetDelta(), facts.Count)
	case b.IsControl() && !v.AllowControl:
		return facts, fmt.Errorf("%w: control batch from a client", ErrInvalid)
	case b.HasDeleteHorizon():
		return facts, fmt.Errorf("%w: delete horizon from a client", ErrInvalid)
	case b.ProducerID() >= 0 && b.BaseSequence() < 0 && !b.IsControl():
		return facts, fmt.Errorf("%w: producer %d without sequence", ErrInvalid, b.ProducerID())
	case b.IsTransactional() && b.ProducerID() < 0:
		return facts, fmt.Errorf("%w: transactional without producer id", ErrInvalid)
	}
	return facts, nil
}

func checkRecords(b Batch, body []byte, v Rules, facts *Facts) error {
	var f frame
	base := b.BaseTimestamp()
	latest, earliest := int64(NoTimestamp), int64(1)<<62
	pos := 0
	for i := range int(facts.Count) {
		if !f.quick(body, pos) {
			if err := f.next(body, pos); err != nil {
				return at(ErrInvalid, b, i, err)
			}
		}
		pos = f.end
		if f.offsetDelta != i {
			return at(ErrInvalid, b, i, errDelta)
		}
		if v.NeedKeys && f.keyLen < 0 {
			return at(ErrInvalid, b, i, errors.New("null key in a compacted topic"))
		}
		t := base + f.timestampDelta
		latest = max(latest, t)
		if t != NoTimestamp {
			earliest = min(earliest, t)
		}
	}
	if pos != len(body) {
		return at(ErrInvalid, b, int(facts.Count), errTrailing)
	}
	facts.MaxTimestamp = latest
	if v.LogAppendTime {
		return nil
	}
	if v.AfterMax != 0 && latest-max(v.AfterMax, 0) > v.Now {
		return fmt.Errorf("%w: %d is %d ms ahead of the broker", ErrTimestamp, latest, latest-v.Now)
	}
	if v.BeforeMax != 0 && earliest <= latest && earliest < v.Now-max(v.BeforeMax, 0) {
		return fmt.Errorf("%w: %d is %d ms behind the broker", ErrTimestamp, earliest, v.Now-earliest)
	}
	return nil
}
