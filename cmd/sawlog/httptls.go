package main

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net"
	"net/http"
	"os"
	"sync"
	"time"

	"sawlog/cmd/sawlog/output"
)

// certificate is that of the HTTP side. Its files are read again when they have
// changed, so that one that is renewed needs no restart.
type certificate struct {
	cert, key string // files

	mu      sync.Mutex
	current *tls.Certificate
	at      time.Time // the files' last change that current is of
}

func openCertificate(cert, key string) (*certificate, error) {
	c := &certificate{cert: cert, key: key}
	at, err := c.changed()
	if err == nil {
		err = c.read(at)
	}
	if err != nil {
		return nil, output.Errorf(output.Usage, "--http-cert %s, --http-key %s: %w", cert, key, err)
	}
	return c, nil
}

// changed is when the later of the two files was written.
func (c *certificate) changed() (last time.Time, err error) {
	for _, file := range []string{c.cert, c.key} {
		info, err := os.Stat(file)
		if err != nil {
			return last, err
		}
		if info.ModTime().After(last) {
			last = info.ModTime()
		}
	}
	return last, nil
}

func (c *certificate) read(at time.Time) error {
	pair, err := tls.LoadX509KeyPair(c.cert, c.key)
	if err == nil {
		c.current, c.at = &pair, at
	}
	return err
}

// get is asked at each handshake. While the files don't fit together, or are not
// there, the certificate of before goes on.
func (c *certificate) get(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if at, err := c.changed(); err == nil && !at.Equal(c.at) {
		_ = c.read(at) // the next handshake tries again
	}
	return c.current, nil
}

// serveWeb serves a listener, by TLS where there is a certificate.
func (s *server) serveWeb(web net.Listener, cert *certificate) error {
	if cert == nil {
		return s.http.Serve(web)
	}
	s.http.TLSConfig = &tls.Config{GetCertificate: cert.get, MinVersion: tls.VersionTLS12}
	return s.http.ServeTLS(web, "", "")
}

// webURL is where the console is.
func (s *server) webURL() string {
	if s.secure {
		return "https://" + s.httpAddr
	}
	return "http://" + s.httpAddr
}

// trusted are the authorities that nodes know each other by: those of the system,
// and what stands in the file of the own certificate.
func (c *certificate) trusted() (*x509.CertPool, error) {
	pool, err := x509.SystemCertPool()
	if err != nil {
		pool = x509.NewCertPool()
	}
	text, err := os.ReadFile(c.cert)
	if err != nil {
		return nil, err
	}
	if !pool.AppendCertsFromPEM(text) {
		return nil, fmt.Errorf("%s: no certificate in it", c.cert)
	}
	return pool, nil
}

// secure has requests passed on by TLS, to nodes that one of the authorities
// vouches for.
func (f *forward) secure(trusted *x509.CertPool) {
	f.scheme = "https"
	transport := f.proxy.Transport.(*http.Transport)
	transport.TLSClientConfig = &tls.Config{RootCAs: trusted, MinVersion: tls.VersionTLS12}
}
