package registry

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"
)

// What callers tell apart. A registry that does not answer may do so later.
var (
	ErrUnavailable = errors.New("registry is unavailable")
	ErrNotFound    = errors.New("registry has no such schema")
	ErrAuth        = errors.New("registry refuses the login")
	ErrUnusable    = errors.New("registry has a schema that can't be read")
)

// Config says where the registry is and how to log in.
type Config struct {
	URLs         []string // of one registry, asked in turn
	User         string   // of basic authentication; "" = none
	PasswordFile string
	CAFile       string        // PEM; "" = the system's authorities
	Timeout      time.Duration // of one request; 0 = 10 s
	Tries        int           // 0 = 4
	Pause        time.Duration // before the second try, doubled after each; 0 = 200 ms
}

// Schema is a schema as a registry keeps it.
type Schema struct {
	ID         uint32      `json:"id"`
	Version    int         `json:"version"`
	Type       string      `json:"schemaType"` // AVRO (""), PROTOBUF or JSON
	Text       string      `json:"schema"`
	References []Reference `json:"references"`
}

// Reference is what a schema says of another that it needs.
type Reference struct {
	Name    string `json:"name"` // as the schema calls it: a full name, a path to import
	Subject string `json:"subject"`
	Version int    `json:"version"`
}

// Client reads schemas. It is safe for concurrent use.
type Client struct {
	c        Config
	password string
	http     *http.Client

	mu    sync.Mutex
	fixed map[string]*Schema // versions of subjects, by path: they never change
}

const maxBody = 16 << 20

// New prepares a client; it connects to nothing.
func New(c Config) (*Client, error) {
	if len(c.URLs) == 0 {
		return nil, errors.New("registry: no URL")
	}
	for _, text := range c.URLs {
		u, err := url.Parse(text)
		if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
			return nil, fmt.Errorf("registry %q: want http://HOST:PORT or https://HOST:PORT", text)
		}
		if u.User != nil {
			return nil, fmt.Errorf("registry %s: a login in the URL would stand in every plan: give user and password", u.Redacted())
		}
	}
	if c.Timeout == 0 {
		c.Timeout = 10 * time.Second
	}
	if c.Tries == 0 {
		c.Tries = 4
	}
	if c.Pause == 0 {
		c.Pause = 200 * time.Millisecond
	}
	client := &Client{c: c, fixed: map[string]*Schema{}}
	if c.PasswordFile != "" {
		b, err := os.ReadFile(c.PasswordFile)
		if err != nil {
			return nil, fmt.Errorf("registry password: %w", err)
		}
		client.password = strings.TrimRight(string(b), "\r\n")
	}
	transport := http.DefaultTransport.(*http.Transport).Clone()
	if c.CAFile != "" {
		pem, err := os.ReadFile(c.CAFile)
		if err != nil {
			return nil, fmt.Errorf("registry authority: %w", err)
		}
		pool := x509.NewCertPool()
		if !pool.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("registry authority %s: holds no certificate", c.CAFile)
		}
		transport.TLSClientConfig = &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}
	}
	client.http = &http.Client{Timeout: c.Timeout, Transport: transport}
	return client, nil
}

// Close drops idle connections.
func (c *Client) Close() { c.http.CloseIdleConnections() }

// ByID is the schema of an id.
func (c *Client) ByID(ctx context.Context, id uint32) (*Schema, error) {
	s := &Schema{}
	err := c.get(ctx, "/schemas/ids/"+strconv.FormatUint(uint64(id), 10), s)
	s.ID = id // the answer does not repeat it
	return s, err
}

// Version is a version of a subject; 0 = the latest.
func (c *Client) Version(ctx context.Context, subject string, version int) (*Schema, error) {
	path := "/subjects/" + url.PathEscape(subject) + "/versions/latest"
	if version > 0 {
		path = "/subjects/" + url.PathEscape(subject) + "/versions/" + strconv.Itoa(version)
		c.mu.Lock()
		known := c.fixed[path]
		c.mu.Unlock()
		if known != nil {
			return known, nil
		}
	}
	s := &Schema{}
	err := c.get(ctx, path, s)
	if err == nil && version > 0 {
		c.mu.Lock()
		c.fixed[path] = s
		c.mu.Unlock()
	}
	return s, err
}

