// Package hosted has the parts that providers of hosted sandboxes share: the guest's program as it
// is sent to them, labels as tags, and environments that end. It knows no service.
package hosted
