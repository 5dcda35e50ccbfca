package loader

import (
	"crypto/sha256"
	"encoding/hex"
	"hash"
	"os"

	"sawlog/loader/sink"
)

// spool is a file on its way, on local disk until it is whole. Its sha256 is of
// what was written, not of what the disk gives back: a commit finds out when
// they differ.
type spool struct {
	*os.File
	hash hash.Hash
	size int64
}

func newSpool(dir string) (*spool, error) {
	file, err := sink.Scratch(dir)
	if err != nil {
		return nil, err
	}
	return &spool{File: file, hash: sha256.New()}, nil
}

// Write adds to the end of the file.
func (s *spool) Write(b []byte) (int, error) {
	n, err := s.File.Write(b)
	_, _ = s.hash.Write(b[:n]) // a hash takes everything
	s.size += int64(n)
	return n, err
}

// sum is the sha256 of the file in hex.
func (s *spool) sum() string { return hex.EncodeToString(s.hash.Sum(nil)) }
