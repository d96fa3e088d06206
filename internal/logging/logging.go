// Package logging makes the one logger of a process, from flags that all programs
// have in common.
package logging

import (
	"io"
	"log/slog"

	"github.com/alecthomas/kingpin/v2"
	"github.com/go-kit/log"
	slgk "github.com/tjhop/slog-gokit"
)

// Flags are --log.level and --log.format.
type Flags struct {
	level, format string
}

// flagGroup is a whole program or one of its commands.
type flagGroup interface {
	Flag(name, help string) *kingpin.FlagClause
}

// AddFlags adds the flags. level is the default: debug, info, warn or error.
func AddFlags(to flagGroup, level string) *Flags {
	f := &Flags{}
	to.Flag("log.level", "Least severity of messages that are logged.").Default(level).EnumVar(&f.level, "debug", "info", "warn", "error")
	to.Flag("log.format", "Format of the log.").Default("logfmt").EnumVar(&f.format, "logfmt", "json")
	return f
}

// New returns the one go-kit logger of the process, behind log/slog, which the
// exporter toolkit and most libraries log to. The flags must have been parsed.
func (f *Flags) New(w io.Writer) *slog.Logger {
	w = log.NewSyncWriter(w)
	logger := log.NewLogfmtLogger(w)
	if f.format == "json" {
		logger = log.NewJSONLogger(w)
	}
	var least slog.Level
	_ = least.UnmarshalText([]byte(f.level)) // kingpin has checked it
	return slog.New(slgk.NewGoKitHandler(logger, least))
}
