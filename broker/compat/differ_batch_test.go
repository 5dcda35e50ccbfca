package compat

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"strings"

	"github.com/twmb/franz-go/pkg/kbin"
	"github.com/twmb/franz-go/pkg/kgo"
)

// batchSpec is a record batch of format 2 as scenarios write it. Whatever isn't
// said is right; whatever is said is put there, right or wrong.
type batchSpec struct {
	Records [][]*string `json:"records"` // [key, value, header, value, …]
	N       int         `json:"n"`       // this many records of one value more
	Pad     int         `json:"pad"`     // bytes of that value
	Codec   int         `json:"codec"`   // 0 none, 1 gzip, 2 snappy, 3 lz4, 4 zstd
	TS      int64       `json:"ts"`      // base timestamp
	Step    *int64      `json:"step"`    // between records, 1 ms
	PID     *int64      `json:"pid"`
	Epoch   *int16      `json:"epoch"`
	Seq     *int32      `json:"seq"`
	Attrs   int16       `json:"attrs"` // set beside the codec: 8 append time, 16 transactional, 32 control, 64 horizon
	Magic   *int8       `json:"magic"`
	CRC     *int64      `json:"crc"`
	Count   *int32      `json:"count"`
	Last    *int32      `json:"last"`   // last offset delta
	Base    int64       `json:"base"`   // base offset
	Leader  int32       `json:"leader"` // partition leader epoch
	Length  *int32      `json:"length"`
	MaxTS   *int64      `json:"maxts"`
	Deltas  []int64     `json:"deltas"` // offset deltas of the records
	Raw     *string     `json:"raw"`    // instead of records: bytes after the header
	Cut     int         `json:"cut"`    // bytes taken off the end
	Tail    string      `json:"tail"`   // bytes put after the end
}

func buildBatches(list []any) ([]byte, error) {
	all := []byte{}
	for _, doc := range list {
		text, err := json.Marshal(doc)
		if err != nil {
			return nil, err
		}
		var s batchSpec
		d := json.NewDecoder(bytes.NewReader(text))
		d.DisallowUnknownFields()
		if err := d.Decode(&s); err != nil {
			return nil, fmt.Errorf("batch: %w", err)
		}
		b, err := s.build()
		if err != nil {
			return nil, fmt.Errorf("batch: %w", err)
		}
		all = append(all, b...)
	}
	return all, nil
}

func or[T any](p *T, otherwise T) T {
	if p != nil {
		return *p
	}
	return otherwise
}

// castagnoli is the polynomial of a batch's CRC.
var castagnoli = crc32.MakeTable(crc32.Castagnoli)

func (s *batchSpec) build() ([]byte, error) {
	value := strings.Repeat("x", s.Pad)
	for range s.N {
		s.Records = append(s.Records, []*string{nil, &value})
	}
	step := or(s.Step, 1)
	var records []byte
	for i, r := range s.Records {
		delta := int64(i)
		if i < len(s.Deltas) {
			delta = s.Deltas[i]
		}
		records = appendRecord(records, int64(i)*step, delta, r)
	}
	if s.Raw != nil {
		records = []byte(*s.Raw)
	}
	count := int32(len(s.Records))
	if s.Codec > 0 && s.Codec <= 4 {
		c, err := kgo.DefaultCompressor(codecOf(s.Codec))
		if err != nil {
			return nil, err
		}
		compressed, used := c.Compress(new(bytes.Buffer), records)
		if int(used) != s.Codec {
			return nil, errors.New("it did not become smaller")
		}
		records = compressed
	}
	be := binary.BigEndian
	b := be.AppendUint64(nil, uint64(s.Base))
	b = be.AppendUint32(b, uint32(or(s.Length, int32(49+len(records)))))
	b = be.AppendUint32(b, uint32(s.Leader))
	b = append(b, byte(or(s.Magic, 2)))
	b = append(b, 0, 0, 0, 0)
	b = be.AppendUint16(b, uint16(s.Codec)|uint16(s.Attrs))
	b = be.AppendUint32(b, uint32(or(s.Last, count-1)))
	b = be.AppendUint64(b, uint64(s.TS))
	b = be.AppendUint64(b, uint64(or(s.MaxTS, s.TS+step*int64(max(count-1, 0)))))
	b = be.AppendUint64(b, uint64(or(s.PID, -1)))
	b = be.AppendUint16(b, uint16(or(s.Epoch, -1)))
	b = be.AppendUint32(b, uint32(or(s.Seq, -1)))
	b = be.AppendUint32(b, uint32(or(s.Count, count)))
	b = append(b, records...)
	be.PutUint32(b[17:], uint32(or(s.CRC, int64(crc32.Checksum(b[21:], castagnoli)))))
	return append(b[:max(len(b)-s.Cut, 0)], s.Tail...), nil
}

func codecOf(n int) kgo.CompressionCodec {
	return []kgo.CompressionCodec{
		kgo.NoCompression(), kgo.GzipCompression(), kgo.SnappyCompression(), kgo.Lz4Compression(), kgo.ZstdCompression(),
	}[n]
}

// appendRecord appends one record: key, value, then headers in pairs.
func appendRecord(dst []byte, ts, offset int64, fields []*string) []byte {
	for len(fields) < 2 {
		fields = append(fields, nil)
	}
	body := []byte{0} // attributes
	body = kbin.AppendVarlong(body, ts)
	body = kbin.AppendVarint(body, int32(offset))
	for i, f := range fields {
		if i == 2 {
			body = kbin.AppendVarint(body, int32(len(fields)/2-1))
		}
		if f == nil {
			body = kbin.AppendVarint(body, -1)
		} else {
			body = append(kbin.AppendVarint(body, int32(len(*f))), *f...)
		}
	}
	if len(fields) == 2 {
		body = kbin.AppendVarint(body, 0)
	}
	return append(kbin.AppendVarint(dst, int32(len(body))), body...)
}

func be32(b []byte) uint32 { return binary.BigEndian.Uint32(b) }

// crcOf is the CRC a batch should have.
func crcOf(b []byte) uint32 { return crc32.Checksum(b[21:], castagnoli) }
