package local_test

import (
	"testing"

	"sawlog/broker/compat/peer"
	"sawlog/loader"
	"sawlog/loader/engine/enginetest"
	"sawlog/loader/engine/local"
	"sawlog/loader/sink"
)

func openTemp(t *testing.T) sink.Sink {
	s, err := openSink("file://"+t.TempDir(), sink.Access{})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestConformance(t *testing.T) {
	enginetest.Suite{
		Open: openTemp,
		Engine: func(t *testing.T, _ sink.Sink) loader.Engine {
			return &local.Engine{Command: []string{peer.Binary(t), "task", "exec", "--stdin"}, Spool: t.TempDir()}
		},
	}.Run(t)
}

func TestContract(t *testing.T) { enginetest.Contract(t, openTemp(t)) }
