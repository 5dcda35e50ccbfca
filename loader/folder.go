package loader

import (
	"encoding/binary"
	"fmt"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"

	"sawlog/formats"
)

// Where rows go. A bucket has one folder; where its rule names fields, the rows
// go below it, to one folder a value, as Hive names them:
//
//	dt=2026-11-29/hr=14/country=DE/plan=a%2Fb/FILE
//
// A null and an empty text are __HIVE_DEFAULT_PARTITION__. The manifest and the
// success mark stand in the bucket's folder and are of all files below it. The
// columns stay in the files, under names that differ from those of the folders:
// readers make columns of folders, too, and tell null from empty by the file's.
const noValue = "__HIVE_DEFAULT_PARTITION__"

const (
	maxFields = 4
	// maxFolderNames is what one split's names of folders may take in memory, in
	// bytes: about 60,000 folders.
	maxFolderNames = 16 << 20
	// maxFolderName is the longest name of a folder that file stores take, in bytes.
	maxFolderName = 255
)

// BucketField is a field of the records whose values make folders.
type BucketField struct {
	Name string `json:"name"`           // of the folders: NAME=value
	From string `json:"from,omitempty"` // dotted key path in the record; empty = Name
}

func (f *BucketField) from() string {
	if f.From != "" {
		return f.From
	}
	return f.Name
}

