package config

import (
	"flag"
	"os"
	"testing"
)

func TestMain(m *testing.M) {
	flag.Bool("update", false, "write the reference in docs/configuration.md")
	flag.Parse()
	os.Exit(m.Run())
}
