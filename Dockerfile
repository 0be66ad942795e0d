# The image of the Action. Branches of this repository build it in each job that uses them; releases name the
# published one by its digest. No WORKDIR and no USER: GitHub's runner sets the first, and needs root.
ARG GO_IMAGE=golang:1.26-alpine@sha256:7a3e50096189ad57c9f9f865e7e4aa8585ed1585248513dc5cda498e2f41812c
ARG BASE_IMAGE=alpine:3.22@sha256:14358309a308569c32bdc37e2e0e9694be33a9d99e68afb0f5ff33cc1f695dce

FROM ${GO_IMAGE} AS binary
ARG VERSION=
COPY . /src
# A binary that is in dist/ is taken as it is: the same bytes as a release's other downloads.
RUN set -eu; \
    case "$(uname -m)" in x86_64) arch=amd64 ;; aarch64) arch=arm64 ;; *) echo "no such machine: $(uname -m)"; exit 1 ;; esac; \
    mkdir -p /out/usr/local/bin; \
    if [ -e "/src/dist/linux-$arch/rollout" ]; then \
      cp "/src/dist/linux-$arch/rollout" /out/usr/local/bin/rollout; \
    else \
      cd /src; \
      .ci/build-podprogram "$arch"; \
      CGO_ENABLED=0 go build -trimpath -buildvcs=false -tags rollout_release \
        -ldflags "-s -w -X github.com/org/rollout-action/internal/cli.version=$VERSION" \
        -o /out/usr/local/bin/rollout ./cmd/rollout; \
    fi; \
    chmod 755 /out/usr/local/bin/rollout; \
    ln -s /usr/local/bin/rollout /out/rollout-action; \
    ln -s /usr/local/bin/rollout /out/rollout-post; \
    ln -s /usr/local/bin/rollout /out/rollout-guest-install

FROM ${BASE_IMAGE}
# git reads repositories whose refs are in no plain files; certificates are for the API and registries.
RUN set -eu; \
    if ! command -v git > /dev/null || ! [ -e /etc/ssl/certs/ca-certificates.crt ]; then \
      apk add --no-cache ca-certificates git; \
    fi
COPY --from=binary /out/ /
LABEL org.opencontainers.image.source=https://github.com/org/rollout-action \
      org.opencontainers.image.licenses=Apache-2.0
# The program under the name that stands for its verb "action". /rollout-post is "action post", and /rollout-guest-install copies
# the small program that it embeds into a pod of the provider kubernetes.
ENTRYPOINT ["/rollout-action"]
