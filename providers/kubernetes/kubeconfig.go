package kubernetes

import (
	"os"
	"path/filepath"
	"strings"

	"k8s.io/client-go/tools/clientcmd"
)

// filesOfKubeconfig returns the files that a kubeconfig names: certificates, keys, tokens, and the
// commands of its exec plugins. It is environment.Files.Inside.
func filesOfKubeconfig(path string) []string {
	cfg, err := clientcmd.LoadFromFile(path)
	if err != nil {
		return nil
	}
	var files []string
	add := func(base, name string) {
		switch {
		case name == "":
		case filepath.IsAbs(name):
			files = append(files, name)
		default:
			files = append(files, filepath.Join(base, name))
		}
	}
	dir := filepath.Dir(path) // where the relative paths of a kubeconfig begin
	for _, c := range cfg.Clusters {
		add(dir, c.CertificateAuthority)
	}
	for _, u := range cfg.AuthInfos {
		add(dir, u.ClientCertificate)
		add(dir, u.ClientKey)
		add(dir, u.TokenFile)
		if u.Exec == nil {
			continue
		}
		if strings.ContainsRune(u.Exec.Command, filepath.Separator) { // others are found in PATH
			add(dir, u.Exec.Command)
		}
		for _, arg := range u.Exec.Args { // such as the script of a shell, which begins at the current directory
			if here, err := filepath.Abs(arg); err == nil && arg != "" {
				if _, err := os.Lstat(here); err == nil {
					files = append(files, here)
				}
			}
		}
	}
	return files
}
