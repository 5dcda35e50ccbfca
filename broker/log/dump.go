package log

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"strings"

	"sawlog/broker/record"
	"sawlog/broker/vfs"
	"sawlog/offsets"
)

// Dump prints any file of a data directory, a line an entry, to fn: batches of
// a .log (or of what recovery cut off), entries of both indexes and of producer
// snapshots, the epoch journal, checkpoint, and the small text files as they
// are. Damage is printed where it is found, and the rest of the file after it;
// Dump then returns it as a *CorruptError.
func Dump(fs vfs.FS, name string, fn func(line string) error) error {
	base := strings.TrimSuffix(path.Base(name), stagedSuffix)
	switch {
	case strings.HasSuffix(base, logSuffix), strings.HasSuffix(base, cutSuffix), strings.HasSuffix(base, swapSuffix):
		return dumpLog(fs, name, fn)
	}
	b, err := vfs.ReadFile(fs, name)
	if err != nil {
		return err
	}
	switch {
	case strings.HasSuffix(base, indexSuffix):
		return dumpIndex(name, b, &index{}, "offset=%d pos=%d", fn)
	case strings.HasSuffix(base, timeSuffix):
		return dumpIndex(name, b, &index{time: true}, "timestamp=%d offset=%d", fn)
	case strings.HasSuffix(base, snapshotSuffix):
		return dumpSnapshot(name, b, fn)
	case base == epochsName:
		return dumpJournal(name, b, fn)
	case base == checkpointName:
		if _, _, err := decodePoints(b); err != nil {
			return errors.Join(dumpText(b, fn), &CorruptError{Path: name, Err: err})
		}
		return dumpText(b, fn)
	case base == cleanedName:
		if _, err := decodeCleanPoints(b); err != nil {
			return errors.Join(dumpText(b, fn), &CorruptError{Path: name, Err: err})
		}
		return dumpText(b, fn)
	case base == partitionName, base == metaName, base == runningName, base == lockName:
		return dumpText(b, fn)
	}
	return fmt.Errorf("%s: not a file of a data directory", name)
}

func dumpText(b []byte, fn func(string) error) error {
	for line := range strings.Lines(string(b)) {
		if err := fn(strings.TrimSuffix(line, "\n")); err != nil {
			return err
		}
	}
	return nil
}

func dumpLog(fs vfs.FS, name string, fn func(string) error) error {
	f, err := fs.OpenFile(name, os.O_RDONLY, 0)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }() // only read from
	st, err := f.Stat()
	if err != nil {
		return err
	}
	scan := newScanner(f, st.Size(), recoveryChunk)
	defer scan.done()
	var bad error
	next := offsets.Offset(0)
	for pos := int64(0); ; {
		b, err := scan.batch(pos)
		if errors.Is(err, io.EOF) {
			return bad
		}
		if err != nil && !errors.Is(err, record.ErrCorrupt) {
			return err
		}
		if err != nil {
			if bad == nil {
				bad = &CorruptError{Path: name, Pos: pos, Err: err}
			}
			at, ok, rerr := scan.resync(pos, next)
			if rerr != nil {
				return rerr
			}
			if !ok {
				at = st.Size()
			}
			if err := fn(fmt.Sprintf("pos=%d damaged bytes=%d: %v", pos, at-pos, err)); err != nil {
				return err
			}
			pos = at
			continue
		}
		crc := b.CheckCRC()
		if crc != nil && bad == nil {
			bad = &CorruptError{Path: name, Pos: pos, Err: crc}
		}
		if err := fn(dumpBatch(pos, b, crc == nil)); err != nil {
			return err
		}
		next = b.LastOffset() + 1
		pos += int64(len(b))
	}
}

// dumpBatch is the line of one batch.
func dumpBatch(pos int64, b record.Batch, crcOK bool) string {
	var w strings.Builder
	fmt.Fprintf(&w, "pos=%d size=%d baseOffset=%d lastOffset=%d count=%d epoch=%d codec=%s baseTimestamp=%d maxTimestamp=%d",
		pos, len(b), b.BaseOffset(), b.LastOffset(), b.Count(), b.Epoch(), b.Codec(), b.BaseTimestamp(), b.MaxTimestamp())
	if b.ProducerID() >= 0 {
		fmt.Fprintf(&w, " producerId=%d producerEpoch=%d baseSequence=%d lastSequence=%d",
			b.ProducerID(), b.ProducerEpoch(), b.BaseSequence(), b.LastSequence())
	}
	if b.HasDeleteHorizon() {
		w.WriteString(" deleteHorizon") // it is the base timestamp
	}
	if b.LogAppendTime() {
		w.WriteString(" logAppendTime")
	}
	if b.IsTransactional() {
		w.WriteString(" transactional")
	}
	if b.IsControl() {
		w.WriteString(" control" + dumpMarker(b))
	}
	if crcOK {
		fmt.Fprintf(&w, " crc=%08x ok", b.CRC())
	} else {
		fmt.Fprintf(&w, " crc=%08x WRONG", b.CRC())
	}
	return w.String()
}

func dumpMarker(b record.Batch) string {
	var it record.Iterator
	if err := it.Reset(b); err != nil || !it.Next() {
		return ""
	}
	commit, err := record.ParseControl(it.Record().Key)
	switch {
	case err != nil:
		return ""
	case commit:
		return "=commit"
	}
	return "=abort"
}

func dumpIndex(name string, b []byte, x *index, format string, fn func(string) error) error {
	w := x.width()
	base, _ := parseOffsetName(path.Base(name), x.suffix())
	for i := 0; i+w <= len(b); i += w {
		e := x.decode(b[i : i+w])
		if x.time {
			e.value += int64(base)
		} else {
			e.key += int64(base)
		}
		if err := fn(fmt.Sprintf(format, e.key, e.value)); err != nil {
			return err
		}
	}
	if rest := len(b) % w; rest != 0 {
		return &CorruptError{Path: name, Pos: int64(len(b) - rest), Err: fmt.Errorf("%d bytes after the last entry", rest)}
	}
	return nil
}

func dumpSnapshot(name string, b []byte, fn func(string) error) error {
	var ferr error
	_, err := walkSnapshot(b, func(id int64, epoch int16, coordinatorEpoch int32, k produced, txnFirst offsets.Offset) {
		if ferr == nil {
			ferr = fn(fmt.Sprintf("producerId=%d producerEpoch=%d lastSequence=%d lastOffset=%d offsetDelta=%d timestamp=%d coordinatorEpoch=%d currentTxnFirstOffset=%d",
				id, epoch, k.lastSeq, k.last, k.delta, k.time, coordinatorEpoch, txnFirst))
		}
	})
	if err != nil {
		return &CorruptError{Path: name, Err: err}
	}
	return ferr
}

func dumpJournal(name string, b []byte, fn func(string) error) error {
	var ferr error
	kinds := map[byte]string{journalAssign: "assign", journalEnd: "end", journalStart: "start"}
	damaged, _, err := parseJournal(b, func(e journalEntry, _ journalMark) {
		line := fmt.Sprintf("%s topicId=%s partition=%d offset=%d", kinds[e.kind], e.key.topic, e.key.partition, e.offset)
		if e.kind == journalAssign {
			line += fmt.Sprintf(" epoch=%d", e.epoch)
		}
		if ferr == nil {
			ferr = fn(line)
		}
	})
	if err == nil && damaged > 0 {
		err = fmt.Errorf("%d damaged records", damaged)
	}
	if err != nil {
		return errors.Join(ferr, &CorruptError{Path: name, Err: err})
	}
	return ferr
}
