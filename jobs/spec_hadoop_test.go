package jobs

import (
	"maps"
	"strings"
	"testing"
)

const onHadoop = `
name: j
source: {topics: [views], brokers: ['k1.example:9092']}
decode: {value: json}
time: {field: ts, format: rfc3339}
output: {root: 'hdfs://nn1.example:8020/warehouse/views'}
run:
  engine: hadoop
  hadoop:
    resource_manager: ['http://rm1.example:8088', 'http://rm2.example:8088']
    command: [hadoop, jar, /opt/hadoop-streaming.jar]
    binary: hdfs:///apps/sawlog
    queue: etl
    conf: {mapreduce.map.cpu.vcores: 2}
`

func TestHadoop(t *testing.T) {
	s, err := Parse([]byte(onHadoop), "job.yaml")
	if err != nil {
		t.Fatal(err)
	}
	h := s.Run.Hadoop
	if s.Run.Engine != EngineHadoop || len(h.ResourceManagers) != 2 || len(h.Command) != 3 || h.Binary != "hdfs:///apps/sawlog" || h.Queue != "etl" || h.Conf["mapreduce.map.cpu.vcores"] != "2" {
		t.Errorf("%+v", s.Run)
	}
	text, err := s.Explain()
	if err != nil {
		t.Fatal(err)
	}
	again, err := Parse(text, "explained.yaml")
	if err != nil || again.Run.Hadoop.Queue != "etl" || !maps.Equal(again.Run.Hadoop.Conf, h.Conf) || again.Run.Hadoop.ResourceManagers[1] != h.ResourceManagers[1] {
		t.Errorf("explained, it is another job: %v\n%s", err, text)
	}
	for _, c := range []struct{ old, new, says string }{
		{"engine: hadoop", "engine: local", "is for engine: hadoop"},
		{"engine: hadoop", "engine: hadop", "did you mean hadoop"},
		{"    resource_manager: ['http://rm1.example:8088', 'http://rm2.example:8088']\n", "", "resource_manager: 'http://HOST:8088'"},
		{"http://rm2.example:8088", "rm2.example:8088", "want http://HOST:PORT"},
		{"hdfs:///apps/sawlog", "sawlog", "want an absolute path"},
		{"hdfs:///apps/sawlog", "'/opt/with space/sawlog'", "want an absolute path"},
		{"hdfs:///apps/sawlog", "'hdfs:///apps/sawlog#other'", "want an absolute path"},
		{"queue: etl", "queue: 'etl,prod'", "one queue"},
		{"mapreduce.map.cpu.vcores: 2", "mapreduce.map.maxattempts: 9", "run.retries"},
		{"mapreduce.map.cpu.vcores: 2", "'a b': 9", "no name of a property"},
		{"'hdfs://nn1.example:8020/warehouse/views'", "'file:///tmp/x'", "hdfs://"},
		{"/warehouse/views", "/warehouse/a,b", "for a pattern"},
		{"queue: etl", "send_keytab: true", "a ticket of kinit can't be sent"},
		{"nn1.example:8020", "127.0.0.1:8020", "NameNode on loopback (127.0.0.1:8020)"},
		{"k1.example:9092", "[::1]:9092", "broker on loopback ([::1]:9092)"},
	} {
		_, err := Parse([]byte(strings.Replace(onHadoop, c.old, c.new, 1)), "job.yaml")
		if err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s instead of %s: %v, want %q", c.new, c.old, err, c.says)
		}
	}
	sent := strings.NewReplacer("queue: etl", "send_keytab: true", "/views'}", "/views', hdfs: {keytab: /etc/etl.keytab, principal: etl@EX.ORG}}").Replace(onHadoop)
	if s, err = Parse([]byte(sent), "job.yaml"); err != nil || !s.Run.Hadoop.SendKeytab {
		t.Fatalf("%v: want the keytab to be sent", err)
	}
	if text, err = s.Explain(); err == nil {
		again, err = Parse(text, "explained.yaml")
	}
	if err != nil || !again.Run.Hadoop.SendKeytab {
		t.Errorf("explained, it isn't sent: %v", err)
	}
	if _, err := Parse([]byte(strings.Replace(sent, "mapreduce.map.cpu.vcores: 2", "mapreduce.job.credentials.json: /x", 1)), "job.yaml"); err == nil || !strings.Contains(err.Error(), "credentials.binary") {
		t.Errorf("the way of the keytab may be changed: %v", err)
	}
	for _, key := range hadoopOwn {
		if _, err := Parse([]byte(strings.Replace(onHadoop, "mapreduce.map.cpu.vcores", key, 1)), "job.yaml"); err == nil {
			t.Errorf("%s may be changed", key)
		}
	}
}

// A cluster is this one machine only where its servers listen on loopback, all
// of them.
func TestHadoopOnOneMachine(t *testing.T) {
	on := strings.NewReplacer("nn1.example", "127.0.0.1", "k1.example", "127.0.0.1", "rm1.example", "localhost", "rm2.example", "[::1]")
	if _, err := Parse([]byte(on.Replace(onHadoop)), "job.yaml"); err != nil {
		t.Errorf("one machine: %v", err)
	}
	for _, server := range []string{"nn1.example", "rm1.example", "rm2.example"} {
		text := onHadoop
		for _, name := range []string{"nn1.example", "k1.example", "rm1.example", "rm2.example"} {
			if name != server {
				text = strings.ReplaceAll(text, name, "127.0.0.1")
			}
		}
		if _, err := Parse([]byte(text), "job.yaml"); err == nil || !strings.Contains(err.Error(), "broker on loopback") || !strings.Contains(err.Error(), "ResourceManager and NameNodes by loopback") {
			t.Errorf("with %s elsewhere: %v", server, err)
		}
	}
}
