package log

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path"
	"strings"

	"sawlog/broker/record"
	"sawlog/broker/vfs"
	"sawlog/offsets"
)

// DumpOptions say how much of a file is printed.
type DumpOptions struct {
	// Records prints the records of each batch below it.
	Records bool
	// From leaves out the batches and records below an offset.
	From offsets.Offset
	// Decode adds what a record means; it prints records. Nil adds nothing.
	Decode func(r *record.Record) ([]slog.Attr, error)
}

// dumped is the name of the file as it was, or will be, in use.
func dumped(name string) string {
	base := strings.TrimSuffix(path.Base(name), stagedSuffix)
	if from, _, ok := parseSwapName(base); ok {
		return offsetName(from, logSuffix)
	}
	return base
}

// Dump prints any file of a data directory, a line an entry, to fn: batches of
// a .log (also of one that compaction makes, or recovery cut off), entries of
// indexes and of producer snapshots, the epoch journal, checkpoints, and the
// small text files as they are. Damage is printed where it is found, and the
// rest of the file after it; Dump then returns it as a *CorruptError.
//
// A line is names with values, in order. A name without a value, true, is a
// remark; a value without a name is a line of text.
func Dump(fs vfs.FS, name string, o DumpOptions, fn func(line []slog.Attr) error) error {
	base := dumped(name)
	switch {
	case strings.HasSuffix(base, logSuffix), strings.HasSuffix(base, cutSuffix):
		return dumpLog(fs, name, o, fn)
	case base == ballastName:
		st, err := fs.Stat(name)
		if err != nil {
			return err
		}
		return fn([]slog.Attr{slog.Int64("size", st.Size()), slog.Bool("reserved", true)})
	}
	b, err := vfs.ReadFile(fs, name)
	if err != nil {
		return err
	}
	var damage error
	switch {
	case strings.HasSuffix(base, txnSuffix):
		return dumpTxnIndex(name, b, fn)
	case strings.HasSuffix(base, timeSuffix):
		return dumpIndex(name, b, &index{time: true}, [2]string{"timestamp", "offset"}, fn)
	case strings.HasSuffix(base, indexSuffix):
		return dumpIndex(name, b, &index{}, [2]string{"offset", "pos"}, fn)
	case strings.HasSuffix(base, snapshotSuffix):
		return dumpSnapshot(name, b, fn)
	case base == epochsName:
		return dumpJournal(name, b, fn)
	case base == checkpointName:
		_, _, damage = decodePoints(b)
	case base == cleanedName:
		_, damage = decodeCleanPoints(b)
	case base == partitionName:
		_, _, damage = decodePartition(b)
	case base == metaName:
		_, damage = decodeMeta(b)
	case base == runningName:
		_, damage = decodeProperties(b)
	case base == lockName:
	default:
		return fmt.Errorf("%s: %w", name, ErrNotOurs)
	}
	if err := dumpText(b, fn); err != nil || damage == nil {
		return err
	}
	return &CorruptError{Path: name, Err: damage}
}

// ErrNotOurs tells that a file is none of those a data directory has.
var ErrNotOurs = errors.New("not a file of a data directory")

func dumpText(b []byte, fn func([]slog.Attr) error) error {
	for line := range strings.Lines(string(b)) {
		if err := fn([]slog.Attr{slog.String("", strings.TrimSuffix(line, "\n"))}); err != nil {
			return err
		}
	}
	return nil
}

func dumpIndex(name string, b []byte, x *index, names [2]string, fn func([]slog.Attr) error) error {
	w := x.width()
	base, _ := parseOffsetName(dumped(name), x.suffix())
	var bad error
	last := entry{-1 << 63, -1}
	for i := 0; i+w <= len(b); i += w {
		e := x.decode(b[i : i+w])
		disorder := e.key <= last.key || e.value < last.value
		if last = e; disorder && bad == nil {
			bad = &CorruptError{Path: name, Pos: int64(i), Err: errors.New("entry out of order")}
		}
		if x.time {
			e.value += int64(base)
		} else {
			e.key += int64(base)
		}
		err := fn([]slog.Attr{slog.Int64(names[0], e.key), slog.Int64(names[1], e.value), slog.Bool("DISORDER", disorder)})
		if err != nil {
			return err
		}
	}
	if rest := len(b) % w; rest != 0 {
		bad = errors.Join(bad, &CorruptError{Path: name, Pos: int64(len(b) - rest), Err: fmt.Errorf("%d bytes after the last entry", rest)})
	}
	return bad
}

func dumpSnapshot(name string, b []byte, fn func([]slog.Attr) error) error {
	ps, err := decodeSnapshot(b, 1<<62)
	if err != nil {
		return &CorruptError{Path: name, Err: err}
	}
	var ferr error
	_, err = walkSnapshot(b, func(id int64, epoch int16, coordinatorEpoch int32, k produced, txnFirst offsets.Offset) {
		line := []slog.Attr{
			slog.Int64("producerId", id), slog.Int64("producerEpoch", int64(epoch)), slog.Int64("lastSequence", int64(k.lastSeq)),
			slog.Int64("lastOffset", int64(k.last)), slog.Int64("offsetDelta", int64(k.delta)), slog.Int64("timestamp", k.time),
			slog.Int64("coordinatorEpoch", int64(coordinatorEpoch)), slog.Int64("currentTxnFirstOffset", int64(txnFirst)),
		}
		if seen := ps.byID[id].seen; seen < 1<<62 {
			line = append(line, slog.Int64("seen", seen))
		}
		if ferr == nil {
			ferr = fn(line)
		}
	})
	return errors.Join(ferr, err)
}

func dumpJournal(name string, b []byte, fn func([]slog.Attr) error) error {
	var ferr error
	kinds := map[byte]string{journalAssign: "assign", journalEnd: "end", journalStart: "start"}
	damaged, _, err := parseJournal(b, func(e journalEntry, _ journalMark) {
		line := []slog.Attr{
			slog.String("kind", kinds[e.kind]), slog.String("topicId", e.key.topic.String()),
			slog.Int64("partition", int64(e.key.partition)), slog.Int64("offset", int64(e.offset)),
		}
		if e.kind == journalAssign {
			line = append(line, slog.Int64("epoch", int64(e.epoch)))
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

// openDump opens a file to be read from front to back.
func openDump(fs vfs.FS, name string) (vfs.File, int64, error) {
	f, err := fs.OpenFile(name, os.O_RDONLY, 0)
	if err != nil {
		return nil, 0, err
	}
	st, err := f.Stat()
	if err != nil {
		return nil, 0, errors.Join(err, f.Close())
	}
	return f, st.Size(), nil
}
