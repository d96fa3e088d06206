package exposition

// Loss says why a line of a source's page does not stand on the merged page.
type Loss uint8

// The losses.
const (
	LossNone      Loss = iota
	LossType           // its family's type contradicts that of an earlier family of the name
	LossDuplicate      // an earlier line has the same series
	LossFormat         // a gauge histogram, which the text format cannot express
)

// LeftOut returns what became of each line of a source's page, in the order of
// its lines: the lines that Losses counts, told one by one. It is for explaining a
// merge, not for every scrape.
func (m *Merged) LeftOut(source int) []Loss {
	p := m.pages[source]
	if p == nil {
		return nil
	}
	out := make([]Loss, p.layout.Series())
	for i := range out {
		out[i] = LossType // unless a family has the line
	}
	for i := range m.plan.families {
		f := &m.plan.families[i]
		loss := LossNone
		if f.typ == GaugeHistogram {
			loss = LossFormat
		}
		for _, member := range f.members {
			if int(member.source) != source {
				continue
			}
			for _, s := range p.layout.Families[member.family].segments {
				for line := p.layout.segments[s].first; line < p.layout.segments[s].end; line++ {
					out[line] = loss
				}
			}
			for _, line := range member.losers {
				out[line] = LossDuplicate
			}
		}
	}
	return out
}
