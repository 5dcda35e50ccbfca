package bench

import (
	"fmt"
	"math/rand/v2"
	"slices"
)

// spread is what several pairs say about one ratio.
type spread struct {
	Median float64 `json:"median"`
	Min    float64 `json:"min"`
	Max    float64 `json:"max"`
	Low    float64 `json:"low"`  // of the bootstrap 95 % confidence interval of the median
	High   float64 `json:"high"` // its other end
}

// spreadOf takes the ratios of pairs apart. The resampling is the same each time.
func spreadOf(ratios []float64) spread {
	if len(ratios) == 0 {
		return spread{}
	}
	const resamples = 4000
	rng := rand.New(rand.NewPCG(3, 4))
	medians := make([]float64, resamples)
	sample := make([]float64, len(ratios))
	for i := range medians {
		for j := range sample {
			sample[j] = ratios[rng.IntN(len(ratios))]
		}
		medians[i] = median(sample)
	}
	slices.Sort(medians)
	return spread{
		Median: median(ratios), Min: slices.Min(ratios), Max: slices.Max(ratios),
		Low: medians[resamples/40], High: medians[resamples-resamples/40-1],
	}
}

func (s spread) String() string {
	return fmt.Sprintf("%6.3f  %.3f..%.3f  [%.3f, %.3f]", s.Median, s.Min, s.Max, s.Low, s.High)
}

// median does not change v.
func median(v []float64) float64 {
	s := slices.Sorted(slices.Values(v))
	if len(s) == 0 {
		return 0
	}
	if n := len(s); n%2 == 0 {
		return (s[n/2-1] + s[n/2]) / 2
	}
	return s[len(s)/2]
}

// quantile is the value that a share q of the sorted values does not exceed.
func quantile(sorted []float64, q float64) float64 {
	if len(sorted) == 0 {
		return 0
	}
	return sorted[min(int(q*float64(len(sorted))), len(sorted)-1)]
}
