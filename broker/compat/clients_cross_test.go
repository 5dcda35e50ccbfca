package compat_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"sawlog/broker/compat/peer"
)

// family is a client family with the codecs it has.
type family struct {
	program func(testing.TB) program
	codecs  []string
	foreign []string // codecs it reads when others wrote them; empty: the same
	// What the client itself can't send or tell apart, each with the reason.
	sends func(sentRecord) sentRecord
	reads func(sentRecord) sentRecord
}

var everyCodec = []string{"none", "gzip", "snappy", "lz4", "zstd"}

func goFamily(name string) func(testing.TB) program {
	return func(t testing.TB) program { t.Helper(); return goProgram(t, name) }
}

func pythonFamily(name string) func(testing.TB) program {
	return func(t testing.TB) program { t.Helper(); return pythonProgram(t, name) }
}

func nodeFamily(name string) func(testing.TB) program {
	return func(t testing.TB) program { t.Helper(); return nodeProgram(t, name) }
}

var families = []family{
	{program: goFamily("franz"), codecs: everyCodec},
	{program: goFamily("sarama"), codecs: everyCodec},
	{program: goFamily("kafkago"), codecs: everyCodec, reads: noEmpty}, // its reader gives nil for what has no bytes
	{program: pythonFamily("confluent"), codecs: everyCodec},
	{program: nodeFamily("kafkajs"), codecs: everyCodec, sends: noNullHeaders}, // measures header values by Buffer.byteLength
	// zstd came to Node in 22.15, and this release knows snappy without Java's frames only.
	{program: nodeFamily("platformatic"), codecs: []string{"none", "gzip", "snappy", "lz4"}, foreign: []string{"none", "gzip", "lz4"}},
	{program: pythonFamily("kafka_python"), codecs: everyCodec, sends: noNullHeaders}, // "All headers items must be (str, bytes) tuples"
	{program: pythonFamily("aio"), codecs: everyCodec},
}

// TestCrossFamilies has every client family write six corner cases in every
// codec it has, and every family read what all others wrote.
func TestCrossFamilies(t *testing.T) {
	s := foreign(t, peer.Options{})
	records := sixRecords(time.Now())
	type corpus struct {
		writer int
		codec  string
	}
	topics := map[string]corpus{}
	var programs []program
	for _, f := range families {
		programs = append(programs, f.program(t))
	}
	for i, f := range families {
		prefix := "cross-" + programs[i].name + "-"
		programs[i].run(t, jsonLines(t, records), append([]string{"write", s.Addr, prefix}, f.codecs...)...)
		for _, c := range f.codecs {
			topics[prefix+c] = corpus{i, c}
		}
	}
	if s.Name == "sawlog" {
		stored := storedCodecs(t, s, slices.Collect(maps.Keys(topics))...)
		for name, c := range topics {
			if !slices.Equal(stored[name], []string{c.codec}) {
				t.Errorf("%s is stored with %v", name, stored[name])
			}
		}
	}
	matrix := make([][]string, len(families))
	for i, f := range families {
		matrix[i] = make([]string, len(families))
		args := []string{"read", s.Addr, fmt.Sprint(len(records))}
		for name, c := range topics {
			// A reader that lacks a codec can't be asked for its topics.
			if c.writer == i || slices.Contains(f.foreign, c.codec) || f.foreign == nil && slices.Contains(f.codecs, c.codec) {
				args = append(args, name)
			}
		}
		slices.Sort(args[3:])
		start := time.Now()
		got := byTopic(t, programs[i].run(t, nil, args...))
		t.Logf("%s read %d topics in %s", programs[i].name, len(args)-3, time.Since(start).Round(time.Millisecond))
		for _, name := range args[3:] {
			w := topics[name].writer
			want := make([]sentRecord, len(records))
			for j, r := range records {
				want[j] = adapt(f.reads, adapt(families[w].sends, r))
			}
			if d := difference(got[name], want); d != "" {
				t.Errorf("%s read by %s: %s", name, programs[i].name, d)
				matrix[i][w] += "!"
				continue
			}
			matrix[i][w] += "."
		}
	}
	t.Log(table(programs, matrix))
}

func adapt(f func(sentRecord) sentRecord, r sentRecord) sentRecord {
	if f == nil {
		return r
	}
	return f(r)
}

// noNullHeaders is a record of a client that can't send null header values.
func noNullHeaders(r sentRecord) sentRecord {
	r.Headers = slices.Clone(r.Headers)
	for i := range r.Headers {
		r.Headers[i].Value = append([]byte{}, r.Headers[i].Value...)
	}
	return r
}

// noEmpty is a record of a client that can't tell empty from null.
func noEmpty(r sentRecord) sentRecord {
	null := func(b []byte) []byte {
		if len(b) == 0 {
			return nil
		}
		return b
	}
	r.Key, r.Value, r.Headers = null(r.Key), null(r.Value), slices.Clone(r.Headers)
	for i := range r.Headers {
		r.Headers[i].Value = null(r.Headers[i].Value)
	}
	return r
}

// table shows a dot per codec that was read back equal, a mark per one that was not.
func table(programs []program, matrix [][]string) string {
	var out strings.Builder
	fmt.Fprintf(&out, "rows read, columns wrote; a dot a codec\n%-14s", "")
	for _, p := range programs {
		fmt.Fprintf(&out, "%-13s", p.name)
	}
	for i, row := range matrix {
		fmt.Fprintf(&out, "\n%-14s", programs[i].name)
		for _, cell := range row {
			fmt.Fprintf(&out, "%-13s", cell)
		}
	}
	return out.String()
}
