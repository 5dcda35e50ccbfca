package jobs

import (
	"regexp"
	"strings"
	"time"

	"sawlog/formats"
	"sawlog/loader"
	"sawlog/loader/sink"
)

// Spec is a job file, checked and with every default filled in.
type Spec struct {
	Path string // where the file was read, for messages
	Text []byte // the file as written

	Name        string
	Source      Source
	Schedule    *Schedule // nil = runs only when asked to
	Decode      Decode
	Schema      *formats.Schema // nil = inferred and frozen
	Columns     Columns
	Time        TimeRule
	PartitionBy PartitionBy
	Metadata    []string
	Output      Output
	Run         RunRule
	// RetentionHold is how old records may get that brokers keep past their
	// retention because the job has yet to load them; 0 = they are not asked to.
	RetentionHold time.Duration
	Notify        []Notify
	Freshness     time.Duration // 0 = not watched

	set map[string]bool // dotted keys the file gives
}

// Source says where records come from.
type Source struct {
	Topics      []string
	Pattern     string
	MergeTopics bool
	Brokers     []string // empty = the server's own cluster
	SASL        *SASL
	TLS         *TLS
	Isolation   string // read_committed | read_uncommitted
	Start       string // earliest | latest | @TIME | group:NAME; of the first run only
}

// Decode says how a record's bytes become a row.
type Decode struct {
	Value      string // json | csv | text | raw | avro | protobuf
	Schema     string // of avro and protobuf: path of a file, or the schema itself
	Message    string // of protobuf; "" = the first of the file
	Registry   *formats.Registry
	Key        string
	Pattern    string // of text: an expression, or the name of one; "" = one column
	Columns    []string
	Delimiter  string
	SkipHeader bool
	Tombstones string
	OnBad      string
	MaxBad     loader.MaxBad
}

// Columns picks and names columns.
type Columns struct {
	Include, Exclude, Hash []string
	Rename                 map[string]string
}

// TimeRule says where a row's event time is and what is plausible.
type TimeRule struct {
	Field     []string
	Format    string
	Zone      string
	Plausible [2]Moment
}

// PartitionBy is the rule that puts rows into folders.
type PartitionBy struct {
	Unit     string // hour | day
	Zone     string
	Path     string // strftime letters
	Lateness time.Duration
	Fields   []string // columns, or key paths, whose values make folders below

	where *time.Location // of Zone
}

// Output says where files go and how they are written.
type Output struct {
	Root       string // may hold {topic}
	Access     sink.Access
	Format     string
	Codec      string
	Level      int    // 0 = the codec's default
	Encodings  string // of Parquet files: plain; "" = all
	TargetSize int64
	Merge      string // auto | always | never
}

// RunRule bounds how a run is carried out.
type RunRule struct {
	Parallelism int // 0 = cores
	Memory      int64
	Retries     int
	Timeout     time.Duration
	Rate        int64 // bytes of the log a second, all tasks of a run together; 0 = no limit
	MaxActive   int
	Engine      string // local | hadoop | kubernetes
	Hadoop      Hadoop
	Kubernetes  Kubernetes
}

// jobName is also part of file, group and URL names.
var jobName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$`)

// wantName says what can name a job.
const wantName = "want 1 to 100 letters, digits, '.', '_' or '-', the first a letter or a digit"

// Parse reads a job file; path is used in messages only. The error is Problems
// and lists everything that is wrong.
func Parse(data []byte, path string) (*Spec, error) {
	return parse(data, path, (*loader.Spec).CheckNames)
}

// ParseApplied reads a job that is at work, perhaps since an earlier release: it
// isn't held to names of fields that its records can't have. Its previews warn.
func ParseApplied(data []byte, path string) (*Spec, error) {
	return parse(data, path, func(*loader.Spec) error { return nil })
}

func parse(data []byte, path string, check func(*loader.Spec) error) (*Spec, error) {
	r := &reader{path: path}
	s := &Spec{Path: path, Text: data, set: map[string]bool{}}
	root := r.parseDocument(data)
	if root != nil {
		s.readRoot(root)
		s.checkWhole(root, check)
	}
	if len(r.problems) > 0 {
		return nil, r.problems.sorted()
	}
	return s, nil
}

func (s *Spec) readRoot(root *section) {
	s.Name = root.text("name", "")
	if !root.has("name") {
		root.missing("name", "a job needs a name, such as pageviews-hourly")
	} else if !jobName.MatchString(s.Name) {
		root.say("name", "%q: "+wantName, s.Name)
	}
	s.readSource(root)
	s.readSchedule(root)
	s.readDecode(root)
	s.readSchema(root)
	s.readColumns(root)
	s.readTime(root)
	s.readPartitionBy(root)
	s.readMetadata(root)
	s.readOutput(root)
	s.readRun(root)
	s.readHold(root)
	s.readNotify(root)
	s.Freshness = root.duration("freshness", 0, 0)
	s.note(root)
	root.done()
}

// note remembers which keys of a section the file gives; Explain marks the rest.
func (s *Spec) note(sec *section) {
	for key := range sec.keys {
		if sec.has(key) {
			s.set[sec.path(key)] = true
		}
	}
}

// open starts a section of the file that may be absent.
func (s *Spec) open(root *section, name string) *section {
	sec := root.sub(name)
	if sec == nil {
		sec = &section{r: root.r, key: name, node: root.node}
	}
	s.note(sec)
	return sec
}

// close complains of unknown keys in a section that is there.
func (s *Spec) close(sec *section) {
	if sec.keys != nil {
		sec.done()
	}
}

// Separate tells whether each topic is a data set of its own.
func (s *Spec) Separate() bool {
	return !s.Source.MergeTopics && (s.Source.Pattern != "" || len(s.Source.Topics) > 1)
}

// checkWhole checks what concerns several sections at once.
func (s *Spec) checkWhole(root *section, check func(*loader.Spec) error) {
	out := root.keys["output"]
	hasTopic := strings.Contains(s.Output.Root, "{topic}")
	switch {
	case s.Output.Root == "":
	case s.Separate() && !hasTopic:
		root.r.say(out, "output.root", "several topics are several data sets: put {topic} into the root, or set source.merge_topics: true with a declared schema")
	case s.Source.MergeTopics && hasTopic:
		root.r.say(out, "output.root", "merge_topics shares one data set: take {topic} out of the root")
	}
	if s.Source.MergeTopics && s.Schema == nil && !root.has("schema") {
		root.r.say(root.keys["source"], "source.merge_topics", "a shared data set needs its columns declared under schema:")
	}
	if len(root.r.problems) > 0 {
		return
	}
	l, err := s.Load(s.anyTopic(), time.Now())
	if err == nil {
		err = check(l)
	}
	if err != nil {
		key, msg, found := strings.Cut(err.Error(), ": ")
		node := root.node
		if at := root.find(key); found && at != nil {
			node = at
		} else if !found || !dotted.MatchString(key) {
			key, msg = "", err.Error()
		}
		root.r.say(node, key, "%s", msg)
	}
}

var dotted = regexp.MustCompile(`^[a-z_]+(\.[a-z_]+)*$`)

func (s *Spec) anyTopic() string {
	if !s.Separate() {
		return ""
	}
	if len(s.Source.Topics) > 0 {
		return s.Source.Topics[0]
	}
	return "topic"
}
