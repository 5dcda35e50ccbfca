package local

import (
	"os"
	"path/filepath"
	"reflect"
	"testing"

	"sawlog/loader"
	"sawlog/loader/sink"
)

// How a root is reached goes to each task beside its plan.
func TestAccessReachesTheTask(t *testing.T) {
	given := filepath.Join(t.TempDir(), "spec.json")
	e := &Engine{Command: []string{"sh", "-c", `cat > "$1"; exit 4`, "sh", given}}
	access := sink.Access{Namenodes: []string{"nn1:8020", "nn2"}, Keytab: "/etc/loader.keytab", Principal: "loader@EXAMPLE.ORG", Replication: 2, BlockSize: 1 << 20}
	if err := e.Run(t.Context(), loader.Work{Root: "hdfs://warehouse/a", Access: access, Splits: []int{0}}); err == nil {
		t.Error("a task that fails is no error")
	}
	f, err := os.Open(given)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }() // only read
	spec, err := loader.ReadExecSpec(f)
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(spec.Access, access) {
		t.Errorf("the task was given %+v", spec.Access)
	}
}
