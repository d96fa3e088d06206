// Command omni_exporter scrapes vLLM, vLLM-Omni and Dynamo, and serves what it
// finds as one page.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/prometheus/common/version"
	toolkit "github.com/prometheus/exporter-toolkit/web"
	"k8s.io/klog/v2"

	"github.com/omni-exporter/omni_exporter/internal/config"
	"github.com/omni-exporter/omni_exporter/internal/exporter"
	"github.com/omni-exporter/omni_exporter/internal/web"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if os.Getenv("GOGC") == "" {
		go tuneGC(ctx)
	}
	code := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

const (
	// readHeaderTimeout bounds how long a client may take to send its headers.
	readHeaderTimeout = 10 * time.Second
	// idleTimeout is longer than the usual scrape intervals, so that Prometheus keeps
	// its connection.
	idleTimeout = 5 * time.Minute
	// maxHeaderBytes bounds the headers of a request.
	maxHeaderBytes = 64 << 10
	// shutdownTimeout is how long requests under way may take after an interrupt.
	shutdownTimeout = 15 * time.Second
)

// run runs the exporter until ctx ends and returns the exit status: 0, 1 for a
// failure, or 2 for wrong usage.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	f, err := parseFlags(args, stdout, stderr)
	switch {
	case errors.Is(err, errDone):
		return 0
	case err != nil:
		fmt.Fprintf(stderr, "omni_exporter: %v\n", err)
		return 2
	}
	logger := f.logs.New(stderr)
	c, err := f.config()
	if err != nil {
		fmt.Fprintln(stderr, err)
		return 1
	}
	if f.checkOnly {
		if err := exporter.Check(c); err != nil {
			fmt.Fprintf(stderr, "%s: %v\n", f.source(), err)
			return 1
		}
		fmt.Fprintln(stdout, "configuration is valid")
		return 0
	}
	logger.Info("starting omni_exporter", "version", version.Info(), "build", version.BuildContext())
	if f.configFile == "" && len(f.bare.Upstreams) == 0 && len(f.bare.FPM) == 0 {
		logger.Warn("nothing to scrape, only events are taken in: name servers by --upstream or --fpm, or a file by --config.file")
	}
	if err := serve(ctx, c, f, logger); err != nil {
		logger.Error("omni_exporter ends", "err", err)
		return 1
	}
	return 0
}

// serve answers requests until ctx ends, then lets those under way end.
func serve(ctx context.Context, c *config.Config, f *flags, logger *slog.Logger) error {
	klog.SetSlogLogger(logger) // of Kubernetes discovery, which logs by no other way
	slog.SetDefault(logger)    // of net/http, likewise, at what servers do wrong
	ctx, quit := context.WithCancel(ctx)
	defer quit()
	hangups := make(chan os.Signal, 1) // one that comes while another is answered is that one's too
	signal.Notify(hangups, syscall.SIGHUP)
	defer signal.Stop(hangups)
	var e *exporter.Exporter
	reload := func() error {
		c, err := f.config()
		if err != nil {
			e.ReloadFailed(err)
			return err
		}
		return e.Reload(ctx, c)
	}
	options := f.options(logger)
	if f.lifecycle {
		options.Lifecycle = web.Lifecycle{Reload: reload, Quit: quit}
	}
	e, err := exporter.New(c, options)
	if err != nil {
		return err
	}
	defer e.Close()
	server := &http.Server{
		Handler: e.Handler(), ReadHeaderTimeout: readHeaderTimeout, IdleTimeout: idleTimeout, MaxHeaderBytes: maxHeaderBytes,
		ConnState: e.ConnState,
		ErrorLog:  slog.NewLogLogger(logger.Handler(), slog.LevelDebug),
	}
	ended := make(chan error, 1)
	go func() { ended <- toolkit.ListenAndServe(server, f.web, logger) }()
	for ctx.Err() == nil {
		select {
		case err := <-ended:
			return fmt.Errorf("listen: %w", err)
		case <-hangups:
			_ = reload() // the log and a metric say how that went
		case <-ctx.Done():
		}
	}
	logger.Info("shutting down")
	deadline, cancel := context.WithTimeout(context.WithoutCancel(ctx), shutdownTimeout)
	defer cancel()
	if err := server.Shutdown(deadline); err != nil {
		logger.Warn("requests under way were cut off", "err", err)
		_ = server.Close()
	}
	if err := <-ended; !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("listen: %w", err)
	}
	return nil
}