// fieldPattern is what names a field that folders can be named by.
var fieldPattern = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_.-]{0,99}$`)

// fieldsOf says where the fields a spec names are: each is a column by its
// declared or new name, or else the dotted key path of one.
func fieldsOf(s *Spec) []BucketField {
	var fields []BucketField
	for _, name := range s.Fields {
		from := name
		for _, old := range slices.Sorted(maps.Keys(s.Decode.Rename)) {
			if s.Decode.Rename[old] == name {
				from = old
				break
			}
		}
		if s.Schema != nil {
			for i := range s.Schema.Fields {
				if f := &s.Schema.Fields[i]; f.Name == from && !f.Metadata() {
					from = strings.Join(f.Keys(), ".")
					break
				}
			}
		}
		field := BucketField{Name: name}
		if from != name {
			field.From = from
		}
		fields = append(fields, field)
	}
	return fields
}

// checkFields refuses fields that cannot name folders below those of a path.
func checkFields(fields []BucketField, path string) error {
	taken := pathKeys(path)
	for i := range fields {
		name := fields[i].Name
		switch {
		case !fieldPattern.MatchString(name):
			return fmt.Errorf("partition_by.fields: %q: want letters, digits, '_', '.' and '-', the first a letter or a digit", name)
		case slices.ContainsFunc(taken, func(other string) bool { return strings.EqualFold(other, name) }):
			return fmt.Errorf("partition_by.fields: %q names a folder already", name)
		}
		taken = append(taken, name)
	}
	if len(fields) > maxFields {
		return fmt.Errorf("partition_by.fields: %d fields: want %d at most", len(fields), maxFields)
	}
	return nil
}

// fieldNames shows fields.
func fieldNames(fields []BucketField) string {
	names := make([]string, len(fields))
	for i := range fields {
		names[i] = fields[i].Name
	}
	return fmt.Sprintf("%q", names)
}

// leafOf finds the leaf a field is in; -1 = the schema has none.
func (f *BucketField) leafOf(s *formats.Schema) (int, error) {
	t, leaf := s.Find(f.from())
	if t == nil {
		return -1, nil
	}
	switch t.Kind {
	case formats.String, formats.Int32, formats.Int64, formats.Bool, formats.Date, formats.UUID:
		return leaf, nil
	}
	e := fail(ExitConflict, "partition_by.fields: %q is %s: want string, int32, int64, bool, date or uuid", f.Name, t)
	return -1, e.hint("declare its column under schema: with one of these types, for a data set in another root")
}

// haveFields wants a column for each field, of a type that can name folders. One
// that is inferred may come later; until then the field is null.
func haveFields(s *formats.Schema, o *formats.Options, fields []BucketField) error {
	for i := range fields {
		f := &fields[i]
		switch leaf, err := f.leafOf(s); {
		case err != nil:
			return err
		case leaf < 0 && (!s.Inferred || !o.Keeps(f.from())):
			return fmt.Errorf("partition_by.fields: no column holds %q%s", f.from(), orNear(f.from(), s.Paths()))
		}
	}
	return nil
}

// folders numbers the folders that rows go to, in the order they are met; where
// the rule names no fields, the number is the bucket's key. Not for concurrent use.
type folders struct {
	*bucketer
	fields []BucketField
	leaves []int // of the fields; -1 = none
	known  []folder
	ids    map[string]int64 // by bucket and values
	names  int              // bytes that known and ids are thought to take
	name   []byte           // scratch
	text   []byte           // scratch
}

// folder is a bucket, and the values of the fields as they stand in its path.
type folder struct {
	bucket int64
	values []string
}

func newFolders(b Bucket, s *formats.Schema) (*folders, error) {
	buckets, err := newBucketer(b)
	if err != nil {
		return nil, err
	}
	f := &folders{bucketer: buckets, fields: b.Fields, ids: map[string]int64{}}
	for i := range b.Fields {
		leaf, err := b.Fields[i].leafOf(s)
		if err != nil {
			return nil, err
		}
		f.leaves = append(f.leaves, leaf)
	}
	return f, nil
}

// Number is that of the folder of the last row of columns, whose event time is
// at. A *formats.BadRecord says that a value is too long for a folder's name.
func (f *folders) Number(at formats.Instant, c *formats.Columns) (int64, error) {
	bucket := f.Key(at)
	if len(f.fields) == 0 {
		return bucket, nil
	}
	name, err := f.values(bucket, c)
	if err != nil {
		return 0, err
	}
	if number, ok := f.ids[string(name)]; ok {
		return number, nil
	}
	if f.names += 2*len(name) + folderBytes; f.names > maxFolderNames {
		e := fail(ExitConflict, "partition_by.fields: more than %d folders in one split", len(f.known))
		return 0, e.hint("choose fields of fewer values, for a data set in another root")
	}
	number := int64(len(f.known))
	f.known = append(f.known, folder{bucket, strings.Split(string(name[8:len(name)-1]), "/")})
	f.ids[string(name)] = number
	return number, nil
}

// folderBytes is about what a known folder takes besides its name twice.
const folderBytes = 200

// values is what tells the folder of the last row of columns from others: the
// bucket's key, big-endian, and each value as paths have it, with a slash.
func (f *folders) values(bucket int64, c *formats.Columns) ([]byte, error) {
	f.name = binary.BigEndian.AppendUint64(f.name[:0], uint64(bucket))
	for i, leaf := range f.leaves {
		from, ok := len(f.name), false
		if leaf >= 0 {
			f.text, ok = c.LastText(f.text[:0], leaf)
		}
		if ok && len(f.text) > 0 {
			f.name = appendEscaped(f.name, f.text)
		} else {
			f.name = append(f.name, noValue...)
		}
		if n := len(f.fields[i].Name) + 1 + len(f.name) - from; n > maxFolderName {
			detail := fmt.Sprintf("field %q: %.40q makes a folder's name of %d bytes, more than %d", f.fields[i].Name, f.text, n, maxFolderName)
			return nil, &formats.BadRecord{Reason: formats.BadFolder, Detail: detail}
		}
		f.name = append(f.name, '/')
	}
	return f.name, nil
}

// Find is the number of a folder; -1 = no row went to it.
func (f *folders) Find(bucket int64, values []string) int64 {
	if len(f.fields) == 0 {
		return bucket
	}
	name := binary.BigEndian.AppendUint64(nil, uint64(bucket))
	for _, value := range values {
		name = append(append(name, value...), '/')
	}
	if number, ok := f.ids[string(name)]; ok {
		return number
	}
	return -1
}

// At is the folder of a number.
func (f *folders) At(number int64) folder {
	if len(f.fields) == 0 {
		return folder{bucket: number}
	}
	return f.known[number]
}

// Folder is its path, relative to the root.
func (f *folders) Folder(number int64) string {
	at := f.At(number)
	return below(f.Path(at.bucket), f.fields, at.values)
}

// below is the folder of values below the one of a bucket.
func below(dir string, fields []BucketField, values []string) string {
	for i := range fields {
		dir += "/" + fields[i].Name + "=" + values[i]
	}
	return dir
}

// HourDir is the folder of a file's bucket, where its manifest is.
func (file *File) HourDir() string {
	dir := path.Dir(file.Path)
	for range file.Values {
		dir = path.Dir(dir)
	}
	return dir
}

// special are the characters Hive escapes in paths, besides control characters.
const special = `"#%'*/:=?\{[]^`

// appendEscaped appends a value as Hive escapes it in paths.
func appendEscaped(dst, text []byte) []byte {
	for _, c := range text {
		if c < ' ' || c == 0x7f || strings.IndexByte(special, c) >= 0 {
			dst = fmt.Appendf(dst, "%%%02X", c)
		} else {
			dst = append(dst, c)
		}
	}
	return dst
}

// escaped tells whether a value stands in a path as appendEscaped writes it.
func escaped(value string) bool {
	return value != "" && len(value) < maxFolderName && !strings.ContainsFunc(value, func(c rune) bool {
		return c < ' ' || c == 0x7f || c != '%' && strings.ContainsRune(special, c)
	})
}

// placeOf is the final path of a split's file in the folder of its values, as the
// plan has it.
func (p *Plan) placeOf(b *bucketer, stagePlan string, s *Split, file *File) (string, error) {
	if len(file.Values) != len(p.Bucket.Fields) || slices.ContainsFunc(file.Values, func(v string) bool { return !escaped(v) }) {
		return "", fmt.Errorf("file %s: values %q of %d fields", file.Path, file.Values, len(p.Bucket.Fields))
	}
	return FinalPath(below(b.Path(*file.Hour), p.Bucket.Fields, file.Values), stagePlan, p.Writer.extension(), s), nil
}
