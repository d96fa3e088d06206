package main

import (
	"fmt"
	"io"
	"os"
	"slices"
	"time"

	"github.com/jedib0t/go-pretty/v6/table"
)

// curve prints how the exporter's cost grows with the number of its targets.
func curve(most int) error {
	binary, remove, err := exporterBinary()
	if err != nil {
		return err
	}
	defer remove()
	t := table.NewWriter()
	t.SetOutputMirror(os.Stdout)
	t.SetTitle("Cost by number of targets of 50 kB, identity encoding")
	t.AppendHeader(table.Row{"targets", "page, MB", "processor, ms a scrape", "us a target", "first byte, ms", "whole, ms", "peak memory, MB", "times the page"})
	for n := 1; n <= most; n *= 10 {
		if err := curvePoint(t, binary, n); err != nil {
			return fmt.Errorf("%d targets: %w", n, err)
		}
	}
	t.Render()
	return nil
}

func curvePoint(t table.Writer, binary string, targets int) error {
	upstreams, err := startRole(roleUpstreams, fmt.Sprint("-n=", targets), "-size=50000")
	if err != nil {
		return err
	}
	defer upstreams.stop()
	exporter, err := startExporter(binary, upstreams.addresses)
	if err != nil {
		return err
	}
	defer exporter.stop()
	for range 3 {
		if _, err := scrapeProxy(exporter, io.Discard); err != nil {
			return err
		}
	}
	before, err := exporter.usage()
	if err != nil {
		return err
	}
	const scrapes = 11
	var first, whole []time.Duration
	var size int64
	for range scrapes {
		a, err := scrapeProxy(exporter, io.Discard)
		if err != nil {
			return err
		}
		first, whole, size = append(first, a.firstByte), append(whole, a.whole), a.size
	}
	after, err := exporter.usage()
	if err != nil {
		return err
	}
	slices.Sort(first)
	slices.Sort(whole)
	spent := (after.processor - before.processor).Seconds() / scrapes
	ms := func(d time.Duration) string { return fmt.Sprintf("%.1f", d.Seconds()*1e3) }
	t.AppendRow(table.Row{
		targets, fmt.Sprintf("%.2f", float64(size)/1e6), fmt.Sprintf("%.1f", spent*1e3),
		fmt.Sprintf("%.0f", spent*1e6/float64(targets)), ms(first[scrapes/2]), ms(whole[scrapes/2]),
		fmt.Sprintf("%.1f", float64(after.peak)/1e6), fmt.Sprintf("%.1f", float64(after.peak)/float64(size)),
	})
	return nil
}
