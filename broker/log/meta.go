package log

import (
	"bytes"
	"errors"
	"fmt"
	"hash/crc32"
	"os"
	"path"
	"strconv"
	"strings"

	"sawlog/broker/vfs"
	"sawlog/offsets"
)

// MetaFormat is the version of the data directory this program writes. Format 1
// had no checksum in meta.properties; it is read, too.
const MetaFormat = 2

// Meta says whose data directory it is: meta.properties.
type Meta struct {
	Format      int
	ClusterID   string
	NodeID      offsets.BrokerID
	DirectoryID string
	Joined      bool // the node joined a cluster that was there, and never founds one
	Entered     bool // it has had the cluster's metadata
	// Beside is the cluster that looked for this node at its address after it had
	// founded one of its own; "" = none. Such a directory is served never again.
	Beside string
}

// properties are the lines key=value of a small text file, in order.
type properties [][2]string

func (p properties) encode() []byte {
	var b strings.Builder
	for _, kv := range p {
		b.WriteString(kv[0] + "=" + kv[1] + "\n")
	}
	return []byte(b.String())
}

func decodeProperties(b []byte) (map[string]string, error) {
	out := map[string]string{}
	for i, line := range strings.Split(string(b), "\n") {
		line = strings.TrimSpace(line)
		if line == "" || line[0] == '#' {
			continue
		}
		key, value, ok := strings.Cut(line, "=")
		if !ok {
			return nil, fmt.Errorf("line %d: want key=value, got %q", i+1, line)
		}
		out[strings.TrimSpace(key)] = strings.TrimSpace(value)
	}
	return out, nil
}

func (m Meta) encode() []byte {
	p := properties{
		{"format", strconv.Itoa(MetaFormat)},
		{"cluster.id", m.ClusterID},
		{"node.id", strconv.Itoa(int(m.NodeID))},
		{"directory.id", m.DirectoryID},
	}
	if m.Joined {
		p = append(p, [2]string{"joined", "true"})
	}
	if m.Entered {
		p = append(p, [2]string{"entered", "true"})
	}
	if m.Beside != "" {
		p = append(p, [2]string{"beside", m.Beside})
	}
	lines := p.encode()
	return fmt.Appendf(lines, "crc=%08x\n", crc32.Checksum(lines, castagnoli))
}

func readMeta(fs vfs.FS, dir string) (Meta, error) {
	name := path.Join(dir, metaName)
	none := Meta{Format: MetaFormat, NodeID: offsets.NoBroker}
	b, err := vfs.ReadFile(fs, name)
	if errors.Is(err, os.ErrNotExist) {
		return none, nil
	}
	if err != nil {
		return none, err
	}
	m, err := decodeMeta(b)
	if err != nil {
		return none, fmt.Errorf("%s: %w", name, err)
	}
	return m, nil
}

// decodeMeta reads meta.properties. All of it is under the checksum, but in
// format 1.
func decodeMeta(b []byte) (m Meta, err error) {
	kv, err := decodeProperties(b)
	if err != nil {
		return m, err
	}
	if m.Format, err = strconv.Atoi(kv["format"]); err != nil {
		return m, fmt.Errorf("format %q", kv["format"])
	}
	if m.Format < 1 || m.Format > MetaFormat {
		return m, fmt.Errorf("format %d, this program reads up to %d", m.Format, MetaFormat)
	}
	lines := b[:bytes.LastIndex(b, []byte("\ncrc="))+1]
	if m.Format > 1 && kv["crc"] != fmt.Sprintf("%08x", crc32.Checksum(lines, castagnoli)) {
		return m, fmt.Errorf("damaged: checksum %q does not fit. Write the lines anew as they were, with format=1 and without crc", kv["crc"])
	}
	node, err := strconv.ParseInt(kv["node.id"], 10, 32)
	if err != nil {
		return m, fmt.Errorf("node.id %q", kv["node.id"])
	}
	m.ClusterID, m.NodeID, m.DirectoryID = kv["cluster.id"], offsets.BrokerID(node), kv["directory.id"]
	m.Joined, m.Entered, m.Beside = kv["joined"] == "true", kv["entered"] == "true", kv["beside"]
	return m, nil
}

// running is the marker that tells how the last run ended.
type running struct {
	state string // stateRunning, stateStopped, stateFailed
	boot  string
	epoch int64 // broker epoch
}

// States of a run. A run that failed leaves a page cache not to be trusted.
const (
	stateRunning = "running"
	stateStopped = "stopped"
	stateFailed  = "failed"
)

func (r running) encode() []byte {
	return properties{
		{"state", r.state},
		{"boot.id", r.boot},
		{"broker.epoch", strconv.FormatInt(r.epoch, 10)},
	}.encode()
}

// readRunning reads the marker; found is false on a first start. A marker that
// cannot be read counts as a run that failed.
func readRunning(fs vfs.FS, dir string) (r running, found bool, err error) {
	b, err := vfs.ReadFile(fs, path.Join(dir, runningName))
	if errors.Is(err, os.ErrNotExist) {
		return running{epoch: -1}, false, nil
	}
	if err != nil {
		return r, false, err
	}
	kv, err := decodeProperties(b)
	epoch, perr := strconv.ParseInt(kv["broker.epoch"], 10, 64)
	if err != nil || perr != nil {
		return running{state: stateFailed, epoch: -1}, true, nil
	}
	return running{state: kv["state"], boot: kv["boot.id"], epoch: epoch}, true, nil
}

// kernelBootID is the kernel's id of this boot, empty where there is none.
func kernelBootID() string {
	b, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(b))
}

// encodePartition is partition.metadata, as Kafka writes it, and a checksum of
// its two lines in a third, where Kafka reads no further.
func encodePartition(id offsets.TopicID) []byte {
	lines := "version: 0\ntopic_id: " + id.String() + "\n"
	return fmt.Appendf(nil, "%scrc: %08x\n", lines, crc32.Checksum([]byte(lines), castagnoli))
}

// decodePartition reads it; sealed is false for a file without checksum, as
// Kafka's are.
func decodePartition(b []byte) (id offsets.TopicID, sealed bool, err error) {
	version, sum := "", ""
	for line := range strings.Lines(string(b)) {
		key, value, _ := strings.Cut(strings.TrimSpace(line), ":")
		switch strings.TrimSpace(key) {
		case "version":
			version = strings.TrimSpace(value)
		case "topic_id":
			if id, err = offsets.ParseTopicID(strings.TrimSpace(value)); err != nil {
				return id, false, err
			}
		case "crc":
			sum = strings.TrimSpace(value)
		}
	}
	if version != "0" || id.IsZero() {
		return id, false, fmt.Errorf("version %q, topic id %s", version, id)
	}
	if sum == "" {
		return id, false, nil
	}
	want := encodePartition(id)
	if !bytes.HasPrefix(want, bytes.TrimSpace(b)) { // what is only cut off is not bent
		return id, false, fmt.Errorf("checksum %q, want %q", sum, bytes.TrimSpace(want[len(want)-9:]))
	}
	return id, true, nil
}

// mendPartition finds the one bit that is wrong in a file with a checksum.
func mendPartition(b []byte) (offsets.TopicID, error) {
	b = bytes.Clone(b)
	for i := range 8 * min(len(b), 256) {
		b[i/8] ^= 1 << (i % 8)
		if id, sealed, err := decodePartition(b); err == nil && sealed && bytes.Equal(b, encodePartition(id)) {
			return id, nil
		}
		b[i/8] ^= 1 << (i % 8)
	}
	return offsets.TopicID{}, errors.New("more than a bit is wrong")
}
