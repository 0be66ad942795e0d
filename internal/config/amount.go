package config

// Bytes is an amount of memory or storage. It is written as a number or as a quantity ("2G").
type Bytes int64

// MilliCPUs is thousandths of a CPU. It is written as a number of CPUs or as a quantity ("500m").
type MilliCPUs int64
