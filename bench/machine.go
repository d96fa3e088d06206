package main

import (
	"bytes"
	"fmt"
	"os"
	"runtime"
)

// printMachine says where the figures are from.
func printMachine() {
	fmt.Printf("%s, %s/%s, %d processors", runtime.Version(), runtime.GOOS, runtime.GOARCH, runtime.NumCPU())
	info, err := os.ReadFile("/proc/cpuinfo")
	if err == nil {
		for line := range bytes.Lines(info) {
			if name, value, ok := bytes.Cut(line, []byte(":")); ok && bytes.HasPrefix(name, []byte("model name")) {
				fmt.Printf(", %s", bytes.TrimSpace(value))
				break
			}
		}
	}
	if load, err := os.ReadFile("/proc/loadavg"); err == nil {
		fmt.Printf(", load before the run %s", bytes.Fields(load)[0])
	}
	fmt.Print("\n\n")
}
