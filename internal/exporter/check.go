package exporter

import (
	"fmt"

	"github.com/omni-exporter/omni_exporter/internal/config"
	"github.com/omni-exporter/omni_exporter/internal/scrape"
)

// Check finds what is wrong with a configuration beyond its file: certificates and
// passwords that cannot be read, and targets that relabeling makes the same. It
// scrapes nothing.
func Check(c *config.Config) error {
	pool, err := scrape.NewPool(c, scrape.PoolOptions{})
	if err != nil {
		return fmt.Errorf("configuration cannot be used: %w", err)
	}
	pool.Close()
	return nil
}