// Versions are the numbers of a subject's versions, in their order.
func (c *Client) Versions(ctx context.Context, subject string) ([]int, error) {
	var out []int
	err := c.get(ctx, "/subjects/"+url.PathEscape(subject)+"/versions", &out)
	return out, err
}

// Named is a schema that another refers to.
type Named struct {
	Name string
	Text string
}

// References are the schemas that s refers to, each after those it refers to.
func (c *Client) References(ctx context.Context, s *Schema) ([]Named, error) {
	r := resolver{client: c, state: map[string]int{}}
	err := r.add(ctx, s)
	return r.out, err
}

type resolver struct {
	client *Client
	state  map[string]int // by name: 1 = being read, 2 = read
	out    []Named
}

func (r *resolver) add(ctx context.Context, s *Schema) error {
	for _, ref := range s.References {
		switch r.state[ref.Name] {
		case 2:
			continue
		case 1:
			return fmt.Errorf("%w: %s refers to itself", ErrNotFound, ref.Name)
		}
		r.state[ref.Name] = 1
		to, err := r.client.Version(ctx, ref.Subject, ref.Version)
		if err != nil {
			return fmt.Errorf("reference %s: %w", ref.Name, err)
		}
		if err := r.add(ctx, to); err != nil {
			return err
		}
		r.state[ref.Name] = 2
		r.out = append(r.out, Named{ref.Name, to.Text})
	}
	return nil
}

// get asks until there is an answer.
func (c *Client) get(ctx context.Context, path string, into any) error {
	pause := c.c.Pause
	var err error
	for try := range c.c.Tries {
		if try > 0 {
			select {
			case <-ctx.Done():
				return ctx.Err()
			case <-time.After(pause):
			}
			pause *= 2
		}
		base := strings.TrimSuffix(c.c.URLs[try%len(c.c.URLs)], "/")
		if err = c.once(ctx, base+path, into); !errors.Is(err, ErrUnavailable) {
			return err
		}
	}
	return err
}

func (c *Client) once(ctx context.Context, address string, into any) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return err
	}
	req.Header.Set("Accept", "application/vnd.schemaregistry.v1+json, application/json")
	if c.c.User != "" {
		req.SetBasicAuth(c.c.User, c.password)
	}
	resp, err := c.http.Do(req)
	if err != nil {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		return fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxBody+1))
	if closed := resp.Body.Close(); err == nil {
		err = closed
	}
	if err == nil && len(body) > maxBody {
		return fmt.Errorf("%s: an answer of more than %d bytes", address, maxBody)
	}
	if err != nil {
		return fmt.Errorf("%w: %s: %w", ErrUnavailable, address, err)
	}
	if resp.StatusCode == http.StatusOK {
		if err := json.Unmarshal(body, into); err != nil {
			return fmt.Errorf("%w: %s: %w", ErrUnavailable, address, err) // a proxy's page, half an answer
		}
		return nil
	}
	return refusal(address, resp.StatusCode, body)
}

// refusal is the error of an answer other than 200.
func refusal(address string, status int, body []byte) error {
	var said struct {
		Code    int    `json:"error_code"`
		Message string `json:"message"`
	}
	kind := ErrUnavailable
	known := json.Unmarshal(body, &said) == nil && said.Code != 0
	switch {
	case status == http.StatusNotFound && known && said.Code/100 == 404:
		kind = ErrNotFound
	case status == http.StatusUnauthorized || status == http.StatusForbidden:
		kind = ErrAuth
	case status == http.StatusNotFound, status >= 400 && status < 500 && status != http.StatusTooManyRequests && status != http.StatusRequestTimeout:
		return fmt.Errorf("%s: answer %d is no registry's: %.100q", address, status, body)
	}
	return fmt.Errorf("%w: %s: answer %d %s", kind, address, status, said.Message)
}
