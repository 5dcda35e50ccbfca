package log

import (
	"bytes"
	"errors"
	"fmt"
	"hash/crc32"
	"strconv"
	"strings"

	"sawlog/offsets"
)

// point is a log's line in recovery-points.
type point struct {
	start    offsets.Offset
	recovery offsets.Offset // below it everything is synced
	idle     bool           // no producers are remembered at that point
}

// checkpointHead is the first line of the file.
const checkpointHead = "recovery-points 1"

var errCheckpoint = errors.New("recovery points are damaged")

// encodePoints writes the file: a head, the mark of the journal from before the
// points were taken, a line per log in the order given, and the CRC-32C of all
// lines before it.
func encodePoints(mark journalMark, keys []logKey, points map[logKey]point) []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, "%s\njournal %d %d\n", checkpointHead, mark.generation, mark.size)
	for _, k := range keys {
		p := points[k]
		producers := "producers"
		if p.idle {
			producers = "idle"
		}
		fmt.Fprintf(&b, "%s %d %d %d %s\n", k.topic, k.partition, p.start, p.recovery, producers)
	}
	fmt.Fprintf(&b, "crc %08x\n", crc32.Checksum(b.Bytes(), castagnoli))
	return b.Bytes()
}

// decodePoints reads what encodePoints wrote.
func decodePoints(b []byte) (mark journalMark, _ map[logKey]point, err error) {
	body, last, ok := bytes.Cut(b, []byte("\ncrc "))
	if !ok {
		return mark, nil, fmt.Errorf("%w: no crc line", errCheckpoint)
	}
	body = b[:len(body)+1]
	if want := fmt.Sprintf("%08x\n", crc32.Checksum(body, castagnoli)); want != string(last) {
		return mark, nil, fmt.Errorf("%w: crc %q, computed %q", errCheckpoint, bytes.TrimSpace(last), want[:8])
	}
	lines := strings.Split(strings.TrimSuffix(string(body), "\n"), "\n")
	if lines[0] != checkpointHead || len(lines) < 2 {
		return mark, nil, fmt.Errorf("%w: head %q", errCheckpoint, lines[0])
	}
	if _, err := fmt.Sscanf(lines[1], "journal %d %d", &mark.generation, &mark.size); err != nil {
		return mark, nil, fmt.Errorf("%w: mark %q: %w", errCheckpoint, lines[1], err)
	}
	out := make(map[logKey]point, len(lines)-2)
	for i, line := range lines[2:] {
		parts := strings.Split(line, " ")
		if len(parts) != 5 {
			return mark, nil, fmt.Errorf("%w: line %d", errCheckpoint, i+3)
		}
		id, err := offsets.ParseTopicID(parts[0])
		var n [3]int64
		for j := range n {
			if err == nil {
				n[j], err = strconv.ParseInt(parts[1+j], 10, 64)
			}
		}
		if err != nil {
			return mark, nil, fmt.Errorf("%w: line %d: %w", errCheckpoint, i+3, err)
		}
		out[logKey{id, int32(n[0])}] = point{offsets.Offset(n[1]), offsets.Offset(n[2]), parts[4] == "idle"}
	}
	return mark, out, nil
}
