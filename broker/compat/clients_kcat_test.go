package compat_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"sawlog/broker/compat/peer"
)

// kcat runs kcat, which is Debian's librdkafka of 2023, and wants no complaint.
func kcat(t testing.TB, s *peer.Server, input string, args ...string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, peer.Tool(t, "kcat"), append([]string{"-b", s.Addr, "-q", "-m", "30"}, args...)...)
	cmd.Stdin = strings.NewReader(input)
	var out, said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &said
	if err := cmd.Run(); err != nil || said.Len() > 0 {
		t.Fatalf("kcat %q: %v\n%s", args, err, said.String())
	}
	return out.String()
}

// storedCodecs names the codecs of the stored batches of partition 0 of each
// topic, read from the segments by `sawlog log dump`.
func storedCodecs(t testing.TB, s *peer.Server, topics ...string) map[string][]string {
	t.Helper()
	args := []string{peer.Binary(t), "log", "dump", "-o", "jsonl"}
	for _, topic := range topics {
		segments, err := filepath.Glob(filepath.Join(s.Dir, topic+"-0", "*.log"))
		if err != nil || len(segments) == 0 {
			t.Fatalf("%s has no segments in %s: %v", topic, s.Dir, err)
		}
		args = append(args, segments...)
	}
	out, err := execute(t.Context(), "", nil, nil, args...)
	if err != nil {
		t.Fatal(err)
	}
	all := map[string][]string{}
	for d := json.NewDecoder(bytes.NewReader(out)); d.More(); {
		var dumped struct {
			File, Codec string
			Count       int
		}
		if err := d.Decode(&dumped); err != nil {
			t.Fatal(err)
		}
		// A lone record that doesn't get smaller is sent as it is.
		if dumped.Codec == "" || dumped.Count == 1 && dumped.Codec == "none" {
			continue
		}
		topic := strings.TrimSuffix(filepath.Base(filepath.Dir(dumped.File)), "-0")
		if !slices.Contains(all[topic], dumped.Codec) {
			all[topic] = append(all[topic], dumped.Codec)
		}
	}
	return all
}

// TestKcat runs kcat: librdkafka before 2.11.1, which sends plain batches to a
// broker that doesn't advertise the versions it looks for.
func TestKcat(t *testing.T) {
	s := foreign(t, peer.Options{})
	t.Run("codecs", func(t *testing.T) {
		var input strings.Builder
		for i := range 500 {
			// Also alone: librdkafka sends as it is what doesn't get smaller.
			fmt.Fprintf(&input, "k%d:%sline %d\n", i, strings.Repeat("a line of text that repeats itself, ", 4), i)
		}
		for _, codec := range everyCodec {
			for _, idempotent := range []string{"false", "true"} {
				topic := "kcat-" + codec + "-" + idempotent
				kcat(t, s, input.String(), "-P", "-t", topic, "-K", ":", "-z", codec, "-X", "linger.ms=200", "-X", "enable.idempotence="+idempotent)
				if got := kcat(t, s, "", "-C", "-t", topic, "-o", "beginning", "-e", "-K", ":"); got != input.String() {
					t.Errorf("%s: read %d bytes, wrote %d", topic, len(got), input.Len())
				}
				if got := storedCodecs(t, s, topic)[topic]; !slices.Equal(got, []string{codec}) {
					t.Errorf("%s: the batches are stored with %v", topic, got)
				}
			}
		}
	})
	t.Run("headers", func(t *testing.T) {
		kcat(t, s, "k:v", "-P", "-t", "headers", "-K", ":", "-H", "a=1", "-H", "a=2", "-H", "empty=", "-H", "null")
		got := kcat(t, s, "", "-C", "-t", "headers", "-o", "beginning", "-e", "-f", "%k %s %h\n")
		if want := "k v a=1,a=2,empty=,null=NULL\n"; got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	})
	t.Run("null key and value", func(t *testing.T) {
		kcat(t, s, "k:\n:v\n:\n", "-P", "-t", "nulls", "-K", ":", "-Z")
		// %K and %S are lengths, -1 for null.
		got := kcat(t, s, "", "-C", "-t", "nulls", "-o", "beginning", "-e", "-f", "%K %S\n")
		if want := "1 -1\n-1 1\n-1 -1\n"; got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	})
	t.Run("query", func(t *testing.T) {
		var times []int64
		for _, line := range []string{"a", "b", "c"} {
			kcat(t, s, line, "-P", "-t", "query")
			stamp := kcat(t, s, "", "-C", "-t", "query", "-o", "-1", "-c", "1", "-f", "%T")
			var at int64
			if _, err := fmt.Sscan(stamp, &at); err != nil {
				t.Fatal(err)
			}
			times = append(times, at)
		}
		for _, c := range []struct {
			at   int64
			want string
		}{{times[0] - 1000, "offset 0"}, {times[1], "offset 1"}, {times[1] + 1, "offset 2"}, {times[2] + 1000, "offset -1"}, {-1, "offset 3"}, {-2, "offset 0"}} {
			if got := kcat(t, s, "", "-Q", "-t", fmt.Sprintf("query:0:%d", c.at)); !strings.HasSuffix(strings.TrimSpace(got), c.want) {
				t.Errorf("at %d: %q, want %s", c.at, got, c.want)
			}
		}
		if got := kcat(t, s, "", "-C", "-t", "query", "-o", fmt.Sprintf("s@%d", times[1]), "-e"); got != "b\nc\n" {
			t.Errorf("from the second's time: %q", got)
		}
	})
	t.Run("list", func(t *testing.T) {
		got := kcat(t, s, "", "-L")
		if !strings.Contains(got, `topic "query" with 1 partitions`) || !strings.Contains(got, s.Addr) {
			t.Error(got)
		}
	})
	t.Run("group", func(t *testing.T) { kcatGroup(t, s) })
}

// kcatGroup has two members share a topic; what one leaves the other takes up.
func kcatGroup(t *testing.T, s *peer.Server) {
	kcat(t, s, "one\ntwo\n", "-P", "-t", "shared")
	fast := []string{"-X", "auto.offset.reset=earliest", "-X", "heartbeat.interval.ms=200", "-X", "session.timeout.ms=6000"}
	read := func() string {
		return kcat(t, s, "", slices.Concat([]string{"-G", "readers", "-e"}, fast, []string{"shared"})...)
	}
	if got := read(); got != "one\ntwo\n" {
		t.Errorf("first run: %q", got)
	}
	kcat(t, s, "three\n", "-P", "-t", "shared")
	if got := read(); got != "three\n" {
		t.Errorf("second run: %q", got)
	}
	if got := read(); got != "" {
		t.Errorf("third run: %q", got)
	}
}
