package exposition

// SamePlan reports whether two merged pages follow one plan.
func SamePlan(a, b *Merged) bool { return a.plan == b.plan }
