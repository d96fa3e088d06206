package main

import (
	"bytes"
	"fmt"
	"io"
	"os"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
)

// compressor is a writer that is used for page after page.
type compressor interface {
	io.WriteCloser
	Reset(io.Writer)
}

// compressionTable prints what each level of compression costs, and what it saves, for
// a page of eight engines: what the exporter's choice of levels rests on.
func compressionTable(o options) error {
	page, err := enginePage(8)
	if err != nil {
		return err
	}
	sizes := map[string]int{}
	var list []contender
	add := func(name string, w compressor) {
		list = append(list, contender{name, func(page []byte) error {
			var out bytes.Buffer
			w.Reset(&out)
			if _, err := w.Write(page); err != nil {
				return err
			}
			err := w.Close()
			sizes[name] = out.Len()
			return err
		}})
	}
	for _, level := range []int{1, 2, 3, 6, 9} {
		w, err := gzip.NewWriterLevel(io.Discard, level)
		if err != nil {
			return err
		}
		add(fmt.Sprintf("gzip, level %d", level), w)
	}
	for _, level := range []zstd.EncoderLevel{zstd.SpeedFastest, zstd.SpeedDefault, zstd.SpeedBetterCompression} {
		w, err := zstd.NewWriter(io.Discard, zstd.WithEncoderLevel(level), zstd.WithEncoderConcurrency(1))
		if err != nil {
			return err
		}
		add("zstd, "+level.String(), w)
	}
	results, err := compare(list, [2][]byte{page, page}, o)
	if err != nil {
		return err
	}
	t := table.NewWriter()
	t.SetOutputMirror(os.Stdout)
	t.SetTitle("Compressing a page of 8 engines, %d bytes", len(page))
	t.AppendHeader(table.Row{"", "times gzip, level 1", "MB/s", "times smaller"})
	for i, r := range results {
		t.AppendRow(table.Row{
			list[i].name, fmt.Sprintf("%.2f", r.nanoseconds/results[0].nanoseconds),
			fmt.Sprintf("%.0f", float64(len(page))/r.nanoseconds*1e3), fmt.Sprintf("%.1f", float64(len(page))/float64(sizes[list[i].name])),
		})
	}
	t.Render()
	fmt.Println()
	return nil
}
