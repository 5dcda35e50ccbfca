package jobs

import (
	"net/url"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// This file reads run.hadoop.

// Hadoop says how an engine of that name reaches its cluster, and what its
// applications are like.
type Hadoop struct {
	ResourceManagers []string          // URLs of their web addresses
	Command          []string          // that runs Hadoop Streaming; empty = mapred streaming
	Binary           string            // sawlog of the tasks: a path on every node, or a URI; empty = that of the driver is shipped
	Queue            string            // empty = the cluster's default
	Conf             map[string]string // properties of the job, as -D gives them
	SendKeytab       bool              // the keytab of the root goes along with applications
}

// property is the name of a property of Hadoop's.
var property = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]*$`)

// hadoopOwn are the properties the engine rests on.
var hadoopOwn = []string{
	"mapreduce.job.tags", "mapreduce.job.reduces", "mapreduce.job.ubertask.enable", "mapreduce.map.maxattempts",
	"mapreduce.map.failures.maxpercent", "mapreduce.input.lineinputformat.linespermap", "stream.map.input.ignoreKey",
	"stream.non.zero.exit.is.failure",
}

func (s *Spec) readHadoop(sec *section) {
	h := &s.Run.Hadoop
	h.ResourceManagers = sec.words("resource_manager")
	for _, addr := range h.ResourceManagers {
		if u, err := url.Parse(addr); err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
			sec.say("resource_manager", "%q: want http://HOST:PORT, its web address", addr)
		}
	}
	h.Command = sec.words("command")
	h.Binary = sec.text("binary", "")
	if shipped := strings.Contains(h.Binary, "://"); h.Binary != "" && !shipped && !path.IsAbs(h.Binary) || strings.ContainsAny(h.Binary, " ,'\"#") {
		sec.say("binary", "%q: want an absolute path that every node has, or a URI it is shipped from, such as hdfs:///apps/sawlog", h.Binary)
	}
	if h.Queue = sec.text("queue", ""); strings.ContainsAny(h.Queue, " ,") {
		sec.say("queue", "%q: want the name of one queue", h.Queue)
	}
	if h.SendKeytab = sec.boolean("send_keytab", false); h.SendKeytab && s.Output.Access.Keytab == "" {
		sec.say("send_keytab", "wants output.hdfs: {keytab: …, principal: …}: a ticket of kinit can't be sent")
	}
	h.Conf = sec.pairs("conf")
	for _, key := range sortedKeys(h.Conf) {
		switch {
		case !property.MatchString(key):
			sec.say("conf", "%q is no name of a property", key)
		case slices.Contains(hadoopOwn, key):
			sec.say("conf", "%s is the engine's own: how many attempts is run.retries", key)
		case h.SendKeytab && key == "mapreduce.job.credentials.json":
			sec.say("conf", "%s is how the keytab goes along: name a file of secrets by mapreduce.job.credentials.binary", key)
		}
	}
}

// explainHadoop prints run.hadoop; nothing for other engines.
func explainHadoop(e *explainer, r *RunRule) {
	if r.Engine != EngineHadoop {
		return
	}
	e.section("hadoop", func(c *explainer) {
		h := &r.Hadoop
		c.list("resource_manager", h.ResourceManagers)
		c.list("command", h.Command)
		c.scalar("binary", h.Binary)
		c.scalar("queue", h.Queue)
		c.plain("send_keytab", strconv.FormatBool(h.SendKeytab))
		c.pairs("conf", h.Conf)
	})
}
