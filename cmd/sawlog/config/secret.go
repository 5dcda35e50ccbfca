package config

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"syscall"
)

// minSecret is the shortest secret, in bytes: 128 random bits.
const minSecret = 16

// readSecret reads the secret that a setting names the file of.
func (c *Config) readSecret(v Value) error {
	if v.Value == "" {
		return nil
	}
	if v.Name == "cluster-key" {
		secret, err := readSecret(v.Value)
		if err != nil {
			return &Error{Place: v.Origin, Msg: "cluster-key: " + err.Error()}
		}
		c.ClusterKey = secret
		return nil
	}
	secret, err := ReadToken(v.Value)
	if err != nil {
		return &Error{Place: v.Origin, Msg: v.Name + ": " + err.Error()}
	}
	c.HTTPToken = secret
	return nil
}

// readSecret reads a file with a secret. White space around it is no part of
// it, so that an editor's last newline does no harm.
func readSecret(path string) ([]byte, error) {
	raw, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	secret := bytes.TrimSpace(raw)
	if len(secret) < minSecret {
		return nil, fmt.Errorf("%s holds %d bytes, a secret has %d at least: make one with sawlog cluster key FILE", path, len(secret), minSecret)
	}
	return secret, nil
}

// ReadToken reads a file with the token of the HTTP side. It must be fit for a
// header, and the file no business of others: its owner's alone or, where it is
// root's, its group's to read.
func ReadToken(path string) ([]byte, error) {
	info, err := os.Stat(path)
	if err != nil {
		if e, ok := errors.AsType[*fs.PathError](err); ok {
			err = e.Err // who gives the token for its file would see it in the log
		}
		return nil, fmt.Errorf("the FILE that the token stands in can't be read: %w", err)
	}
	allowed := fs.FileMode(0o700)
	if stat, ok := info.Sys().(*syscall.Stat_t); ok && stat.Uid == 0 {
		allowed = 0o740
	}
	if mode := info.Mode().Perm(); mode&^allowed != 0 {
		return nil, fmt.Errorf("%s has mode %04o, others can use it: chmod 600 %s (640 where root owns it)", path, mode, path)
	}
	token, err := readSecret(path)
	if err != nil {
		return nil, err
	}
	if bytes.ContainsFunc(token, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return nil, fmt.Errorf("%s: a token is of letters, digits and signs of ASCII, in one line without spaces", path)
	}
	return token, nil
}
