package kubernetes

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"maps"
	"runtime"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/org/rollout-action/internal/core/environment"
	"github.com/org/rollout-action/providers/internal/podinit"
)

// followNodes chooses for which architecture pods and images are: the configuration's or else this
// program's, unless all nodes have another one. It returns why there can be no pods for it. Listing
// nodes is a right over the whole cluster: who does not have it has to configure what differs.
func (p *Provider) followNodes(ctx context.Context) error {
	if p.config.nodeSelector[corev1.LabelArchStable] == "" {
		there, err := p.client.architectures(ctx, p.config.nodeSelector)
		switch {
		case err != nil, len(there) == 0, slices.Contains(there, p.config.architecture()):
		case len(there) > 1:
			return unusable("choose one with node_selector: {"+corev1.LabelArchStable+": "+there[0]+"}",
				"use %s: no node is for linux/%s, on which this rollout runs, but there are nodes for %s", p.about, p.config.architecture(), strings.Join(there, " and "))
		default:
			p.config.nodeSelector = maps.Clone(p.config.nodeSelector)
			if p.config.nodeSelector == nil {
				p.config.nodeSelector = map[string]string{}
			}
			p.config.nodeSelector[corev1.LabelArchStable] = there[0]
		}
	}
	own := runtime.GOOS == "linux" && p.config.architecture() == runtime.GOARCH
	if own || p.config.helperImage != "" || p.config.registry == "" {
		return nil
	}
	_, err := p.program()
	return err
}

// program returns a file system with Rollout's program for the nodes.
func (p *Provider) program() (fs.FS, error) {
	files, err := podinit.ProgramFS(p.config.architecture())
	if known := new(environment.Error); errors.As(err, &known) {
		known.Refused = true
		known.Hint += ", or set environment.provider_config.helper_image to the published image of this version"
	}
	return files, err
}

// architectures returns those of the nodes that a selector selects, sorted. The first 500 nodes
// stand for all.
func (c *client) architectures(ctx context.Context, selector map[string]string) ([]string, error) {
	raw, err := c.core.Get().Resource("nodes").SetHeader("Accept", "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io").
		Param("labelSelector", labels.SelectorFromSet(selector).String()).Param("limit", "500").Do(ctx).Raw()
	if err != nil {
		return nil, err
	}
	var nodes metav1.PartialObjectMetadataList
	if err := json.Unmarshal(raw, &nodes); err != nil {
		return nil, err
	}
	found := map[string]bool{}
	for _, n := range nodes.Items {
		if arch := n.Labels[corev1.LabelArchStable]; arch != "" && n.Labels[corev1.LabelOSStable] == "linux" {
			found[arch] = true
		}
	}
	return slices.Sorted(maps.Keys(found)), nil
}
