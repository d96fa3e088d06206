package main

import (
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"unicode"

	"github.com/alecthomas/kingpin/v2"
)

// outputFlag adds --output, by which a command writes for people or for programs.
func outputFlag(cmd *kingpin.CmdClause, format *string) {
	cmd.Flag("output", "Write for people (text) or for programs (json).").Default(outputText).EnumVar(format, outputText, outputJSON)
}

// The values of --output.
const (
	outputText = "text"
	outputJSON = "json"
)

// writeJSON writes a result for programs.
func writeJSON(w io.Writer, v any) error {
	encoder := json.NewEncoder(w)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	if err := encoder.Encode(v); err != nil {
		return fmt.Errorf("write: %w", err)
	}
	return nil
}

// counted returns a number with its noun.
func counted(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return strconv.Itoa(n) + " " + many
}

// printable returns foreign text as it is, or quoted if a terminal could take a
// part of it for a command.
func printable(s string) string {
	for _, r := range s {
		if !unicode.IsPrint(r) && r != '\t' {
			return strconv.Quote(s)
		}
	}
	return s
}
