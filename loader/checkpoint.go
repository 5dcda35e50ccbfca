package loader

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"

	"sawlog/formats"
	"sawlog/loader/sink"
	"sawlog/offsets"
)

// checkpointEvery is how many records lie between two checkpoints.
const checkpointEvery = 100

// checkpointFile is a fold on disk: a cache, never the truth. One that cannot
// be read, or whose last record has another hash, is passed over and the ledger
// folded again.
type checkpointFile struct {
	V          int                   `json:"v"`
	Number     int64                 `json:"number"`
	Hash       string                `json:"hash"` // of record Number
	Dataset    string                `json:"dataset"`
	Job        string                `json:"job"`
	Schema     *formats.Schema       `json:"schema"`
	Partitions []checkpointPartition `json:"partitions"`
	Files      []*Visible            `json:"files"`
	Retired    map[string]Retirement `json:"retired"`
	Hours      []checkpointHour      `json:"hours"`
	Plans      map[string]PlanMark   `json:"plans"`
	Records    []RecordRef           `json:"records"`
	Sum        string                `json:"sum"` // sha256 of the canonical JSON without it
}

type checkpointPartition struct {
	Cluster   string          `json:"cluster"`
	TopicID   offsets.TopicID `json:"topicId"`
	Partition int32           `json:"partition"`
	Topic     string          `json:"topic"`
	Start     offsets.Offset  `json:"start"`
	Covered   offsets.Set     `json:"covered"`
	Watermark int64           `json:"watermark"`
}

type checkpointHour struct {
	Key int64 `json:"key"`
	*Hour
}

// encodeCheckpoint is the file of a fold; equal folds have equal files.
func encodeCheckpoint(f *Fold) ([]byte, error) {
	c := checkpointFile{
		V: 1, Number: f.Head, Hash: f.HeadHash, Dataset: f.Dataset, Job: f.Job, Schema: f.Schema,
		Files: f.All(), Retired: f.Retired, Plans: f.Plans, Records: f.Records,
	}
	for key, p := range f.Partitions {
		c.Partitions = append(c.Partitions, checkpointPartition{
			key.Cluster, key.TopicID, key.Partition, p.Topic, p.Start, p.Covered, p.Watermark,
		})
	}
	slices.SortFunc(c.Partitions, func(a, b checkpointPartition) int {
		return cmp.Or(strings.Compare(a.Cluster, b.Cluster), strings.Compare(a.TopicID.Hex(), b.TopicID.Hex()),
			cmp.Compare(a.Partition, b.Partition))
	})
	for _, key := range slices.Sorted(maps.Keys(f.Hours)) {
		c.Hours = append(c.Hours, checkpointHour{key, f.Hours[key]})
	}
	bare, err := Canonical(&c)
	if err != nil {
		return nil, err
	}
	head := bytes.TrimSuffix(bare, []byte(checkpointEnd("")))
	return fmt.Appendf(head, "%s\n", checkpointEnd(sum(bare))), nil
}

// checkpointEnd is how a checkpoint with some sum ends: of its keys, which are in
// order, these are the last.
func checkpointEnd(sum string) string { return `"sum":"` + sum + `","v":1}` }

// checkSum wants the bytes of a checkpoint to have the sum it says. They are
// hashed as they are: to bring what was read into canonical form again takes three
// times as long as to read it.
func checkSum(data []byte, said string) error {
	head, ok := bytes.CutSuffix(data, []byte(checkpointEnd(said)+"\n"))
	if !ok {
		return errors.New("is of another version, or not in canonical form")
	}
	h := sha256.New()
	_, _ = h.Write(head) // a hash takes everything
	_, _ = h.Write([]byte(checkpointEnd("")))
	if have := hex.EncodeToString(h.Sum(nil)); have != said {
		return fmt.Errorf("sum is %q, its content has %q", said, have)
	}
	return nil
}

// decodeCheckpoint reads what encodeCheckpoint wrote.
func decodeCheckpoint(data []byte) (*Fold, error) {
	var c checkpointFile
	if err := decodeStrict(data, &c); err != nil {
		return nil, err
	}
	if err := checkSum(data, c.Sum); err != nil {
		return nil, err
	}
	f := NewFold()
	f.Head, f.HeadHash, f.Dataset, f.Job, f.Schema = c.Number, c.Hash, c.Dataset, c.Job, c.Schema
	f.Records = c.Records
	maps.Copy(f.Retired, c.Retired)
	maps.Copy(f.Plans, c.Plans)
	for _, p := range c.Partitions {
		f.Partitions[PartitionKey{p.Cluster, p.TopicID, p.Partition}] = &Partition{p.Topic, p.Start, p.Covered, p.Watermark}
	}
	for _, v := range c.Files {
		f.Files[v.Path] = v
	}
	for _, h := range c.Hours {
		f.Hours[h.Key] = h.Hour
	}
	return f, nil
}

// readCheckpoint is the newest fold on disk that can be believed and is not
// past head, or the empty one.
func (l *Ledger) readCheckpoint(head int64) *Fold {
	for _, n := range slices.Backward(l.checkpoints()) {
		if n > head {
			continue
		}
		name := CheckpointPath(n)
		f, err := l.tryCheckpoint(n)
		if err == nil {
			l.checkpoint = n
			return f
		}
		l.c.Logger.Warn("checkpoint passed over, the ledger is read instead", "path", name, "err", err)
	}
	return NewFold()
}

func (l *Ledger) tryCheckpoint(n int64) (*Fold, error) {
	data, err := l.sink.ReadFile(CheckpointPath(n))
	if err != nil {
		return nil, err
	}
	f, err := decodeCheckpoint(data)
	if err != nil {
		return nil, err
	}
	rec, hash, err := readRecord(l.sink, n)
	if err != nil {
		return nil, noSentinel(err)
	}
	if f.Head != n || f.HeadHash != hash {
		return nil, fmt.Errorf("is of record %d with hash %s, record %d has %s", f.Head, f.HeadHash, n, hash)
	}
	l.head = rec
	return f, nil
}

// checkpoints lists the numbers of the checkpoints on disk, ascending.
func (l *Ledger) checkpoints() []int64 {
	entries, err := l.sink.List(CheckpointDir)
	if err != nil {
		if !errors.Is(err, sink.ErrNotExist) {
			l.c.Logger.Warn("checkpoints passed over", "path", CheckpointDir, "err", err)
		}
		return nil
	}
	var numbers []int64
	for _, e := range entries {
		n, err := strconv.ParseInt(strings.TrimSuffix(e.Name, ".json"), 10, 64)
		if err == nil && n >= 0 && path.Join(CheckpointDir, e.Name) == CheckpointPath(n) {
			numbers = append(numbers, n)
		}
	}
	slices.Sort(numbers)
	return numbers
}

// writeCheckpoint writes the fold when it is time to; one that cannot be
// written is no harm.
func (l *Ledger) writeCheckpoint() {
	if l.fold.Head-l.checkpoint < checkpointEvery {
		return
	}
	data, err := encodeCheckpoint(l.fold)
	if err == nil {
		err = l.sink.MkdirAll(CheckpointDir)
	}
	if err == nil {
		err = l.replace(CheckpointPath(l.fold.Head), data)
	}
	if err != nil {
		l.c.Logger.Warn("checkpoint not written", "path", CheckpointPath(l.fold.Head), "err", err)
		return
	}
	l.checkpoint = l.fold.Head
}
