package jobs

import (
	"fmt"
	"net"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"sawlog/offsets"
)

// SASL is how to log in to a foreign cluster.
type SASL struct {
	Mechanism string // PLAIN | SCRAM-SHA-256 | SCRAM-SHA-512
	User      string
	Password  Secret
}

// TLS is how to trust a foreign cluster, and how to be known to it.
type TLS struct {
	CA, Cert, Key string // paths of PEM files; without CA the system's authorities count
}

// Secret is a value kept in a file; only the file's path is ever printed.
type Secret struct{ path string }

// String prints the reference, never the value.
func (s Secret) String() string {
	if s.path == "" {
		return ""
	}
	return "${file:" + s.path + "}"
}

// Path is the file the value stands in.
func (s Secret) Path() string { return s.path }

func parseSecret(text string) (Secret, error) {
	inner, ok := strings.CutPrefix(text, "${file:")
	if ok {
		inner, ok = strings.CutSuffix(inner, "}")
	}
	if !ok || !strings.HasPrefix(inner, "/") {
		return Secret{}, fmt.Errorf("a secret stands in a file of its own: write ${file:/path/to/it}")
	}
	return Secret{path: inner}, nil
}

var topicName = regexp.MustCompile(`^[A-Za-z0-9._-]{1,249}$`)

func (s *Spec) readSource(root *section) {
	if root.get("source") == nil {
		root.missing("source", "say which topics to load, such as source: {topics: [pageviews]}")
		return
	}
	src := root.sub("source")
	if src == nil {
		return
	}
	s.note(src)
	s.Source.Topics = src.words("topics")
	for _, topic := range s.Source.Topics {
		if !topicName.MatchString(topic) || topic == "." || topic == ".." {
			src.say("topics", "%q is no topic name: want up to 249 letters, digits, '.', '_' or '-'", topic)
		}
	}
	sorted := slices.Sorted(slices.Values(s.Source.Topics))
	if len(slices.Compact(sorted)) != len(s.Source.Topics) {
		src.say("topics", "names a topic twice")
	}
	s.Source.Pattern = src.text("pattern", "")
	if _, err := regexp.Compile(s.Source.Pattern); err != nil {
		src.say("pattern", "%s", err)
	}
	switch {
	case len(s.Source.Topics) == 0 && s.Source.Pattern == "":
		src.missing("topics", "a list of topics, or pattern: with a regular expression")
	case len(s.Source.Topics) > 0 && s.Source.Pattern != "":
		src.say("pattern", "stands beside topics: give one of the two")
	}
	s.Source.MergeTopics = src.boolean("merge_topics", false)
	s.Source.Brokers = src.words("brokers")
	for _, broker := range s.Source.Brokers {
		if err := checkHostPort(broker); err != nil {
			src.say("brokers", "%s", err)
		}
	}
	s.Source.SASL, s.Source.TLS = readSASL(src), readTLS(src)
	if len(s.Source.Brokers) == 0 {
		for _, key := range []string{"sasl", "tls"} {
			if src.has(key) {
				src.say(key, "is for foreign clusters: give source.brokers too")
			}
		}
	}
	s.Source.Isolation = src.oneOf("isolation", "read_committed", "read_committed", "read_uncommitted")
	s.Source.Start = parsed(src, "start", "earliest", checkStart)
	src.done()
}

func checkHostPort(text string) error {
	host, port, err := net.SplitHostPort(text)
	n, errPort := strconv.Atoi(port)
	if err != nil || errPort != nil || host == "" || n < 1 || n > 65535 {
		return fmt.Errorf("%q: want HOST:PORT", text)
	}
	return nil
}

func checkStart(text string) (string, error) {
	switch {
	case text == "earliest" || text == "latest":
		return text, nil
	case strings.HasPrefix(text, "@"):
		if _, err := offsets.ParseTime(text[1:], time.Unix(0, 0)); err == nil {
			return text, nil
		}
	case strings.HasPrefix(text, "group:") && len(text) > len("group:"):
		return text, nil
	}
	return text, fmt.Errorf("%q is not allowed: want earliest, latest, @TIME (such as @2026-11-29T14) or group:NAME", text)
}

func readSASL(src *section) *SASL {
	sec := src.sub("sasl")
	if sec == nil {
		return nil
	}
	sasl := &SASL{
		Mechanism: sec.oneOf("mechanism", "SCRAM-SHA-512", "PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"),
		User:      sec.text("user", ""),
		Password:  parsed(sec, "password", Secret{}, parseSecret),
	}
	if sasl.User == "" {
		sec.missing("user", "who logs in")
	}
	if !sec.has("password") {
		sec.missing("password", "as ${file:/path}")
	}
	sec.done()
	return sasl
}

func readTLS(src *section) *TLS {
	sec := src.sub("tls")
	if sec == nil {
		return nil
	}
	tls := &TLS{CA: sec.text("ca", ""), Cert: sec.text("cert", ""), Key: sec.text("key", "")}
	if (tls.Cert == "") != (tls.Key == "") {
		sec.r.say(sec.node, sec.key, "cert and key go together")
	}
	sec.done()
	return tls
}
