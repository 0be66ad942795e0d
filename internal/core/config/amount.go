package config

import (
	"encoding/json"
	"fmt"
	"strconv"
	"time"

	"github.com/org/rollout-action/internal/lib/quantity"
)

// Bytes is an amount of memory or storage. It is written as a number or as a quantity ("2G"); its
// JSON form is the number.
type Bytes int64

// MilliCPUs is thousandths of a CPU. It is written as a number of CPUs or as a quantity ("500m");
// its JSON form is the number of CPUs (0.5).
type MilliCPUs int64

// Duration is a time such as 90m; its JSON form is such a text, too.
type Duration time.Duration

// MarshalJSON writes the duration as time.Duration prints it.
func (d Duration) MarshalJSON() ([]byte, error) { return json.Marshal(time.Duration(d).String()) }

// UnmarshalJSON reads the format of MarshalJSON.
func (d *Duration) UnmarshalJSON(data []byte) error {
	var text string
	if err := json.Unmarshal(data, &text); err != nil {
		return fmt.Errorf("a duration: %w", err)
	}
	n, err := quantity.Duration(text)
	*d = Duration(n)
	return err
}

// MarshalJSON writes a number of CPUs with at most three decimals.
func (m MilliCPUs) MarshalJSON() ([]byte, error) {
	return strconv.AppendFloat(nil, float64(m)/1000, 'f', -1, 64), nil
}

// UnmarshalJSON reads the format of MarshalJSON.
func (m *MilliCPUs) UnmarshalJSON(data []byte) error {
	var n json.Number
	if err := json.Unmarshal(data, &n); err != nil {
		return fmt.Errorf("number of CPUs: %w", err)
	}
	milli, err := quantity.MilliCPUs(n.String())
	if err != nil {
		return err
	}
	*m = MilliCPUs(milli)
	return nil
}
