package collector

// The bucket lists are those of vLLM-Omni's metric definitions; +Inf is always
// added by the client library. Each call returns a fresh slice.

// SecondsBuckets are the upper bounds, in seconds, for end-to-end latency, time
// to first audio packet and audio duration.
func SecondsBuckets() []float64 {
	return []float64{0.05, 0.1, 0.25, 0.5, 1, 2, 5, 10, 20, 30, 60, 120, 300}
}

// SecondsFastBuckets are the upper bounds, in seconds, for values that need
// millisecond resolution: transfers between stages and audio underruns.
func SecondsFastBuckets() []float64 {
	return []float64{0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 60}
}

// RTFBuckets are the upper bounds of the real-time factor, a ratio without
// unit: generation time divided by audio duration.
func RTFBuckets() []float64 {
	return []float64{0.1, 0.25, 0.5, 0.75, 0.9, 1, 1.25, 1.5, 2, 5, 10}
}

// TransferSizeBuckets are the upper bounds, in bytes, of one transfer between
// two stages: 1 KiB to 256 MiB in steps of four.
func TransferSizeBuckets() []float64 {
	return []float64{
		1 << 10, 4 << 10, 16 << 10, 64 << 10, 256 << 10,
		1 << 20, 4 << 20, 16 << 20, 64 << 20, 256 << 20,
	}
}
