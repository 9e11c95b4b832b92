# Releases and container images.

.PHONY: install-carrier dist dist-programs dist-check image deploy-check

version := $(shell sed -n 's/^.define SANDBOX_VERSION "\(.*\)"/\1/p' wire/version.h)
revision = $(shell git rev-parse HEAD 2>/dev/null)

# The files of the carrier image. Its certificate authorities are Debian's, without those added on this machine.
install-carrier: $(agent) $(sandbox) $(licenses)
	@install -d $(DESTDIR)
	@install --mode=755 $(agent) $(sandbox) $(DESTDIR)
	@install --mode=644 $(licenses) $(DESTDIR)
	@export LC_ALL=C; cat /usr/share/ca-certificates/mozilla/*.crt >$(DESTDIR)/ca-certificates.crt

DIST_ARCHES ?= amd64 arm64
dist: $(licenses)
	+@VERSION='$(version)' REVISION='$(revision)' deploy/dist build/dist $(DIST_ARCHES)
dist-check: dist
	@deploy/dist-check build/dist

# The first stage of the Dockerfile compiles the programs again.
IMAGE ?= sandbox-agent:$(version)
image:
	@IMAGE='$(IMAGE)' ARCH='$(ARCH)' PYTHON='$(PYTHON)' VERSION='$(version)' REVISION='$(revision)' deploy/build-image

deploy-check:
	@deploy/check
