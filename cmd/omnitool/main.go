// Command omnitool checks configurations and pages, shows what relabeling makes
// of a page, and runs the exporter over a simulated pipeline.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/alecthomas/kingpin/v2"
	"github.com/prometheus/common/version"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := run(ctx, os.Args[1:], streams{os.Stdin, os.Stdout, os.Stderr})
	stop()
	os.Exit(code)
}

// streams are what a command reads and writes.
type streams struct {
	in       io.Reader
	out, err io.Writer
}

// action is what a command does, once its flags are parsed.
type action func(context.Context, streams) error

// commands holds the action of each command, by its full name.
type commands map[string]action

// usageError is a command line that cannot be followed. The program exits with 2.
type usageError struct{ msg string }

func (e *usageError) Error() string { return e.msg }

// errReported ends the program with status 1 when all has been said.
var errReported = errors.New("failed")

// run follows the command line until it is done or ctx ends, and returns the exit
// status: 0, 1 for a failure, or 2 for wrong usage.
func run(ctx context.Context, args []string, s streams) int {
	app := kingpin.New("omnitool", "Tools for omni_exporter, the exporter and relabeling proxy for vLLM, vLLM-Omni and NVIDIA Dynamo.")
	app.UsageWriter(s.out).ErrorWriter(s.err)
	app.Version(version.Print("omnitool"))
	app.HelpFlag.Short('h')

	all := commands{}
	check := app.Command("check", "Check what was written or sent.")
	addCheckConfig(check, all)
	addCheckMetrics(check, all)
	addRelabel(app, all)
	addFPM(app.Command("fpm", "Forward-pass metrics."), all)
	addBenchmark(app.Command("benchmark", "Artifacts of engines that benchmarked themselves."), all)
	addDemo(app, all)
	addExport(app, all)

	name, answered, err := parse(app, args)
	switch {
	case answered && len(args) > 0:
		return 0
	case answered:
		return 2 // without a command, kingpin shows the usage
	case err != nil:
		fmt.Fprintf(s.err, "omnitool: %v; see omnitool --help\n", err)
		return 2
	}
	err = all[name](ctx, s)
	var usage *usageError
	switch {
	case err == nil:
		return 0
	case errors.As(err, &usage):
		fmt.Fprintf(s.err, "omnitool %s: %v\n", name, err)
		return 2
	case !errors.Is(err, errReported):
		fmt.Fprintf(s.err, "omnitool %s: %v\n", name, err)
	}
	return 1
}

// terminated is what parse unwinds kingpin with.
type terminated struct{}

// parse returns the command that was given, or that kingpin has answered itself:
// --help and --version. kingpin then expects its process to end, and would go on
// to write more if it did not.
func parse(app *kingpin.Application, args []string) (name string, answered bool, err error) {
	app.Terminate(func(int) { panic(terminated{}) })
	defer func() {
		switch r := recover().(type) {
		case nil:
		case terminated:
			answered = true
		default:
			panic(r)
		}
	}()
	name, err = app.Parse(args)
	return name, false, err
}
