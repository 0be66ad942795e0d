// Package merge puts the shards of a job together: it finds them, in directories and archives,
// selects one directory for each shard, links the trials into one job's directory, and reports
// missing parts.
package merge
