package loader

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"sawlog/broker/record"
	"sawlog/formats"
)

// visit is a view of a country.
func visit(hour, minute int, country string) string {
	return strings.TrimSuffix(view(hour, minute, "/p"), "}") + `,"country":` + country + "}"
}

// foldersOf lists the folders that hold data files, relative to the root.
func (r *rig) foldersOf() (folders []string) {
	r.t.Helper()
	for _, v := range r.ledger().Fold().All() {
		if v.Hour == nil {
			continue
		}
		if dir := filepath.Dir(v.Path); !slices.Contains(folders, dir) {
			folders = append(folders, dir)
		}
		if _, err := os.Stat(filepath.Join(r.root, v.Path)); err != nil {
			r.t.Error(err)
		}
	}
	slices.Sort(folders)
	return folders
}

// fieldRig loads visits of many kinds of countries in two hours, twice.
func fieldRig(t *testing.T) *rig {
	t.Helper()
	r := newRig(t, 2)
	r.spec.Fields, r.spec.Merge = []string{"country"}, mergeNever
	for p := range 2 {
		r.src.log("views", int32(p)).put(t, 3, record.None, lines(
			visit(9, 0, `"DE"`), visit(9, 1, `"a/b=c%"`), visit(9, 2, `""`), visit(9, 3, `null`), view(9, 4, "/none"), visit(10, 0, `"DE"`), "bad",
			visit(9, 5, `"`+strings.Repeat("x", 300)+`"`), visit(9, 6, `"é \u0001"`), visit(10, 1, `"`+strings.Repeat("y", 240)+`"`))...)
	}
	out := r.load(PlanAsk{})
	if out.Rows != 16 || out.Quarantined != 4 {
		t.Fatalf("%+v", out)
	}
	r.src.log("views", 0).put(t, 3, record.None, lines(visit(9, 30, `"DE"`), visit(9, 31, `"FR"`))...)
	r.load(PlanAsk{})
	return r
}

const hourNine, hourTen = "dt=2026-11-29/hr=09", "dt=2026-11-29/hr=10"

