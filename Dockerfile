# The carrier image: the agent, which copies itself into a volume of the main container together with the client and
# Debian's bundle of certificate authorities. `make install-carrier` says what is in it.
#
#   make image   builds it with this machine's apt mirror and proxy, and checks it
#
# Only the programs, for Linux, on a system that is not Debian:
#
#   docker build --target programs --output build/dist .
#
# The client of the image: docker run --rm --network host --entrypoint /sandbox IMAGE …
#
# The first stage always runs on the architecture of the builder and compiles for the target. BuildKit knows
# both; another builder compiles for its own, which BUILDER names if it is not amd64, or for TARGETARCH.
ARG BUILDER=linux/amd64
FROM --platform=${BUILDPLATFORM:-$BUILDER} debian:trixie-slim AS build
ARG APT_URI=
ARG APT_CONF=
RUN printf '%s\n' "$APT_CONF" >/etc/apt/apt.conf.d/99-building-machine && \
  if [ -n "$APT_URI" ]; then \
    rm -f /etc/apt/sources.list.d/* && \
    echo "deb $APT_URI trixie main" >/etc/apt/sources.list; \
  fi
WORKDIR /source
COPY deps deps
ARG TARGETARCH
RUN own=$(dpkg --print-architecture) && \
  deps/install build $(test "${TARGETARCH:-$own}" = "$own" || echo "build-$TARGETARCH")
COPY . .
RUN make ${TARGETARCH:+ARCH="$TARGETARCH"} install-carrier DESTDIR=/image

FROM scratch AS programs
COPY --from=build /image/agent /image/sandbox /

FROM scratch
ARG VERSION=
ARG REVISION=
LABEL org.opencontainers.image.title="sandbox agent" \
  org.opencontainers.image.description="Copies the sandbox agent into a volume, for a main container of any image" \
  org.opencontainers.image.licenses="MIT" \
  org.opencontainers.image.version="$VERSION" \
  org.opencontainers.image.revision="$REVISION"
COPY --from=build /image /
ENTRYPOINT ["/agent"]
CMD ["--inject", "/shared/agent"]
