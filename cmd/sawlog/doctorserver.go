package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"sawlog/cmd/sawlog/output"
	"sawlog/consumer"
)

func (a *app) doctorServer() *cobra.Command {
	return &cobra.Command{
		Use: "server [URL]", Short: "Ask a server whether it lives and is ready", Args: cobra.MaximumNArgs(1),
		Long: `Ask the server at --server, or at the URL, for /livez and /readyz. What is not
well is an error with exit code 6, so this is a health check where there is no
curl, as in a container. What it waits for is told to who has the token.`,
		Example: "  sawlog doctor server\n  sawlog doctor server http://127.0.0.1:8188",
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 1 {
				a.server = args[0]
			}
			list, err := a.examineServer(cmd.Context())
			if err != nil {
				return err
			}
			return a.findings(list, output.Unavailable)
		},
	}
}

// mostHealth bounds what is read of an answer, in bytes.
const mostHealth = 64 << 10

func (a *app) examineServer(ctx context.Context) ([]finding, error) {
	c, err := a.client()
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, a.timeout)
	defer cancel()
	ask := func(path string) (int, string, error) {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, c.Base+path, nil)
		if err != nil {
			return 0, "", err
		}
		if c.Token != "" {
			req.Header.Set("Authorization", "Bearer "+c.Token)
		}
		resp, err := c.HTTP.Do(req)
		if err != nil {
			return 0, "", err
		}
		defer func() { _ = resp.Body.Close() }() // what counts was read
		text, err := io.ReadAll(io.LimitReader(resp.Body, mostHealth))
		return resp.StatusCode, strings.Join(strings.Fields(string(text)), " "), err
	}
	start := time.Now()
	status, text, err := ask("/livez")
	if err != nil {
		return []finding{{"lives", false, consumer.Reason(err).Error(), "is `sawlog serve` running? --server or SAWLOG_SERVER names another address"}}, nil
	}
	list := []finding{{"lives", status == http.StatusOK, fmt.Sprintf("%s answers %d %s after %s", c.Base, status, text, time.Since(start).Round(10*time.Microsecond)), "is that address a sawlog server?"}}
	if status, text, err = ask("/readyz?verbose"); err != nil {
		return append(list, finding{"ready", false, consumer.Reason(err).Error(), ""}), nil
	}
	return append(list, finding{"ready", status == http.StatusOK, text, "its log says more; --token FILE lets it tell what it waits for"}), nil
}
