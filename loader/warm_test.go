package loader

import (
	"encoding/hex"
	"io"
	"math/rand/v2"

	"sawlog/formats"
	"sawlog/formats/parquet"
)

// The encoders that writers of Parquet files keep are made at their first use. Made
// in a bubble, nobody outside it could use them; so those of new files, which are
// what tests in bubbles write, are used here before any test.
var _ = warm()

func warm() bool {
	s := &formats.Schema{Fields: []formats.Field{{Name: "id", Type: &formats.Type{Kind: formats.String}}}}
	w, err := parquet.NewWriter(io.Discard, s, parquet.Options{})
	if err != nil {
		panic(err)
	}
	c := formats.NewColumns(s)
	rnd := rand.NewChaCha8([32]byte{})
	var id [32]byte
	for range 4096 {
		_, _ = rnd.Read(id[:]) // never fails
		c.Put(0, 1, 0, []byte(hex.EncodeToString(id[:])))
		c.EndRow()
	}
	if err := w.Write(c); err != nil {
		panic(err)
	}
	if err := w.Close(); err != nil {
		panic(err)
	}
	return true
}
