// Package quantity reads amounts as people write them: cpus, memory, storage. It does not know where
// they stand.
package quantity

import (
	"fmt"
	"math"

	"k8s.io/apimachinery/pkg/api/resource"
)

// Bytes reads "2G", "512Mi", "1e9" or "1073741824" by Kubernetes' rules ("2G" is 2×10⁹) as bytes.
func Bytes(s string) (int64, error) {
	q, err := parse(s)
	if err != nil {
		return 0, fmt.Errorf("%q is not an amount of bytes such as 512Mi or 2G", s)
	}
	if q.CmpInt64(math.MaxInt64) >= 0 {
		return 0, fmt.Errorf("%q is too large", s)
	}
	return q.Value(), nil
}

// MilliCPUs reads "1", "0.5" or "500m" as thousandths of a CPU.
func MilliCPUs(s string) (int64, error) {
	q, err := parse(s)
	if err != nil {
		return 0, fmt.Errorf("%q is not a number of CPUs such as 1, 0.5 or 500m", s)
	}
	if q.CmpInt64(1<<40) >= 0 {
		return 0, fmt.Errorf("%q is too large", s)
	}
	return q.MilliValue(), nil
}

func parse(s string) (resource.Quantity, error) {
	q, err := resource.ParseQuantity(s)
	if err != nil {
		return q, err
	}
	if q.Sign() < 0 {
		return q, fmt.Errorf("negative")
	}
	return q, nil
}
