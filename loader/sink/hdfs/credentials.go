package hdfs

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
)

// parseCredentials reads the secrets of a file of Hadoop's credentials, as a
// NodeManager puts it into each container (org.apache.hadoop.security.Credentials,
// its oldest form, which all releases write there):
//
//	"HDTS" 0 · tokens: count, each alias, identifier, password, kind, service · secrets: count, each name, value
//
// Counts and lengths are numbers of WritableUtils: one byte up to 127, or -112-N
// and N bytes of it, the highest first.
func parseCredentials(data []byte) (map[string][]byte, error) {
	rest, ok := bytes.CutPrefix(data, []byte("HDTS"))
	switch {
	case !ok || len(rest) == 0:
		return nil, errors.New("not a file of Hadoop's credentials")
	case rest[0] != 0:
		return nil, fmt.Errorf("a file of Hadoop's credentials in form %d, want 0", rest[0])
	}
	r := &writable{rest: rest[1:]}
	for range r.number() {
		for range 5 {
			r.bytes()
		}
	}
	secrets := map[string][]byte{}
	for range r.number() {
		name := string(r.bytes())
		secrets[name] = r.bytes()
	}
	if r.short {
		return nil, errors.New("a file of Hadoop's credentials that is cut off")
	}
	return secrets, nil
}

// writable reads what Hadoop's Writables wrote.
type writable struct {
	rest  []byte
	short bool // more was asked for than there is
}

// take is the next n bytes.
func (w *writable) take(n int) []byte {
	if n < 0 || n > len(w.rest) {
		w.short, w.rest = true, nil
		return nil
	}
	got := w.rest[:n]
	w.rest = w.rest[n:]
	return got
}

// number is the next count or length; 0 where there can't be as much, for each
// thing counted takes a byte.
func (w *writable) number() int {
	first := w.take(1)
	if w.short {
		return 0
	}
	n := uint64(first[0])
	if size := -112 - int(int8(first[0])); size > 0 && size <= 8 {
		var b [8]byte
		copy(b[8-size:], w.take(size))
		n = binary.BigEndian.Uint64(b[:])
	}
	if n > uint64(len(w.rest)) {
		w.short, w.rest = true, nil
		return 0
	}
	return int(n)
}

func (w *writable) bytes() []byte { return w.take(w.number()) }
