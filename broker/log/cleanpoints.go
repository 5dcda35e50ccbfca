package log

import (
	"bytes"
	"errors"
	"fmt"
	"hash/crc32"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"
	"sync"

	"sawlog/broker/vfs"
	"sawlog/offsets"
)

// cleanedName is the file of cleanPoints in the data directory.
const cleanedName = "cleaned"

// cleanedHead is the first line of the file.
const cleanedHead = "cleaned 1"

var errCleaned = errors.New("compaction points are damaged")

// cleanPoints remembers how far each log is compacted: below its point no two
// records of a log have one key. What is forgotten is compacted again; a point
// must never be above what is true.
type cleanPoints struct {
	fs   vfs.FS
	path string

	mu     sync.Mutex
	points map[logKey]offsets.Offset
}

// readCleanPoints reads the file; damaged tells that all will be compacted
// again.
func readCleanPoints(fs vfs.FS, dir string) (_ *cleanPoints, damaged, err error) {
	c := &cleanPoints{fs: fs, path: path.Join(dir, cleanedName), points: map[logKey]offsets.Offset{}}
	b, err := vfs.ReadFile(fs, c.path)
	if errors.Is(err, os.ErrNotExist) {
		return c, nil, nil
	}
	if err != nil {
		return nil, nil, err
	}
	points, damaged := decodeCleanPoints(b)
	if damaged == nil {
		c.points = points
	}
	return c, damaged, nil
}

// get is a log's point.
func (c *cleanPoints) get(key logKey) (offsets.Offset, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	at, ok := c.points[key]
	return at, ok
}

// set moves a log's point and writes the file with the points of these logs.
func (c *cleanPoints) set(key logKey, at offsets.Offset, logs []*Log) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.points[key] = at
	points := make(map[logKey]offsets.Offset, len(c.points))
	for _, l := range logs {
		if at, ok := c.points[l.key()]; ok {
			points[l.key()] = at
		}
	}
	c.points = points
	return c.write()
}

// lower takes a log's point back for good before records below it are replaced
// by others.
func (c *cleanPoints) lower(key logKey, to offsets.Offset) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if at, ok := c.points[key]; !ok || at <= to {
		return nil
	}
	c.points[key] = to
	return c.write()
}

func (c *cleanPoints) write() error {
	return roomless(vfs.Replace(c.fs, c.path, encodeCleanPoints(c.points)))
}

// encodeCleanPoints writes the file: a head, a line per log in ascending order,
// and the CRC-32C of all lines before it.
func encodeCleanPoints(points map[logKey]offsets.Offset) []byte {
	keys := make([]logKey, 0, len(points))
	for k := range points {
		keys = append(keys, k)
	}
	slices.SortFunc(keys, func(a, b logKey) int {
		if c := bytes.Compare(a.topic[:], b.topic[:]); c != 0 {
			return c
		}
		return int(a.partition) - int(b.partition)
	})
	var b bytes.Buffer
	fmt.Fprintln(&b, cleanedHead)
	for _, k := range keys {
		fmt.Fprintf(&b, "%s %d %d\n", k.topic, k.partition, points[k])
	}
	fmt.Fprintf(&b, "crc %08x\n", crc32.Checksum(b.Bytes(), castagnoli))
	return b.Bytes()
}

// decodeCleanPoints reads what encodeCleanPoints wrote.
func decodeCleanPoints(b []byte) (map[logKey]offsets.Offset, error) {
	body, last, ok := bytes.Cut(b, []byte("\ncrc "))
	if !ok {
		return nil, fmt.Errorf("%w: no crc line", errCleaned)
	}
	body = b[:len(body)+1]
	if want := fmt.Sprintf("%08x\n", crc32.Checksum(body, castagnoli)); want != string(last) {
		return nil, fmt.Errorf("%w: crc %q, computed %q", errCleaned, bytes.TrimSpace(last), want[:8])
	}
	lines := strings.Split(strings.TrimSuffix(string(body), "\n"), "\n")
	if lines[0] != cleanedHead {
		return nil, fmt.Errorf("%w: head %q", errCleaned, lines[0])
	}
	out := make(map[logKey]offsets.Offset, len(lines)-1)
	for i, line := range lines[1:] {
		parts := strings.Split(line, " ")
		if len(parts) != 3 {
			return nil, fmt.Errorf("%w: line %d", errCleaned, i+2)
		}
		id, err := offsets.ParseTopicID(parts[0])
		partition, perr := strconv.ParseInt(parts[1], 10, 32)
		at, oerr := strconv.ParseInt(parts[2], 10, 64)
		if err = errors.Join(err, perr, oerr); err != nil || at < 0 {
			return nil, fmt.Errorf("%w: line %d: %w", errCleaned, i+2, errors.Join(err, oerr))
		}
		out[logKey{id, int32(partition)}] = offsets.Offset(at)
	}
	return out, nil
}
