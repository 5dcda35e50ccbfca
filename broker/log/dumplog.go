package log

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"log/slog"

	"sawlog/broker/record"
	"sawlog/broker/vfs"
	"sawlog/offsets"
)

// logDump prints the batches of one file.
type logDump struct {
	name string
	o    DumpOptions
	fn   func([]slog.Attr) error
	scan *scanner
	it   record.Iterator
	bad  error // the first damage
}

func dumpLog(fs vfs.FS, name string, o DumpOptions, fn func([]slog.Attr) error) error {
	f, size, err := openDump(fs, name)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }() // only read from
	d := &logDump{name: name, o: o, fn: fn, scan: newScanner(f, size, recoveryChunk)}
	defer d.scan.done()
	next := offsets.Offset(0)
	for pos := int64(0); ; {
		head, err := d.scan.header(pos)
		if errors.Is(err, io.EOF) {
			return d.bad
		}
		if err == nil && head.LastOffset() < o.From {
			pos += int64(head.Size())
			next = head.LastOffset() + 1
			continue
		}
		var b record.Batch
		if err == nil {
			b, err = d.scan.batch(pos)
		}
		if errors.Is(err, record.ErrCorrupt) {
			pos, err = d.damage(pos, size, next, err)
			if err != nil {
				return err
			}
			continue
		}
		if err != nil {
			return err
		}
		next = b.LastOffset() + 1
		pos += int64(len(b))
		if err := d.batch(pos-int64(len(b)), b); err != nil {
			return err
		}
	}
}

// note keeps the first damage.
func (d *logDump) note(pos int64, err error) {
	if d.bad == nil {
		d.bad = &CorruptError{Path: d.name, Pos: pos, Err: err}
	}
}

// damage prints what no batch is made of and returns where the next one begins.
func (d *logDump) damage(pos, size int64, next offsets.Offset, why error) (int64, error) {
	d.note(pos, why)
	at, ok, err := d.scan.resync(pos, next)
	if err != nil {
		return 0, err
	}
	if !ok {
		at = size
	}
	return at, d.fn([]slog.Attr{slog.Int64("pos", pos), slog.Bool("damaged", true), slog.Int64("bytes", at-pos), slog.String("error", why.Error())})
}

// batch prints one batch and, when asked for, its records.
func (d *logDump) batch(pos int64, b record.Batch) error {
	wrong := b.CheckCRC()
	if wrong != nil {
		d.note(pos, wrong)
	}
	if err := d.fn(batchLine(pos, b, wrong == nil)); err != nil || !d.o.Records && d.o.Decode == nil {
		return err
	}
	if err := d.it.Reset(b); err == nil {
		for d.it.Next() {
			r := d.it.Record()
			if r.Offset < d.o.From {
				continue
			}
			if err := d.fn(d.record(pos, b, r)); err != nil {
				return err
			}
		}
	}
	if err := d.it.Err(); err != nil {
		d.note(pos, err)
		return d.fn([]slog.Attr{slog.Int64("pos", pos), slog.Bool("unreadable", true), slog.String("error", err.Error())})
	}
	return nil
}

// batchLine is the line of one batch.
func batchLine(pos int64, b record.Batch, sound bool) []slog.Attr {
	line := []slog.Attr{
		slog.Int64("pos", pos), slog.Int("size", len(b)),
		slog.Int64("baseOffset", int64(b.BaseOffset())), slog.Int64("lastOffset", int64(b.LastOffset())), slog.Int64("count", int64(b.Count())),
		slog.Int64("epoch", int64(b.Epoch())), slog.String("codec", b.Codec().String()),
		slog.Int64("baseTimestamp", b.BaseTimestamp()), slog.Int64("maxTimestamp", b.MaxTimestamp()),
	}
	if b.ProducerID() >= 0 {
		line = append(line, slog.Int64("producerId", b.ProducerID()), slog.Int64("producerEpoch", int64(b.ProducerEpoch())),
			slog.Int64("baseSequence", int64(b.BaseSequence())), slog.Int64("lastSequence", int64(b.LastSequence())))
	}
	line = append(line, slog.Bool("logAppendTime", b.LogAppendTime()), slog.Bool("deleteHorizon", b.HasDeleteHorizon()),
		slog.Bool("transactional", b.IsTransactional()))
	if b.IsControl() {
		line = append(line, slog.String("control", marker(b)))
	}
	return append(line, slog.String("crc", fmt.Sprintf("%08x", b.CRC())), slog.Bool("ok", sound), slog.Bool("WRONG", !sound))
}

// marker says what a control batch decides.
func marker(b record.Batch) string {
	var it record.Iterator
	if err := it.Reset(b); err != nil || !it.Next() {
		return "unreadable"
	}
	switch commit, err := record.ParseControl(it.Record().Key); {
	case err != nil:
		return "unknown"
	case commit:
		return "commit"
	}
	return "abort"
}

// record is the line of one record.
func (d *logDump) record(pos int64, b record.Batch, r *record.Record) []slog.Attr {
	line := []slog.Attr{slog.Int64("offset", int64(r.Offset)), slog.Int64("timestamp", r.Timestamp)}
	if b.IsControl() {
		line = append(line, slog.String("control", marker(b)))
		if len(r.Value) >= 6 {
			line = append(line, slog.Int64("coordinatorEpoch", int64(int32(binary.BigEndian.Uint32(r.Value[2:])))))
		}
		return line
	}
	if d.o.Decode != nil {
		meaning, err := d.o.Decode(r)
		if err == nil {
			return append(line, meaning...)
		}
		d.note(pos, fmt.Errorf("record %d: %w", r.Offset, err))
		line = append(line, slog.String("undecodable", err.Error()))
	}
	line = append(line, slog.Any("key", r.Key), slog.Any("value", r.Value))
	if len(r.Headers) > 0 {
		headers := make([]any, 0, 2*len(r.Headers))
		for _, h := range r.Headers {
			headers = append(headers, h.Key, h.Value)
		}
		line = append(line, slog.Any("headers", headers))
	}
	return line
}
