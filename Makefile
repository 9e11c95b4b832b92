# Builds the agent and its client, sandbox. `make help` lists the targets.
#
# Everything that is made is below build/, except compile_commands.json. Only `make deps` uses sudo. As
# root, the other targets install the packages that they lack; as another user they name them and fail.

.DEFAULT_GOAL := agent
.DELETE_ON_ERROR .SECONDARY .SUFFIXES:
.PHONY: agent debug install install-client deps update-deps clean distclean help tools FORCE

# As many jobs as there are processors, unless -j says otherwise.
ifeq ($(MAKELEVEL),0)
MAKEFLAGS += -j$(shell nproc)
endif

include mk/toolchain.mk mk/libraries.mk mk/tests.mk mk/bench.mk mk/release.mk mk/lint.mk

agent: $(agent) $(sandbox)
debug:
	$(again) DEBUG=1 agent

# What the agent and the client may load, in bytes.
MAX_BYTES ?= 1328000
CLIENT_MAX_BYTES ?= 665600

# The order of the agent's code. The kernel maps 64 KB around each page that is used, and all of that counts as
# memory. The code that waits for steps from Redis comes first, with the C library; then what a step needs; then
# TLS; then other frontends and file operations. Changes here show in the bench, as "memory, idle".
at_start := $(patsubst %,$(out)/obj/%.o,$(call existing,agent/kinds/kind agent/tools/tool wire/step_report \
  $(addprefix agent/confinement/,confinement filter loopback) \
  $(addprefix agent/process/,process_table supervisor supervisor_fork supervisors) \
  $(addprefix agent/frontends/http/connection/,listener options)))
later = $(filter-out $(at_start),$(foreach pattern,$(1),$(filter $(out)/obj/$(pattern),$(linked))))
for_steps = $(call later,agent/confinement/% agent/kinds/% agent/process/% wire/%) $(filter %/libcjson.a,$^)
for_tls = $(call later,agent/frontends/redis/connection/tls%) $(filter %/libmbedtls.a,$^)
rarely = $(call later,$(addprefix agent/frontends/,http% request_files/% mcp/% once/% stdio/% call% line_reader% \
  stdio_c%) agent/files/% agent/tools/% inject/%) $(filter %/libpcre2.a,$^)
first = $(filter-out $(for_steps) $(for_tls) $(rarely),$(linked))
$(out)/agent: private ordered = $(first) -lc $(for_steps) -lc $(for_tls) -lc \
  -Wl,--start-group $(rarely) -lc -Wl,--end-group

$(out)/agent $(out)/sandbox: $(out)/link-flags deps/check-binary Makefile
ifeq ($(LIBC)$(DEBUG),musl)
	$(call link,$@.unstripped,$(or $(ordered),$(linked)))
	$(Q)$(STRIP) -o $@.new $@.unstripped
	$(Q)deps/check-binary $@.new $(if $(filter %/agent,$@),$(MAX_BYTES),$(CLIENT_MAX_BYTES)) \
	  '$(filter %.o,$^)' $(filter %.a,$^) || { rm -f $@.new; exit 1; }
	@mv $@.new $@
else
	$(call link,$@,$(linked))
endif

# gcc and clang make the same build/agent: a change of this file replaces it.
build/$(variant).configuration: FORCE
	$(call write_if_changed,$(out))
$(agent) $(sandbox): build/$(variant)%: $(out)/% build/$(variant).configuration
	@cp $< $@.new
	@mv $@.new $@
	@echo "  DONE    $@, $$(wc -c <$@) bytes"

prefix ?= /usr/local
bindir ?= $(prefix)/bin
mandir ?= $(prefix)/share/man/man1
zshdir ?= $(prefix)/share/zsh/site-functions
install: $(agent) $(licenses)
	install -D --mode=755 $(agent) $(DESTDIR)$(bindir)/agent
	install -D --mode=644 docs/man/agent.1 $(DESTDIR)$(mandir)/agent.1
	install -D --mode=644 $(licenses) $(DESTDIR)$(prefix)/share/doc/sandbox-agent/licenses
install-client: $(sandbox) $(licenses)
	install -D --mode=755 $(sandbox) $(DESTDIR)$(bindir)/sandbox
	install -D --mode=644 docs/man/sandbox.1 $(DESTDIR)$(mandir)/sandbox.1
	install -D --mode=644 $(licenses) $(DESTDIR)$(prefix)/share/doc/sandbox-client/licenses
	install -D --mode=644 completion/sandbox.bash $(DESTDIR)$(prefix)/share/bash-completion/completions/sandbox
	install -D --mode=644 completion/_sandbox $(DESTDIR)$(zshdir)/_sandbox

FOR ?= build test
deps:
	@deps/install --sudo $(FOR)
update-deps:
	@deps/fetch --update

clean:
	@find build -mindepth 1 -maxdepth 1 ! -name src ! -name servers ! -name kubectl -exec rm -rf {} + 2>/dev/null || true
distclean:
	@rm -rf build compile_commands.json .cache/clangd
help:
	@sed -n '/^## Targets/,/^## /{/^```/,/^```/{/^```/!p;};}' CONTRIBUTING.md
