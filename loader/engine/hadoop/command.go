package hadoop

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"sawlog/loader"
)

// defaultCommand is how Hadoop 3 calls `hadoop jar …/hadoop-streaming-*.jar`.
var defaultCommand = []string{"mapred", "streaming"}

func (s *Settings) command() []string {
	if len(s.Command) == 0 {
		return defaultCommand
	}
	return s.Command
}

// job is what the arguments are made of beside the settings.
type job struct {
	*loader.Work
	tasks int
	tag   string
	input string // path of the lines under the root
	user  string
	// kerberos has the user be whose ticket it is, secrets has some go along.
	kerberos, secrets bool
}

const (
	// A task holds to its memory but for its code and stacks.
	overhead = 128 << 20
	// The JVM beside it only feeds it a line: its heap, and all else of it.
	jvmHeap  = "-Xmx256m"
	jvmWhole = 512 << 20
	// jvmFlags and jvmEnv keep the JVM's address space small, and its start short:
	// the better compiler takes as much of a processor again, for code that runs once.
	jvmFlags = jvmHeap + " -XX:TieredStopAtLevel=1 -XX:+UseSerialGC -XX:CompressedClassSpaceSize=64m -XX:ReservedCodeCacheSize=64m"
	jvmEnv   = "MALLOC_ARENA_MAX=2"
	// addresses is what JVM and task take of them beside the task's memory: Go
	// alone reserves 1.2 GiB.
	addresses = 2200 << 20
)

// containerMB is the size of the container of a task of this memory in bytes.
// NodeManagers end one that takes more memory than its size, or more address
// space than 2.1 times its size (yarn.nodemanager.vmem-pmem-ratio).
func containerMB(memory int64) int64 {
	size := max(memory+overhead+jvmWhole, (memory+addresses)*10/21)
	const mb = 1 << 20
	return (size + mb - 1) / mb
}

// patterns are the characters that Hadoop takes for more than themselves in a
// path of input.
const patterns = ",{}[]*?\\ "

// arguments are those of Hadoop Streaming for a job: properties first, what may
// be changed by the settings before what the engine rests on.
func arguments(s Settings, j *job) ([]string, error) {
	if strings.ContainsAny(j.Root, patterns) {
		return nil, &loader.Error{
			Code: loader.ExitUsage, Msg: fmt.Sprintf("hadoop engine: root %s: Hadoop would take one of %q for a pattern", j.Root, patterns),
			Hint: "name the folder without them",
		}
	}
	var args []string
	set := func(key, value string) { args = append(args, "-D", key+"="+value) }
	set("mapreduce.job.name", fmt.Sprintf("sawlog %s %s", j.Plan.Job, j.PlanID))
	set("mapreduce.map.memory.mb", strconv.FormatInt(containerMB(j.Memory), 10))
	set("mapreduce.map.java.opts", jvmFlags)
	set("mapreduce.map.env", jvmEnv)
	set("mapreduce.map.speculative", "true")
	set("mapreduce.fileoutputcommitter.marksuccessfuljobs", "false")
	if s.Queue != "" {
		set("mapreduce.job.queuename", s.Queue)
	}
	if j.Parallelism > 0 && j.Parallelism < j.tasks {
		set("mapreduce.job.running.map.limit", strconv.Itoa(j.Parallelism))
	}
	for _, key := range slices.Sorted(maps.Keys(s.Conf)) {
		set(key, s.Conf[key])
	}
	for _, kv := range j.own() {
		set(kv[0], kv[1])
	}
	if j.secrets {
		set("mapreduce.job.credentials.json", secretsPath)
	}
	mapper := s.Binary
	if strings.Contains(s.Binary, "://") {
		args, mapper = append(args, "-files", s.Binary+"#sawlog"), "sawlog"
	}
	root := strings.TrimRight(j.Root, "/")
	args = append(
		args, "-background",
		"-input", root+"/"+j.input, "-output", root+"/"+outputDir(j.tag),
		"-inputformat", "org.apache.hadoop.mapred.lib.NLineInputFormat",
		"-outputformat", "org.apache.hadoop.mapred.lib.NullOutputFormat",
		"-mapper", mapper+" task exec --stdin --streaming",
	)
	if j.user != "" && !j.kerberos {
		// Without Kerberos a container runs as the NodeManager's user.
		args = append(args, "-cmdenv", "HADOOP_USER_NAME="+j.user)
	}
	return args, nil
}

// own are the properties of a job that no setting changes.
func (j *job) own() [][2]string {
	return [][2]string{
		{"mapreduce.job.tags", j.tag},
		{"mapreduce.job.reduces", "0"},
		{"mapreduce.job.ubertask.enable", "false"}, // its maps have no memory of their own
		{"mapreduce.map.maxattempts", strconv.Itoa(j.Retries + 1)},
		{"mapreduce.map.failures.maxpercent", "0"},
		{"mapreduce.input.lineinputformat.linespermap", "1"},
		{"stream.map.input.ignoreKey", "true"},
		{"stream.non.zero.exit.is.failure", "true"},
	}
}

// codeOf is the exit code for what Hadoop's client says, by the exceptions it
// names.
func codeOf(said string) int {
	for _, c := range []struct {
		code  int
		words []string
	}{
		{loader.ExitUsage, []string{"JAVA_HOME is not set", "Could not find or load main class", "JAR does not exist", "Not a valid JAR", "Unrecognized option"}},
		{loader.ExitAuth, []string{"AccessControlException", "AuthorizationException", "GSSException", "KerberosAuthException", "LoginException"}},
		{loader.ExitConflict, []string{"unknown queue", "InvalidResourceRequestException", "InvalidJobConfException", "bad input path", "FileNotFoundException"}},
	} {
		if slices.ContainsFunc(c.words, func(word string) bool { return strings.Contains(said, word) }) {
			return c.code
		}
	}
	return loader.ExitUnavailable
}

// why is the line of a client's output that says why it failed: what it says
// of the job, or the last exception, or the last line.
func why(said string) string {
	lines := strings.Split(strings.TrimSpace(said), "\n")
	for _, sign := range []string{"Error launching job", "Error Launching job", "Exception", "ERROR"} {
		for _, line := range slices.Backward(lines) {
			if strings.Contains(line, sign) {
				return strings.TrimSpace(line)
			}
		}
	}
	return lines[len(lines)-1]
}
