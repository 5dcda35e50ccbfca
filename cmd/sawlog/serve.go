package main

import (
	"log/slog"
	"runtime"

	"github.com/spf13/cobra"
)

func (a *app) serve() *cobra.Command {
	var file string
	c := &cobra.Command{
		Use: "serve", Short: "Run a node: broker, loader, scheduler and console", Args: cobra.NoArgs,
		Long: `Run a node until Ctrl-C or SIGTERM. Each setting is a flag, a key of the YAML
file and a SAWLOG_ variable; config view --origin says which one counts. Topic
defaults go into the file under topics:, by Kafka's own names, and what loads
may read in a second: batch.bytes.per.second, 0 for no limit.

Console, API and metrics are for this machine alone unless --http-token names the
secret they ask for. With --http-cert and --http-key they are HTTPS; the files are
read again when they change. Behind a proxy that does TLS the token will do, as
long as it passes the Host header on and sets X-Forwarded-Proto.

Records are kept a week by default. An acknowledged record is in the page cache:
it survives the death of this process, and after a power cut of a single node
what was written in the last flush.ms (1000 by default) may be gone. A topic
with flush.messages=1 loses nothing.

Started by systemd as Type=notify it tells when it is ready and what it waits for,
and feeds the watchdog as long as the broker answers a request of its own.`,
		Example: "  sawlog serve --data /var/lib/sawlog\n  sawlog serve -c /etc/sawlog.yaml --listen 0.0.0.0:9092 --advertise kafka1:9092 --insecure\n  sawlog serve --data d2 --listen 127.0.0.1:9192 --peer 127.0.0.1:9193 --http 127.0.0.1:8188 --join 127.0.0.1:9093",
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg, err := loadConfig(cmd, file)
			if err != nil {
				return err
			}
			level := slog.LevelInfo
			if a.verbose {
				level = slog.LevelDebug
			}
			twoThreads()
			s, err := startServer(cmd.Context(), cfg, a.loggerAt(level))
			if err != nil {
				return err
			}
			a.print.Note("broker %s, console %s, data %s", s.broker.Addr(), s.webURL(), cfg.Data)
			select {
			case <-cmd.Context().Done():
				a.print.Note("stopping")
				return s.close()
			case err := <-s.failed():
				_ = s.close() // the failure is the error to report
				return err
			}
		},
	}
	serverFlags(c, &file)
	return c
}

// twoThreads lets two threads run Go code on a machine with one CPU. With one, a
// system call that waits for the disk keeps all others waiting until the runtime
// notices, which may take as long as 20 ms.
func twoThreads() {
	if runtime.GOMAXPROCS(0) == 1 {
		runtime.GOMAXPROCS(2)
	}
}
