// Package agreement reads people's labels, and measures how well a judge agrees with them. It does
// not know the layout of job directories.
package agreement
