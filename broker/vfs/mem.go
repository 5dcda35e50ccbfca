package vfs

import (
	"io"
	"math/rand/v2"
	"os"
)

// Op names an operation for fault injection.
type Op string

// Mem is a file system in memory that can lose power.
type Mem struct{}

// NewMem returns an empty file system.
func NewMem() *Mem { panic("unwritten") }

// CrashClone returns the file system as a power cut would leave it.
func (m *Mem) CrashClone(rnd *rand.Rand) *Mem { panic("unwritten") }

// Inject has fn asked before every operation; its error is the operation's.
func (m *Mem) Inject(fn func(op Op, name string) error) { panic("unwritten") }

func (m *Mem) OpenFile(name string, flag int, perm os.FileMode) (File, error) { panic("unwritten") }
func (m *Mem) Remove(name string) error                                       { panic("unwritten") }
func (m *Mem) RemoveAll(name string) error                                    { panic("unwritten") }
func (m *Mem) Rename(from, to string) error                                   { panic("unwritten") }
func (m *Mem) Link(from, to string) error                                     { panic("unwritten") }
func (m *Mem) Mkdir(name string, perm os.FileMode) error                      { panic("unwritten") }
func (m *Mem) MkdirAll(name string, perm os.FileMode) error                   { panic("unwritten") }
func (m *Mem) ReadDir(name string) ([]os.DirEntry, error)                     { panic("unwritten") }
func (m *Mem) Stat(name string) (os.FileInfo, error)                          { panic("unwritten") }
func (m *Mem) SyncDir(name string) error                                      { panic("unwritten") }
func (m *Mem) Lock(name string) (io.Closer, error)                            { panic("unwritten") }
