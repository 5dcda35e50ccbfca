package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"sawlog/broker"
)

// signed writes a certificate for 127.0.0.1 that vouches for itself, and its key.
func signed(t *testing.T, dir, name string) (cert, key string) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	serial, err := rand.Int(rand.Reader, big.NewInt(1<<62))
	if err != nil {
		t.Fatal(err)
	}
	of := &x509.Certificate{
		SerialNumber: serial, Subject: pkix.Name{CommonName: name}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	raw, err := x509.CreateCertificate(rand.Reader, of, of, &private.PublicKey, private)
	if err != nil {
		t.Fatal(err)
	}
	pkcs, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	cert, key = filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	for file, block := range map[string]*pem.Block{cert: {Type: "CERTIFICATE", Bytes: raw}, key: {Type: "PRIVATE KEY", Bytes: pkcs}} {
		if err := os.WriteFile(file, pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return cert, key
}

// TestHTTPS: a server with a certificate speaks TLS only, the command line knows
// it by its authority, and a renewed certificate counts without a restart.
func TestHTTPS(t *testing.T) {
	dir := t.TempDir()
	cert, key := signed(t, dir, "first")
	t.Setenv("SAWLOG_HTTP_CERT", cert)
	t.Setenv("SAWLOG_HTTP_KEY", key)
	n := startNode(t)
	served := func() string {
		conn, err := tls.Dial("tcp", n.web, &tls.Config{InsecureSkipVerify: true}) // whose it is, is looked at
		if err != nil {
			return err.Error()
		}
		defer func() { _ = conn.Close() }() // only the certificate counts
		return conn.ConnectionState().PeerCertificates[0].Subject.CommonName
	}
	n.eventually("it serves its certificate", 20*time.Second, func() bool { return served() == "first" })
	server := "https://" + n.web
	n.refused(6, []string{"certificate"}, "job", "list", "--server", server)
	t.Setenv("SSL_CERT_FILE", cert)
	n.eventually("the command line is answered", 20*time.Second, func() bool {
		_, code, _ := n.try("job", "list", "--server", server)
		return code == 0
	})
	if resp, err := http.Get("http://" + n.web + "/livez"); err == nil {
		_ = resp.Body.Close()
		if resp.StatusCode != http.StatusBadRequest {
			t.Errorf("without TLS: %d", resp.StatusCode)
		}
	}
	// Half of a new pair changes nothing; the whole does.
	other := t.TempDir()
	signed(t, other, "second")
	later := time.Now().Add(time.Minute)
	for i, file := range []string{"cert.pem", "key.pem"} {
		text, err := os.ReadFile(filepath.Join(other, file))
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, file), text, 0o600); err != nil {
			t.Fatal(err)
		}
		at := later.Add(time.Duration(i) * time.Second)
		if err := os.Chtimes(filepath.Join(dir, file), at, at); err != nil {
			t.Fatal(err)
		}
		if got, want := served(), []string{"first", "second"}[i]; got != want {
			t.Errorf("with %s of the new pair: %s, want %s", file, got, want)
		}
	}
	n.kill()
	for _, args := range [][]string{{"--http-cert", cert}, {"--http-cert", cert, "--http-key", cert}, {"--http-cert", "none.pem", "--http-key", key}} {
		t.Setenv("SAWLOG_HTTP_CERT", "")
		t.Setenv("SAWLOG_HTTP_KEY", "")
		n.refused(2, []string{"http-key"}, append([]string{"serve", "--data", filepath.Join(n.dir, "other"), "--listen", "127.0.0.1:0", "--http", "127.0.0.1:0", "--peer", "127.0.0.1:0"}, args...)...)
	}
}

// TestForwardByTLS: nodes know each other by what stands in the file of their own
// certificate, and pass nothing on to others.
func TestForwardByTLS(t *testing.T) {
	dir := t.TempDir()
	cert, key := signed(t, dir, "shared")
	pair, err := tls.LoadX509KeyPair(cert, key)
	if err != nil {
		t.Fatal(err)
	}
	leader := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { _, _ = fmt.Fprint(w, "over ", r.Proto) }))
	leader.TLS = &tls.Config{Certificates: []tls.Certificate{pair}}
	leader.StartTLS()
	defer leader.Close()
	own, err := openCertificate(cert, key)
	if err != nil {
		t.Fatal(err)
	}
	strange, strangeKey := signed(t, t.TempDir(), "strange")
	other, err := openCertificate(strange, strangeKey)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		of     *certificate
		status int
	}{{own, 200}, {other, 502}} {
		f := newForward(func() broker.JournalLeader {
			return broker.JournalLeader{Node: 2, HTTP: strings.TrimPrefix(leader.URL, "https://")}
		})
		trusted, err := c.of.trusted()
		if err != nil {
			t.Fatal(err)
		}
		f.secure(trusted)
		w := httptest.NewRecorder()
		f.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), "GET", "/api/v1/jobs", nil))
		if w.Code != c.status {
			t.Errorf("%s: %d %s", c.of.cert, w.Code, w.Body)
		}
	}
}
