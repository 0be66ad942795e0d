package quantity

import "fmt"

// Size formats a number of bytes for display, rounded down: "1.5 GiB".
func Size(bytes int64) string {
	for _, unit := range []struct {
		name  string
		bytes int64
	}{{"TiB", 1 << 40}, {"GiB", 1 << 30}, {"MiB", 1 << 20}, {"KiB", 1 << 10}} {
		if bytes >= unit.bytes {
			return fmt.Sprintf("%d.%d %s", bytes/unit.bytes, bytes%unit.bytes*10/unit.bytes, unit.name)
		}
	}
	return fmt.Sprintf("%d bytes", bytes)
}
