package broker

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// TestEveryRequestKindIsKnown holds apis and absentAPIs together against all
// request kinds there are.
func TestEveryRequestKindIsKnown(t *testing.T) {
	absent := map[int16]string{}
	for _, a := range absentAPIs() {
		absent[a.key] = a.name
		if a.reason == "" {
			t.Errorf("%s is absent without a reason", a.name)
		}
	}
	for key := range int16(kmsg.MaxKey + 1) {
		r := kmsg.RequestForKey(key)
		served, ok := findAPI(key)
		_, missing := absent[key]
		switch {
		case ok == missing:
			t.Errorf("key %d: served %v, absent %v", key, ok, missing)
		case r == nil:
			t.Errorf("key %d is unknown to the codec", key)
		case ok && served.max > r.MaxVersion():
			t.Errorf("key %d: version %d is served, the codec knows %d", key, served.max, r.MaxVersion())
		case missing:
			if name := kmsg.NameForKey(key); !strings.EqualFold(name, absent[key]) {
				t.Errorf("key %d is %s, not %s", key, name, absent[key])
			}
		}
		if !ok || r == nil {
			continue
		}
		for v := int16(0); v <= served.max; v++ {
			r.SetVersion(v)
			if r.IsFlexible() != (v >= served.flexible) {
				t.Errorf("key %d version %d: flexible %v in the codec", key, v, r.IsFlexible())
			}
		}
	}
	if !slices.IsSortedFunc(apis[:], func(a, b api) int { return int(a.key) - int(b.key) }) {
		t.Error("the version table is out of order")
	}
}

// absentTable is the list of absent requests as README.md shows it.
func absentTable() string {
	var reasons []string
	names := map[string][]string{}
	for _, a := range absentAPIs() {
		if !slices.Contains(reasons, a.reason) {
			reasons = append(reasons, a.reason)
		}
		names[a.reason] = append(names[a.reason], fmt.Sprintf("%s (%d)", a.name, a.key))
	}
	var b strings.Builder
	b.WriteString("| not served | why |\n|--|--|\n")
	for _, reason := range reasons {
		fmt.Fprintf(&b, "| %s | %s |\n", strings.Join(names[reason], ", "), reason)
	}
	return b.String()
}

// TestReadmeShowsWhatIsAbsent compares README.md's table with the list.
func TestReadmeShowsWhatIsAbsent(t *testing.T) {
	readme, err := os.ReadFile("../README.md")
	if err != nil {
		t.Fatal(err)
	}
	_, after, found := strings.Cut(string(readme), "| not served | why |")
	if !found {
		t.Fatal("README.md has no table of absent requests")
	}
	shown, _, _ := strings.Cut("| not served | why |"+after, "\n\n")
	if want := strings.TrimSpace(absentTable()); strings.TrimSpace(shown) != want {
		t.Errorf("README.md shows\n%s\nwant\n%s", shown, want)
	}
}
