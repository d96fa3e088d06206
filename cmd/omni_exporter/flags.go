package main

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"time"

	"github.com/alecthomas/kingpin/v2"
	"github.com/prometheus/common/version"
	toolkit "github.com/prometheus/exporter-toolkit/web"
	"github.com/prometheus/exporter-toolkit/web/kingpinflag"

	"github.com/omni-exporter/omni_exporter/internal/config"
	"github.com/omni-exporter/omni_exporter/internal/exporter"
	"github.com/omni-exporter/omni_exporter/internal/logging"
	"github.com/omni-exporter/omni_exporter/internal/web"
)

// defaultAddress is where the exporter listens.
const defaultAddress = ":10380"

// errDone ends the program well: --help or --version has been answered.
var errDone = errors.New("done")

// flags are the command line.
type flags struct {
	configFile string
	checkOnly  bool
	bare       config.FlagConfig // what stands in for a configuration file

	web           *toolkit.FlagConfig
	telemetryPath string
	timeoutOffset time.Duration
	maxRequests   int
	maxConns      int
	lifecycle     bool
	shard         exporter.Shard
	ownProcess    bool
	pprof         bool

	pipeline, audio, transfer, fpm bool
	fpmTrace                       *bool // nil unless given

	logs *logging.Flags
}

// parseFlags reads the command line. Its error names the flag.
func parseFlags(args []string, stdout, stderr io.Writer) (*flags, error) {
	f := &flags{}
	app := kingpin.New("omni_exporter", "Prometheus exporter and relabeling proxy for vLLM, vLLM-Omni and NVIDIA Dynamo.")
	app.UsageWriter(stdout).ErrorWriter(stderr)
	ended := false
	app.Terminate(func(int) { ended = true })
	app.Version(version.Print("omni_exporter"))
	app.HelpFlag.Short('h')

	app.Flag("config.file", "Path of the configuration file. Without one, --upstream, --stages and --fpm describe what to scrape.").StringVar(&f.configFile)
	app.Flag("config.check", "Check the configuration and exit.").BoolVar(&f.checkOnly)
	app.Flag("upstream", "host:port of a server to scrape. Repeatable.").StringsVar(&f.bare.Upstreams)
	app.Flag("stages", "Replicas of each stage of the pipeline, in order, such as 1,2,2.").StringVar(&f.bare.Stages)
	app.Flag("fpm", "Forward-pass metrics publisher, tcp://host:port or ipc:///path. Repeatable.").StringsVar(&f.bare.FPM)

	f.web = kingpinflag.AddFlags(app, defaultAddress)
	app.Flag("web.telemetry-path", "Path of the merged page.").Default("/metrics").StringVar(&f.telemetryPath)
	app.Flag("web.timeout-offset", "Taken off the time that Prometheus waits for a scrape.").Default("500ms").DurationVar(&f.timeoutOffset)
	app.Flag("web.max-requests", "Requests for metrics that are answered at a time; 0 is no limit.").Default("40").IntVar(&f.maxRequests)
	app.Flag("web.max-connections", "Connections of clients that are open at a time; one too many is closed at once. 0 is no limit.").Default("512").IntVar(&f.maxConns)
	app.Flag("web.enable-lifecycle", "Reload and quit by PUT or POST to /-/reload and /-/quit. SIGHUP reloads without it.").BoolVar(&f.lifecycle)
	app.Flag("web.enable-pprof", "Serve profiles of the exporter below /debug/pprof/.").BoolVar(&f.pprof)
	disable := app.Flag("web.disable-exporter-metrics", "Leave out go_* and process_* of the exporter itself.").Bool()

	app.Flag("collector.pipeline", "Compute the pipeline families from events.").Default("true").BoolVar(&f.pipeline)
	app.Flag("collector.audio", "Compute the audio families from events.").Default("true").BoolVar(&f.audio)
	app.Flag("collector.transfer", "Compute the transfer families from events.").Default("true").BoolVar(&f.transfer)
	app.Flag("collector.fpm", "Show forward-pass metrics.").Default("true").BoolVar(&f.fpm)

	app.Flag("shard.index", "Which share of the targets is this exporter's, from 0, in a fleet of exporters with one configuration.").IntVar(&f.shard.Index)
	app.Flag("shard.count", "Number of exporters in the fleet.").Default("1").IntVar(&f.shard.Count)

	given := false
	fpmTrace := app.Flag("fpm-trace", "Write the forward passes of streams to trace files. The environment of Dynamo applies: DYN_FPM_TRACE stands for this flag, DYN_FPM_OUTPUT_PATH and so on go before the configuration file.").IsSetByUser(&given).Bool()

	f.logs = logging.AddFlags(app, "info")

	_, err := app.Parse(args)
	if ended {
		return nil, errDone
	}
	f.ownProcess = !*disable
	if given {
		f.fpmTrace = fpmTrace
	}
	if err == nil {
		err = f.check()
	}
	return f, err
}

func (f *flags) check() error {
	switch {
	case f.configFile != "" && (len(f.bare.Upstreams) > 0 || f.bare.Stages != "" || len(f.bare.FPM) > 0):
		return errors.New("--config.file and --upstream, --stages or --fpm exclude each other: write the servers into the file")
	case !web.ValidTelemetryPath(f.telemetryPath):
		return errors.New("--web.telemetry-path must be a path such as /metrics, outside of /-, /api, /debug and /static")
	case f.timeoutOffset < 0:
		return errors.New("--web.timeout-offset must not be negative")
	case f.maxRequests < 0:
		return errors.New("--web.max-requests must not be negative: 0 is no limit")
	case f.maxConns < 0:
		return errors.New("--web.max-connections must not be negative: 0 is no limit")
	case f.shard.Validate() != nil:
		return fmt.Errorf("--shard.index and --shard.count: %w", f.shard.Validate())
	}
	return nil
}

// source returns where the configuration comes from, for messages.
func (f *flags) source() string {
	if f.configFile != "" {
		return f.configFile
	}
	return "configuration of the command line"
}

// config loads the configuration that the flags name or describe.
func (f *flags) config() (*config.Config, error) {
	if f.configFile != "" {
		return config.Load(f.configFile)
	}
	return config.FromFlags(f.bare)
}

func (f *flags) options(logger *slog.Logger) exporter.Options {
	return exporter.Options{
		Logger: logger, TelemetryPath: f.telemetryPath, TimeoutOffset: f.timeoutOffset, MaxRequests: f.maxRequests,
		Pipeline: f.pipeline, Audio: f.audio, Transfer: f.transfer, ForwardPasses: f.fpm, OwnProcess: f.ownProcess,
		Pprof: f.pprof, MaxConnections: f.maxConns, Shard: f.shard, ListenAddresses: f.listenAddresses(), FPMTrace: f.fpmTrace, LookupEnv: os.LookupEnv,
	}
}

// listenAddresses returns where the exporter listens, as far as flags tell.
func (f *flags) listenAddresses() []string {
	if f.web.WebSystemdSocket != nil && *f.web.WebSystemdSocket {
		return nil
	}
	return *f.web.WebListenAddresses
}
