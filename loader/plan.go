package loader

import (
	"sawlog/formats"
	"sawlog/offsets"
)

// Plan is everything the bytes of a run depend on, frozen. Its id is the first
// 16 hex digits of the sha256 of its canonical JSON (sorted keys, integers).
// The root it is carried out under, memory, parallelism and fetch size are no
// part of it.
type Plan struct {
	V       int    `json:"v"`
	Dataset string `json:"dataset"` // name of the data set
	Job     string `json:"job"`
	Kind    Kind   `json:"kind"`           // load, backfill, supersede, compact
	Tick    string `json:"tick,omitempty"` // RFC 3339 time of the tick the plan is for
	Now     int64  `json:"now"`            // milliseconds since the epoch, at planning
	Base    int64  `json:"base"`           // ledger head at planning; -1 = empty ledger
	// Replaces is the id of the plan this one revises (a schema revision).
	Replaces string `json:"replaces,omitempty"`
	Revision int    `json:"revision,omitempty"`

	Cluster   string      `json:"cluster"` // cluster id of the source
	Topics    []PlanTopic `json:"topics"`
	Isolation string      `json:"isolation"` // read_committed | read_uncommitted
	Inputs    []PlanInput `json:"inputs"`    // one per partition, (topic, partition) order
	Splits    []Split     `json:"splits"`

	Schema  *formats.Schema `json:"schema"`
	Decode  formats.Options `json:"decode"`
	Bucket  Bucket          `json:"bucket"`
	Writer  Writer          `json:"writer"`
	MaxBad  MaxBad          `json:"max_bad"`
	Gaps    string          `json:"accept_gap,omitempty"` // the reason a person gave; "" = a gap is an error
	GapsBy  string          `json:"accept_gap_by,omitempty"`
	Retires []string        `json:"retires,omitempty"` // final paths a supersede or compact replaces
}

// PlanTopic is one topic of a plan.
type PlanTopic struct {
	Name    string          `json:"name"`
	ID      offsets.TopicID `json:"id"`
	Compact bool            `json:"compact"` // has or had cleanup.policy compact
}

// PlanInput is the frozen range of one partition.
type PlanInput struct {
	Topic     string          `json:"topic"`
	TopicID   offsets.TopicID `json:"topicId"`
	Partition int32           `json:"partition"`
	offsets.Range
	LogStart   offsets.Offset `json:"logStart"`   // at planning
	LastStable offsets.Offset `json:"lastStable"` // at planning
	// Gap is the part of the range that retention had removed at planning and
	// that a person accepted.
	Gap int64 `json:"gap,omitempty"`
}

// Split is the unit of parallel work: ranges packed in (topic, partition)
// order. It makes at most one file per folder.
type Split struct {
	Index  int          `json:"index"`
	Ranges []SplitRange `json:"ranges"`
	// Schema is set on a split carried over from the plan this one replaces:
	// the schema its stage was written with. Stage is that plan's id.
	Schema *formats.Schema `json:"schema,omitempty"`
	Stage  string          `json:"stage,omitempty"`
	// Hour and Files are those of a compact plan: the files this split writes
	// anew as one, in order of their ranges, all of one hour and folder.
	Hour  *int64      `json:"hour,omitempty"`
	Files []SplitFile `json:"files,omitempty"`
}

// SplitFile is a visible file that a compact plan writes anew.
type SplitFile struct {
	Path   string       `json:"path"`
	SHA256 string       `json:"sha256"`
	Bytes  int64        `json:"bytes"`
	Rows   int64        `json:"rows"`
	Parts  []SplitRange `json:"parts"` // its rows lie in them
	Values []string     `json:"values,omitempty"`
}

// SplitRange is one range of a split.
type SplitRange struct {
	Topic     string          `json:"topic"`
	TopicID   offsets.TopicID `json:"topicId"`
	Partition int32           `json:"partition"`
	offsets.Range
}

// Bucket is the rule that puts a row into an hour folder.
type Bucket struct {
	Unit     string `json:"unit"` // hour | day
	Zone     string `json:"zone"` // cut at this zone's wall clock
	ZoneHash string `json:"zone_hash"`
	Path     string `json:"path"` // strftime letters; dt=%Y-%m-%d/hr=%H
	// Fields make folders below that of the bucket (folder.go).
	Fields   []BucketField `json:"fields,omitempty"`
	Lateness int64         `json:"lateness_ms"` // an hour seals this long after its end
}

// Writer freezes how files are made.
type Writer struct {
	Profile    int    `json:"profile"` // number of the writer profile
	Format     string `json:"format"`  // parquet | arrow | jsonl
	Codec      string `json:"codec"`   // one of Codecs(Format)
	Level      int    `json:"level,omitempty"`
	Encodings  string `json:"encodings,omitempty"` // plain | "" = all
	BatchRows  int    `json:"batch_rows"`
	BatchBytes int64  `json:"batch_bytes"`
	GroupBytes int64  `json:"group_bytes"`
	GroupRows  int    `json:"group_rows"`
	PageBytes  int64  `json:"page_bytes"` // page and dictionary limit
}

// upgrade has files made by a newer profile. Whoever read those that a plan made
// before profile 3 knows no encodings but theirs.
func (w *Writer) upgrade(profile int) {
	if w.Profile < 3 && profile >= 3 {
		w.Encodings = EncodingsPlain
	}
	w.Profile = profile
}

// MaxBad bounds the bad records of a run: a count, or a share in parts per
// million that applies from 1,000 records up. Zero = no limit.
type MaxBad struct {
	Count int64 `json:"count,omitempty"`
	PPM   int64 `json:"ppm,omitempty"`
}