// TestFields loads into a folder for each value, and carries out on them all that
// can be done to files.
func TestFields(t *testing.T) {
	r := fieldRig(t)
	want := []string{
		hourNine + "/country=DE", hourNine + "/country=FR", hourNine + "/country=__HIVE_DEFAULT_PARTITION__",
		hourNine + "/country=a%2Fb%3Dc%25", hourNine + "/country=é %01", hourTen + "/country=DE", hourTen + "/country=" + strings.Repeat("y", 240),
	}
	if got := r.foldersOf(); !slices.Equal(got, want) {
		t.Errorf("folders\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	// The column in the files has another name than the folders.
	before := r.content("_partition", "_offset", "country_2", "path")
	for _, row := range []string{`/country=a%2Fb%3Dc%25 0 1 "a/b=c%" "/p"`, `/country=__HIVE_DEFAULT_PARTITION__ 1 2 "" "/p"`, `/country=__HIVE_DEFAULT_PARTITION__ 0 4 null "/none"`} {
		if !slices.Contains(before, hourNine+row) || len(before) != 18 {
			t.Errorf("no row %s in\n%s", row, strings.Join(before, "\n"))
		}
	}
	r.sound()
	if report, err := r.againstLog(""); err != nil || report.Log.Rows != 18 {
		t.Errorf("against the log: %+v, %v", report, err)
	}
	r.fieldMarks()
	if report, err := r.d.Rerun(t.Context(), "run-1"); err != nil || report.Identical == 0 || report.Restored != 0 {
		t.Errorf("rerun: %+v, %v", report, err)
	}
	// A folder is lost, and made again.
	if err := os.RemoveAll(filepath.Join(r.root, want[3])); err != nil {
		t.Fatal(err)
	}
	if report, err := r.d.Rerun(t.Context(), "run-1"); err != nil || report.Restored != 2 {
		t.Errorf("rerun of a lost folder: %+v, %v", report, err)
	}
	r.sound()
	// Files are merged value by value.
	if out := r.rewrite(RewriteAsk{}); out.Rows == 0 {
		t.Errorf("rewrite: %+v", out)
	}
	if got := r.foldersOf(); !slices.Equal(got, want) {
		t.Errorf("folders after a rewrite\n%s", strings.Join(got, "\n"))
	}
	if after := r.content("_partition", "_offset", "country_2", "path"); !slices.Equal(after, before) {
		t.Errorf("rows after a rewrite\n%s", strings.Join(after, "\n"))
	}
	if report, err := r.againstLog(""); err != nil || report.Log.Rows != 18 {
		t.Errorf("against the log after a rewrite: %+v, %v", report, err)
	}
	r.sound()
	r.fieldMarks()
	// Offsets are loaded again, folder by folder.
	out := r.load(PlanAsk{Kind: Supersede, Again: &Again{Of: []string{"run-1", "run-2"}}})
	if out.Rows != 18 {
		t.Errorf("supersede: %+v", out)
	}
	if got := r.foldersOf(); !slices.Equal(got, want) {
		t.Errorf("folders after a supersede\n%s", strings.Join(got, "\n"))
	}
	if after := r.content("_partition", "_offset", "country_2", "path"); !slices.Equal(after, before) {
		t.Errorf("rows after a supersede\n%s", strings.Join(after, "\n"))
	}
	r.sound()
	r.fieldMarks()
}

// fieldMarks wants one manifest for each hour, in its folder, of all files below.
func (r *rig) fieldMarks() {
	r.t.Helper()
	files := map[string]int{}
	for _, v := range r.ledger().Fold().All() {
		if v.Hour != nil {
			files[filepath.Dir(filepath.Dir(v.Path))]++
		}
	}
	if err := filepath.WalkDir(r.root, func(name string, _ os.DirEntry, err error) error {
		if filepath.Base(name) != manifestName {
			return err
		}
		dir, err := filepath.Rel(r.root, filepath.Dir(name))
		if err != nil {
			return err
		}
		m, err := readManifest(r.d.Sink, dir)
		if err != nil {
			return err
		}
		if len(m.Files) != files[dir] {
			r.t.Errorf("%s lists %d files, want %d", name, len(m.Files), files[dir])
		}
		for _, file := range m.Files {
			if _, err := os.Stat(filepath.Join(r.root, dir, file.Name)); err != nil {
				r.t.Error(err)
			}
		}
		delete(files, dir)
		return nil
	}); err != nil || len(files) > 0 {
		r.t.Errorf("hours without a manifest: %v, %v", files, err)
	}
}

// TestFieldsAreSealedAndRetired seals an hour of several folders, loads late rows
// into a new one, and drops all of it.
func TestFieldsAreSealedAndRetired(t *testing.T) {
	r := newRig(t, 1)
	r.spec.Fields = []string{"country"}
	r.src.log("views", 0).put(t, 10, record.None, lines(visit(9, 0, `"DE"`), visit(9, 1, `"FR"`), visit(12, 0, `"DE"`))...)
	r.load(PlanAsk{})
	success := filepath.Join(r.root, SuccessPath(hourNine))
	if _, err := os.Stat(success); err != nil {
		t.Errorf("the hour is not sealed: %v", err)
	}
	r.src.log("views", 0).put(t, 10, record.None, lines(visit(9, 2, `"IT"`))...)
	if out := r.load(PlanAsk{}); len(out.Hours) != 1 || out.Hours[0].Late != 1 {
		t.Errorf("%+v", out)
	}
	r.sound()
	hour := *r.ledger().Fold().All()[0].Hour
	if _, _, err := r.ledger().Drop(t.Context(), "drop", DropAsk{Hours: &HourSpan{hour, hour + 3600}}, CommitOptions{}); err != nil {
		t.Fatal(err)
	}
	if got := r.foldersOf(); !slices.Equal(got, []string{"dt=2026-11-29/hr=12/country=DE"}) {
		t.Errorf("folders %v", got)
	}
	r.sound()
}

// TestFieldsInLittleMemory writes the same files whether or not rows wait on disk.
func TestFieldsInLittleMemory(t *testing.T) {
	r := newRig(t, 1)
	r.spec.Fields = []string{"country", "n"}
	r.spec.Schema = &formats.Schema{Fields: []formats.Field{
		{Name: "country", Type: &formats.Type{Kind: formats.String}}, {Name: "n", Type: &formats.Type{Kind: formats.Int64}}, {Name: "pad", Type: &formats.Type{Kind: formats.String}},
	}}
	var values []string
	for i := range 3000 {
		values = append(values, fmt.Sprintf(`{"ts":"2026-11-29T%02d:00:00Z","country":"c%d","n":%d,"pad":"%d%s"}`, i%3, i%7, i%20, i, strings.Repeat("x", 9000)))
	}
	r.src.log("views", 0).put(t, 20, record.None, lines(values...)...)
	p, _ := r.plan(PlanAsk{})
	var want map[string]string
	for _, memory := range []int64{512 << 20, leastMemory(p.Schema, &p.Writer)} {
		sorts := false
		got := hashes(r.attempt(p, 0, func(c *taskConfig) {
			c.memory, c.fetch = memory, 100_000
			c.progress = func(p TaskProgress) { sorts = sorts || p.Phase == "write" }
		}))
		if want == nil {
			want = got
		}
		if len(got) != 420 || !maps.Equal(got, want) || sorts != (memory < 512<<20) {
			t.Errorf("memory %d: %d files, or others than the %d before; sorted: %t", memory, len(got), len(want), sorts)
		}
	}
}

// TestFieldsRefused lists fields that cannot name folders.
func TestFieldsRefused(t *testing.T) {
	for _, tt := range []struct {
		fields []string
		want   string
	}{
		{[]string{"_topic"}, "want letters"},
		{[]string{"a/b"}, "want letters"},
		{[]string{"HR"}, "names a folder already"},
		{[]string{"a", "a"}, "names a folder already"},
		{[]string{"a", "b", "c", "d", "e"}, "want 4 at most"},
		{[]string{"nope"}, `no column holds "nope"`},
		{[]string{"price"}, `"price" is double`},
		{[]string{"geo"}, `"geo" is struct`},
	} {
		r := newRig(t, 1)
		r.spec.Fields = tt.fields
		r.spec.Schema = &formats.Schema{}
		for _, name := range []string{"a", "b", "c", "d", "e"} {
			r.spec.Schema.Fields = append(r.spec.Schema.Fields, formats.Field{Name: name, Type: &formats.Type{Kind: formats.String}})
		}
		r.spec.Schema.Fields = append(r.spec.Schema.Fields, formats.Field{Name: "price", Type: &formats.Type{Kind: formats.Double}}, geoField())
		if err := r.spec.Validate(); ExitCode(err) != ExitUsage || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%v: %v, want %s", tt.fields, err, tt.want)
		}
	}
	r := newRig(t, 1)
	r.spec.Fields, r.spec.Decode.Exclude = []string{"country"}, []string{"country"}
	exits(t, r.spec.Validate(), ExitUsage, `no column holds "country"`)
	r = fieldRig(t)
	r.spec.Fields = nil
	_, _, err := r.d.Plan(t.Context(), &r.spec, PlanAsk{})
	exits(t, err, ExitConflict, "begun with")
}

// TestFieldOfAnInferredType refuses a field that turns out to be of a type that
// names no folder, once the type is known: at the revision of the first plan.
func TestFieldOfAnInferredType(t *testing.T) {
	r := newRig(t, 1)
	r.spec.Fields = []string{"price"}
	r.src.log("views", 0).put(t, 1, record.None, lines(`{"ts":"2026-11-29T09:00:00Z","price":1.5}`)...)
	p, _ := r.plan(PlanAsk{})
	_, err := r.d.Run(t.Context(), p, RunAsk{Run: "run"})
	exits(t, err, ExitConflict, `"price" is double`)
	if _, err := OpenLedger(t.Context(), r.d.Sink, "", "", LedgerConfig{}); ExitCode(err) != ExitNotFound {
		t.Errorf("it has a ledger: %v", err)
	}
}

func geoField() formats.Field {
	return formats.Field{Name: "geo", Type: &formats.Type{Kind: formats.Struct, Fields: []formats.Field{
		{Name: "lat", Type: &formats.Type{Kind: formats.Double}}, {Name: "city", From: []string{"town"}, Type: &formats.Type{Kind: formats.String}},
	}}}
}

// TestFieldsAreFound names fields by declared and new names of columns, and by
// key paths into structs.
func TestFieldsAreFound(t *testing.T) {
	r := newRig(t, 1)
	text := &formats.Type{Kind: formats.String}
	r.spec.Fields = []string{"country", "state", "geo.town", "n"}
	r.spec.Decode.Rename = map[string]string{"province": "state"}
	r.spec.Schema = &formats.Schema{Fields: []formats.Field{
		{Name: "country", From: []string{"where", "land"}, Type: text}, geoField(), {Name: "province", Type: text}, {Name: "n", Type: &formats.Type{Kind: formats.Int64}},
	}}
	want := []BucketField{{Name: "country", From: "where.land"}, {Name: "state", From: "province"}, {Name: "geo.town"}, {Name: "n"}}
	if got := fieldsOf(&r.spec); !slices.Equal(got, want) {
		t.Errorf("fields %+v, want %+v", got, want)
	}
	r.src.log("views", 0).put(t, 3, record.None, lines(
		`{"ts":"2026-11-29T09:00:00Z","where":{"land":"DE"},"province":"BE","geo":{"town":"B"},"n":-7}`,
		`{"ts":"2026-11-29T09:00:00Z","where":{},"geo":{"lat":1.5}}`,
		`{"ts":"2026-11-29T09:00:00Z","province":"","geo":null,"n":0}`)...)
	r.load(PlanAsk{})
	got := r.foldersOf()
	slices.Sort(got)
	nothing := "__HIVE_DEFAULT_PARTITION__"
	if folders := []string{
		hourNine + "/country=DE/state=BE/geo.town=B/n=-7",
		hourNine + "/country=" + nothing + "/state=" + nothing + "/geo.town=" + nothing + "/n=0",
		hourNine + "/country=" + nothing + "/state=" + nothing + "/geo.town=" + nothing + "/n=" + nothing,
	}; !slices.Equal(got, folders) {
		t.Errorf("folders\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(folders, "\n"))
	}
	r.sound()
}

// TestFoldersAreBounded ends a split that would write to folders without end,
// and tells folders apart whose names share their letters.
func TestFoldersAreBounded(t *testing.T) {
	s := &formats.Schema{Fields: []formats.Field{{Name: "a", Type: &formats.Type{Kind: formats.String}}, {Name: "b", Type: &formats.Type{Kind: formats.String}}}}
	o := formats.Options{Value: "json", Time: formats.TimeOptions{Field: []string{"_timestamp"}}, Metadata: []string{}}
	decoder, err := formats.NewDecoder(s, o)
	if err != nil {
		t.Fatal(err)
	}
	f, err := newFolders(Bucket{Unit: UnitHour, Zone: "UTC", Path: "%Y%m%d%H", Fields: []BucketField{{Name: "a"}, {Name: "b"}}}, s)
	if err != nil {
		t.Fatal(err)
	}
	cols := formats.NewColumns(s)
	number := func(value string) (int64, error) {
		cols.Reset()
		at, err := decoder.Append(cols, &formats.Message{Timestamp: 0, Value: []byte(value)})
		if err != nil {
			t.Fatal(err)
		}
		return f.Number(at, cols)
	}
	for i, value := range []string{`{"a":"x","b":"yz"}`, `{"a":"xy","b":"z"}`, `{"a":"x/yz","b":""}`, `{"a":"x"}`, `{"b":"x"}`} {
		if n, err := number(value); err != nil || n != int64(i) {
			t.Errorf("%s is in folder %d, %v, want %d", value, n, err, i)
		}
		if n, err := number(value); err != nil || n != int64(i) || f.Find(f.At(n).bucket, f.At(n).values) != n {
			t.Errorf("%s again is in folder %d, %v, want %d", value, n, err, i)
		}
	}
	for i := 0; ; i++ {
		if _, err := number(fmt.Sprintf(`{"a":"%d","b":"x"}`, i)); err != nil {
			exits(t, err, ExitConflict, "folders in one split")
			if i < 10_000 {
				t.Errorf("%d folders were too many", i)
			}
			return
		}
	}
}

// TestEscaped holds values in paths as Hive has them.
func TestEscaped(t *testing.T) {
	for text, want := range map[string]string{
		"DE": "DE", "a b": "a b", "a/b": "a%2Fb", "50%": "50%25", "k=v": "k%3Dv", "\x00\n\x7f": "%00%0A%7F", "é": "é", "..": "..",
		`"#'*:?\{[]^`: "%22%23%27%2A%3A%3F%5C%7B%5B%5D%5E", "}<>|+": "}<>|+",
	} {
		if got := string(appendEscaped(nil, []byte(text))); got != want || !escaped(got) {
			t.Errorf("%q is %q, want %q", text, got, want)
		}
	}
	for _, value := range []string{"", "a/b", "a=b", "\n", strings.Repeat("x", 300)} {
		if escaped(value) {
			t.Errorf("%q passes for a value in a path", value)
		}
	}
}
