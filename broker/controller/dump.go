package controller

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"log/slog"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/hashicorp/raft"

	batches "sawlog/broker/record"
	"sawlog/broker/vfs"
)

// ErrDamaged marks bytes that are not what this build writes.
var ErrDamaged = errFormat

// DumpsLog tells whether a path is that of a segment of the Raft log, whose
// records DumpRecord reads.
func DumpsLog(name string) bool {
	return path.Base(path.Dir(name)) == fmt.Sprintf("%s-%d", raftPartition.Topic, raftPartition.Partition) &&
		strings.HasSuffix(path.Dir(path.Dir(name)), path.Join(controllerDir, logDir))
}

// DumpRecord says what a record of the Raft log is: a list of names and values,
// the metadata records of a command among them.
func DumpRecord(r *batches.Record) ([]slog.Attr, error) {
	l, err := decodeRaftRecord(r)
	if err != nil {
		return nil, err
	}
	line := []slog.Attr{slog.Uint64("index", l.Index), slog.Uint64("term", l.Term), slog.String("type", strings.TrimPrefix(l.Type.String(), "Log"))}
	switch l.Type {
	case raft.LogCommand:
		e, records, err := decodeEntry(l.Data)
		if err != nil {
			return nil, err
		}
		return append(line, slog.Uint64("decidedIn", e.Term), slog.Uint64("sequence", e.Sequence), slog.Any("records", nameRecords(records))), nil
	case raft.LogConfiguration:
		return append(line, slog.Any("quorum", raft.DecodeConfiguration(l.Data).Servers)), nil
	}
	return line, nil
}

// namedRecord is a metadata record with its name.
type namedRecord struct {
	Type   string
	Record record
}

func nameRecords(records []record) []namedRecord {
	out := make([]namedRecord, len(records))
	for i, r := range records {
		name := strings.TrimSuffix(fmt.Sprintf("%T", r), "Record")
		out[i] = namedRecord{name[strings.LastIndexByte(name, '.')+1:], r}
	}
	return out
}

// DumpsFile tells whether a path is that of the stable store or of a snapshot,
// which DumpFile reads.
func DumpsFile(name string) bool {
	dir, base := path.Split(name)
	dir = path.Base(dir)
	return base == stableFile && dir == controllerDir || dir == snapshotsDir && strings.HasSuffix(base, snapshotSuffix)
}

// DumpFile prints the stable store or a snapshot, a line a value or a record.
func DumpFile(filesystem vfs.FS, name string, fn func(line []slog.Attr) error) error {
	src, err := vfs.ReadFile(filesystem, name)
	if err != nil {
		return err
	}
	if path.Base(name) == stableFile {
		err = dumpStable(src, fn)
	} else {
		err = dumpSnapshot(src, fn)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return nil
}

func dumpStable(src []byte, fn func([]slog.Attr) error) error {
	values, err := decodeStable(src)
	if err != nil {
		return err
	}
	for _, key := range slices.Sorted(maps.Keys(values)) {
		value := slog.Any(key, values[key])
		if len(values[key]) == 8 && !bytes.ContainsAny(values[key], ".-") { // the others are addresses
			value = slog.Uint64(key, binary.BigEndian.Uint64(values[key]))
		}
		if err := fn([]slog.Attr{value}); err != nil {
			return err
		}
	}
	return nil
}

func dumpSnapshot(src []byte, fn func([]slog.Attr) error) error {
	meta, body, err := decodeSnapshot(src)
	if err != nil {
		return err
	}
	err = fn([]slog.Attr{
		slog.Uint64("index", meta.Index), slog.Uint64("term", meta.Term),
		slog.Uint64("configurationIndex", meta.ConfigurationIndex), slog.Any("quorum", meta.Configuration.Servers),
	})
	if err != nil {
		return err
	}
	im, err := decodeImage(body)
	if err != nil {
		return err
	}
	for _, d := range nameRecords(imageRecords(im)) {
		if err := fn([]slog.Attr{slog.String("type", d.Type), slog.Any("record", d.Record)}); err != nil {
			return err
		}
	}
	return nil
}

// MarshalText writes the id as Kafka prints ids.
func (u UUID) MarshalText() ([]byte, error) {
	return []byte(base64.RawURLEncoding.EncodeToString(u[:])), nil
}
