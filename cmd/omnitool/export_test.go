package main

import (
	"bytes"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/omni-exporter/omni_exporter/dashboards"
	"github.com/omni-exporter/omni_exporter/mixins"
)

func TestExport(t *testing.T) {
	for name, files := range map[string]fs.FS{"dashboards": dashboards.Files, "mixin": mixins.Omni()} {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "new", "folder")
			for range 2 { // the second replaces the first
				var out, errs bytes.Buffer
				if code := run(t.Context(), []string{name, "export", dir}, streams{strings.NewReader(""), &out, &errs}); code != 0 {
					t.Fatalf("exit %d: %s", code, errs.String())
				}
				if !strings.Contains(out.String(), dir) {
					t.Errorf("output %q", out.String())
				}
			}
			count := 0
			err := fs.WalkDir(files, ".", func(name string, entry fs.DirEntry, err error) error {
				if err != nil || entry.IsDir() {
					return err
				}
				count++
				want, err := fs.ReadFile(files, name)
				if err != nil {
					return err
				}
				got, err := os.ReadFile(filepath.Join(dir, name))
				if err == nil && !bytes.Equal(got, want) {
					t.Errorf("%s differs", name)
				}
				return err
			})
			if err != nil || count < 7 {
				t.Errorf("%d files, error %v", count, err)
			}
		})
	}
}

func TestExportErrors(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		arguments []string
		code      int
		want      string
	}{
		{[]string{"mixin", "export", file}, 1, file},
		{[]string{"dashboards", "export"}, 2, "dir"},
	} {
		var out, errs bytes.Buffer
		code := run(t.Context(), c.arguments, streams{strings.NewReader(""), &out, &errs})
		if code != c.code || !strings.Contains(errs.String(), c.want) {
			t.Errorf("%q: exit %d, %q; want %d, %q", c.arguments, code, errs.String(), c.code, c.want)
		}
	}
}
