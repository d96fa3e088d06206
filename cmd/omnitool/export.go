package main

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/alecthomas/kingpin/v2"

	"github.com/omni-exporter/omni_exporter/dashboards"
	"github.com/omni-exporter/omni_exporter/mixins"
)

// addExport adds the commands that write what is embedded in the program.
func addExport(app *kingpin.Application, all commands) {
	for _, e := range []struct {
		name, help, export string
		files              fs.FS
	}{
		{"dashboards", "Grafana dashboards.", "Write the dashboards as JSON, for import or provisioning.", dashboards.Files},
		{"mixin", "Monitoring mixin: alerts, recording rules, dashboards.", "Write the mixin: its jsonnet, and the rule files that are made of it.", mixins.Omni()},
	} {
		cmd := app.Command(e.name, e.help).Command("export", e.export)
		dir := cmd.Arg("dir", "Folder to write into; it is made if need be, and files of the same name are replaced.").Required().String()
		all[cmd.FullCommand()] = func(_ context.Context, s streams) error {
			written, err := export(e.files, *dir)
			if err != nil {
				return err
			}
			_, err = fmt.Fprintf(s.out, "%d files written to %s\n", written, *dir)
			return err
		}
	}
}

// export copies a tree of files into a folder and returns how many it wrote.
func export(files fs.FS, dir string) (written int, err error) {
	err = fs.WalkDir(files, ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		target := filepath.Join(dir, filepath.FromSlash(name))
		if entry.IsDir() {
			return os.MkdirAll(target, 0o755)
		}
		text, err := fs.ReadFile(files, name)
		if err != nil {
			return err
		}
		written++
		return os.WriteFile(target, text, 0o644)
	})
	return written, err
}
