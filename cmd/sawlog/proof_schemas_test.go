package main

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/twmb/avro"
	"google.golang.org/protobuf/encoding/protowire"

	"sawlog/formats/registry/registrytest"
	"sawlog/loader"
)

// spoken is a way for values to have a schema: what the job says of it, values of
// its first version and, after a change, of the second, which has a field more.
type spoken struct {
	decode string
	first  func(at time.Time, n int) []byte
	second func(at time.Time, n int, ref string) []byte
	change func()
}

func framing(id uint32, indexes string) []byte {
	return append(binary.BigEndian.AppendUint32([]byte{0}, id), indexes...)
}

// avroOf reads schemas from a registry.
func avroOf(t *testing.T, reg *registrytest.Server) spoken {
	text := `{"type":"record","name":"V","fields":[{"name":"at","type":{"type":"long","logicalType":"timestamp-millis"}},{"name":"n","type":"int"}`
	v1 := text + `]}`
	v2 := text + `,{"name":"ref","type":["null","string"],"default":null}]}`
	one := reg.Register("avro-value", "AVRO", v1)
	encode := func(id uint32, schema string, v map[string]any) []byte {
		b, err := avro.MustParse(schema).AppendEncode(framing(id, ""), v)
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	var two uint32
	return spoken{
		decode: "decode: {value: avro, registry: '" + reg.URL + "'}\ntime: {field: at}\n",
		first: func(at time.Time, n int) []byte {
			return encode(one, v1, map[string]any{"at": at.UnixMilli(), "n": int32(n)})
		},
		second: func(at time.Time, n int, ref string) []byte {
			return encode(two, v2, map[string]any{"at": at.UnixMilli(), "n": int32(n), "ref": ref})
		},
		change: func() { two = reg.Register("avro-value", "AVRO", v2) },
	}
}

func pbNumber(b []byte, number protowire.Number, v int64) []byte {
	return protowire.AppendVarint(protowire.AppendTag(b, number, protowire.VarintType), uint64(v))
}

func pbText(b []byte, number protowire.Number, v []byte) []byte {
	return protowire.AppendBytes(protowire.AppendTag(b, number, protowire.BytesType), v)
}

// protobufOf reads schemas, which import others, from a registry.
func protobufOf(_ *testing.T, reg *registrytest.Server) spoken {
	reg.Register("stamp", "PROTOBUF", `syntax = "proto3"; package p; import "google/protobuf/timestamp.proto"; message Stamp { google.protobuf.Timestamp at = 1; }`)
	stamp := registrytest.Reference{Name: "p/stamp.proto", Subject: "stamp", Version: 1}
	text := `syntax = "proto3"; package p; import "p/stamp.proto"; message Other {} message V { Stamp stamp = 1; int32 n = 2; `
	one := reg.Register("protobuf-value", "PROTOBUF", text+"}", stamp)
	encode := func(id uint32, at time.Time, n int) []byte {
		b := pbText(nil, 1, pbText(nil, 1, pbNumber(nil, 1, at.Unix())))
		return append(framing(id, "\x02\x02"), pbNumber(b, 2, int64(n))...)
	}
	var two uint32
	return spoken{
		decode: "decode: {value: protobuf, message: p.V, registry: {url: '" + reg.URL + "'}}\ntime: {field: [stamp, at]}\n",
		first:  func(at time.Time, n int) []byte { return encode(one, at, n) },
		second: func(at time.Time, n int, ref string) []byte { return pbText(encode(two, at, n), 3, []byte(ref)) },
		change: func() { two = reg.Register("protobuf-value", "PROTOBUF", text+"optional string ref = 3; }", stamp) },
	}
}

// protoFileOf reads the schema from a file, which changes in place.
func protoFileOf(t *testing.T, dir string) spoken {
	path := filepath.Join(dir, "v.proto")
	text := `syntax = "proto3"; message V { int64 at = 1; int32 n = 2; `
	write := func(text string) {
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	write(text + "}")
	encode := func(at time.Time, n int) []byte { return pbNumber(pbNumber(nil, 1, at.UnixMilli()), 2, int64(n)) }
	return spoken{
		decode: "decode: {value: protobuf, schema: '" + path + "'}\ntime: {field: at, format: epoch_ms}\n",
		first:  encode,
		second: func(at time.Time, n int, ref string) []byte { return pbText(encode(at, n), 3, []byte(ref)) },
		change: func() { write(text + "optional string ref = 3; }") },
	}
}

// TestProofSchemas takes topics with a schema from the job file to values that
// DuckDB reads: a job on the server, a run, a schema that grows, another run. The
// first hour comes out again with its bytes, and neither that nor anything else
// but a plan asks the registry.
func TestProofSchemas(t *testing.T) {
	t.Parallel()
	needPython(t)
	n := startNode(t)
	n.ready()
	reg := registrytest.New()
	defer reg.Close()
	at := time.Date(2026, 10, 1, 0, 10, 0, 0, time.UTC)
	for name, s := range map[string]spoken{"avro": avroOf(t, reg), "protobuf": protobufOf(t, reg), "proto-file": protoFileOf(t, n.dir)} {
		t.Run(name, func(t *testing.T) {
			n := &node{t: t, bin: n.bin, dir: n.dir, listen: n.listen, web: n.web}
			n.values(name, string(s.first(at, 1)), string(s.first(at.Add(time.Hour), -2)), string(s.first(at, 3)))
			path, root := n.job(name, s.decode)
			n.run("job", "apply", path)
			if o := n.outcome(0, "run", name, "--wait"); o.Rows != 3 || o.Quarantined != 0 || len(o.Hours) != 2 {
				t.Fatalf("%+v", o)
			}
			first := treeOf(t, root)
			s.change()
			n.more(name, string(s.second(at, 4, "x")), string(s.first(at, 5)), string(s.second(at, 6, "")))
			o := n.outcome(0, "run", name, "--wait")
			if o.Rows != 3 || o.Quarantined != 0 || o.Files != 1 || fmt.Sprint(o.NewColumns) != "[{ref string}]" {
				t.Errorf("%+v", o)
			}
			var got [][]any
			duck(t, root, "select hr, n, ref from ROWS order by _offset", &got)
			if raw, err := json.Marshal(got); err != nil || string(raw) != `[["00",1,null],["01",-2,null],["00",3,null],["00",4,"x"],["00",5,null],["00",6,""]]` {
				t.Errorf("%s", raw)
			}

			asked := reg.Asked()
			reg.Down(1 << 30)
			defer reg.Down(0)
			for file := range first {
				if strings.Contains(file, "hr=00") {
					if err := os.Remove(filepath.Join(root, file)); err != nil {
						t.Fatal(err)
					}
				}
			}
			var again loader.RerunReport
			if err := json.Unmarshal(n.run("rerun", "0", "--root", root, "-o", "json"), &again); err != nil || again.Restored != 1 || again.Identical != 1 {
				t.Errorf("%+v, %v", again, err)
			}
			now := treeOf(t, root)
			for file, sum := range first {
				if now[file] != sum {
					t.Errorf("%s has other bytes", file)
				}
			}
			n.run("verify", "--root", root, "--against-log")
			if reg.Asked() != asked {
				t.Errorf("the registry was asked %d times", reg.Asked()-asked)
			}
			if strings.Contains(s.decode, "registry") {
				n.more(name, string(s.first(at, 7)))
				n.refused(6, []string{"registry is unavailable"}, "plan", path)
			}
		})
	}
}

// TestProofConfluentSerializers loads what confluent-kafka's serializers write
// and register: Avro as text, Protobuf as descriptors in base64 with references.
func TestProofConfluentSerializers(t *testing.T) {
	t.Parallel()
	needPython(t)
	if exec.Command("python3", "-c", "import confluent_kafka.schema_registry.avro, confluent_kafka.schema_registry.protobuf").Run() != nil {
		missing(t, "python3 with confluent-kafka[avro,protobuf]")
	}
	n := startNode(t)
	reg := registrytest.New()
	defer reg.Close()
	for _, kind := range []string{"avro", "protobuf"} {
		cmd := exec.Command("python3", "testdata/serialize.py", reg.URL, kind, kind)
		cmd.Stderr = &bytes.Buffer{}
		out, err := cmd.Output()
		if err != nil {
			t.Fatalf("%s: %v: %s", kind, err, cmd.Stderr)
		}
		var values []string
		for line := range strings.Lines(string(out)) {
			value, err := hex.DecodeString(strings.TrimSpace(line))
			if err != nil {
				t.Fatalf("%s: %s", kind, out)
			}
			values = append(values, string(value))
		}
		n.values(kind, values...)
		message := map[string]string{"protobuf": ", message: site.View"}[kind]
		path, root := n.job(kind, "decode: {value: "+kind+message+", registry: '"+reg.URL+"'}\ntime: {field: at}\n")
		if o := n.outcome(0, "run", path); o.Rows != 3 || o.Quarantined != 0 {
			t.Errorf("%s: %+v", kind, o)
		}
		var got [][]any
		duck(t, root, "select epoch(\"at\")::bigint, path, place.city, counts['a'] from ROWS order by _offset", &got)
		if raw, err := json.Marshal(got); err != nil || string(raw) != `[[1790812800,"/0",null,0],[1790812801,"/1","Oslo",1],[1790812802,"/2","Oslo",2]]` {
			t.Errorf("%s: %s", kind, raw)
		}
	}
}
