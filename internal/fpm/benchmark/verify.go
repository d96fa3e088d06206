package benchmark

import (
	"slices"
	"strings"

	"github.com/omni-exporter/omni_exporter/internal/fpm/benchmark/doc"
)

// VerifyFiles reads files and verifies them together; see Verify.
func VerifyFiles(paths []string, limits doc.Limits) Report {
	return Verify(LoadAll(paths, limits))
}

// Verify judges the files of one run together: rank artifacts, merged artifacts and worker-probe sidecars, in any number and
// mixture. Nothing stops at the first finding; what only follows from a finding is left out.
func Verify(files []*File) Report {
	v := newVerification(files)
	v.run()
	return v.out.report()
}

type verification struct {
	files    []*File
	out      findings
	ranks    []*artifact
	merged   []*artifact
	sidecars []*sidecar
}

func newVerification(files []*File) *verification { return &verification{files: files} }

func (v *verification) run() {
	for _, f := range v.files {
		for _, p := range f.problems {
			v.out.add(p)
		}
		switch f.Kind {
		case KindRank:
			v.ranks = append(v.ranks, newArtifact(f, &v.out))
		case KindMerged:
			v.merged = append(v.merged, newArtifact(f, &v.out))
		case KindSidecar:
			v.sidecars = append(v.sidecars, &sidecar{File: f, checker: checker{file: f.Path, out: &v.out}})
		case KindUnknown: // its problems say why
		}
	}
	ledgers := map[int64]ledger{}
	for _, a := range v.artifacts() {
		a.checkIdentity()
		a.checkProtocol()
		a.checkCoverage()
		a.checkTiming()
		a.checkEngine()
		a.checkWarmup(ledgers)
	}
	v.checkGroups(ledgers)
	for _, a := range v.ranks {
		a.checkResults()
	}
	for _, a := range v.merged {
		a.checkMerged()
	}
	checkSameRun(v.ranks)
	checkSameEngine(v.ranks)
	v.checkMerged()
	v.checkSidecars()
}

func (v *verification) artifacts() []*artifact {
	return append(slices.Clip(v.ranks), v.merged...)
}

// checkGroups judges groups in depth once for all rank files that hold the same ones, and for every merged artifact whose
// groups are others.
func (v *verification) checkGroups(ledgers map[int64]ledger) {
	if len(v.ranks) > 0 {
		v.ranks[0].checkGroups(ledgers)
		for _, a := range v.ranks[1:] {
			if !a.checkGroupsAlike(v.ranks[0]) {
				a.checkGroups(ledgers)
			}
		}
	}
	for _, a := range v.merged {
		if len(v.ranks) == 0 || !doc.Equal(a.Root.Key("iteration_groups").Value(), v.ranks[0].Root.Key("iteration_groups").Value()) {
			a.checkGroups(ledgers)
		}
	}
}

// checkMerged compares merged artifacts with the rank files. Where those are themselves in error there is nothing to
// compare with.
func (v *verification) checkMerged() {
	clean := v.out.errors == 0
	for i, a := range v.merged {
		var other *artifact
		switch {
		case len(v.ranks) > 0:
			other = v.ranks[0]
		case i > 0:
			other = v.merged[0]
		default:
			continue
		}
		switch {
		case a.runID != "" && other.runID != "" && a.runID != other.runID:
			a.fail(a.Root.Key("run_id"), RuleRunID, "%q as in %s: check one run at a time", other.runID, other.Path)
		case a.gridDigest != "" && other.gridDigest != "" && a.gridDigest != other.gridDigest:
			a.fail(a.Root.Key("grid_digest"), RuleGridDigest, "%q as in %s", other.gridDigest, other.Path)
		case clean:
			a.checkAgainstRanks(v.ranks)
		}
	}
}

// checkSidecars pairs sidecars with merged artifacts, by name or because there is only one of each, and judges them.
func (v *verification) checkSidecars() {
	paired := map[*artifact]bool{}
	for _, s := range v.sidecars {
		for _, m := range v.merged {
			if s.belongsTo(m) || len(v.sidecars) == 1 && len(v.merged) == 1 {
				s.merged = m
				paired[m] = true
				break
			}
		}
		s.check()
	}
	for _, m := range v.merged {
		if path, ok := m.Root.Key("worker_probe_path").Text(); ok && !paired[m] {
			m.note(m.Root.Key("worker_probe_path"), RuleSidecarMissing, "no sidecar given",
				"%s, as far as the run could write one", strings.TrimSpace(path))
		}
	}
}
