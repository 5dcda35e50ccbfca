package hadoop

import (
	"slices"
	"strings"
	"testing"

	"sawlog/jobs"
	"sawlog/loader"
	"sawlog/loader/sink"
)

func TestArguments(t *testing.T) {
	work := &loader.Work{
		Root: "hdfs://nn1:8020/warehouse/views/", PlanID: "0123456789abcdef", Plan: &loader.Plan{Job: "views hourly"},
		Access: sink.Access{User: "etl"}, Parallelism: 2, Memory: 512 << 20, Retries: 3,
	}
	j := &job{Work: work, tasks: 3, tag: "sawlog-01234567-89", input: "_sawlog/stage/0123456789abcdef/tasks-00.jsonl", user: "etl"}
	s := Settings{Binary: "file:///usr/bin/sawlog", Queue: "etl", Conf: map[string]string{
		"mapreduce.map.cpu.vcores": "2", "mapreduce.map.speculative": "false", "mapreduce.job.tags": "not this one",
	}}
	got, err := arguments(s, j)
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		"-D", "mapreduce.job.name=sawlog views hourly 0123456789abcdef",
		"-D", "mapreduce.map.memory.mb=1292",
		"-D", "mapreduce.map.java.opts=-Xmx256m -XX:TieredStopAtLevel=1 -XX:+UseSerialGC -XX:CompressedClassSpaceSize=64m -XX:ReservedCodeCacheSize=64m",
		"-D", "mapreduce.map.env=MALLOC_ARENA_MAX=2",
		"-D", "mapreduce.map.speculative=true",
		"-D", "mapreduce.fileoutputcommitter.marksuccessfuljobs=false",
		"-D", "mapreduce.job.queuename=etl",
		"-D", "mapreduce.job.running.map.limit=2",
		"-D", "mapreduce.job.tags=not this one",
		"-D", "mapreduce.map.cpu.vcores=2",
		"-D", "mapreduce.map.speculative=false",
		"-D", "mapreduce.job.tags=sawlog-01234567-89",
		"-D", "mapreduce.job.reduces=0",
		"-D", "mapreduce.job.ubertask.enable=false",
		"-D", "mapreduce.map.maxattempts=4",
		"-D", "mapreduce.map.failures.maxpercent=0",
		"-D", "mapreduce.input.lineinputformat.linespermap=1",
		"-D", "stream.map.input.ignoreKey=true",
		"-D", "stream.non.zero.exit.is.failure=true",
		"-files", "file:///usr/bin/sawlog#sawlog",
		"-background",
		"-input", "hdfs://nn1:8020/warehouse/views/_sawlog/stage/0123456789abcdef/tasks-00.jsonl",
		"-output", "hdfs://nn1:8020/warehouse/views/_sawlog/tmp/sawlog-01234567-89",
		"-inputformat", "org.apache.hadoop.mapred.lib.NLineInputFormat",
		"-outputformat", "org.apache.hadoop.mapred.lib.NullOutputFormat",
		"-mapper", "sawlog task exec --stdin --streaming",
		"-cmdenv", "HADOOP_USER_NAME=etl",
	}
	if !slices.Equal(got, want) {
		t.Errorf("%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	s = Settings{Binary: "/opt/sawlog/bin/sawlog"}
	work.Parallelism, j.user = 3, ""
	if got, err = arguments(s, j); err != nil || slices.Contains(got, "-files") || !slices.Contains(got, "/opt/sawlog/bin/sawlog task exec --stdin --streaming") {
		t.Errorf("with the binary on the nodes: %v %v", got, err)
	}
	for _, none := range []string{"limit", "queuename", "cmdenv"} {
		if strings.Contains(strings.Join(got, " "), none) {
			t.Errorf("%s without need: %v", none, got)
		}
	}
	for _, root := range []string{"hdfs://nn1/a,b", "hdfs://nn1/{a}", "hdfs://nn1/a*"} {
		work.Root = root
		if _, err := arguments(s, j); loader.ExitCode(err) != loader.ExitUsage {
			t.Errorf("root %s: %v", root, err)
		}
	}
}

// A job file can't change what the engine rests on.
func TestOwnPropertiesAreRefusedInJobs(t *testing.T) {
	for _, kv := range (&job{Work: &loader.Work{}}).own() {
		text := "name: j\nsource: {topics: [views], brokers: ['k1:9092']}\ntime: {field: ts}\noutput: {root: 'hdfs://nn1/views'}\n" +
			"run: {engine: hadoop, hadoop: {resource_manager: 'http://rm1:8088', conf: {" + kv[0] + ": '1'}}}\n"
		if _, err := jobs.Parse([]byte(text), "job.yaml"); err == nil || !strings.Contains(err.Error(), kv[0]) {
			t.Errorf("%s: %v", kv[0], err)
		}
	}
}
