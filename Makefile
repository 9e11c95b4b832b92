# `make help` names every target.
#
# Everything that is made is under build/, but for compile_commands.json. Objects live in
# build/<configuration>/, one directory per C library, architecture, compiler and sanitizer, so that
# switching never mixes them:
#
#   make                              build/agent: static, musl, gcc
#   make CC=clang                     the same, compiled by clang
#   make ARCH=arm64                   build/arm64/agent, by a cross compiler
#   make SANITIZE=address,undefined   build/sanitize/agent: glibc, for tests
#   make debug                        build/debug/agent: -O0, with symbols, for gdb
#
# No target uses sudo but `make deps`. As root the others install the packages that they lack; as
# another user they name them and fail.
#
# Other settings: CFLAGS, LDFLAGS (added to ours), V=1 (show commands), MAX_BYTES (that the program loads),
# FUZZ_SECONDS (each target), TEST_JOBS (test programs at a time), REDIS_SERVER (what the tests and
# the smoke run against: redis-7, redis-8 or valkey-8, which are fetched, or a program; without it
# the machine's redis-server), ACL=1 (the agents of the tests log in as the user of docs/redis.md),
# TLS=1 (they reach it by TLS).

.DEFAULT_GOAL := agent
.DELETE_ON_ERROR:
.SUFFIXES:
.SECONDARY:
SHELL := /bin/sh

MAX_BYTES ?= 1230000
CLIENT_MAX_BYTES ?= 665600
FUZZ_SECONDS ?= 30
TEST_SANITIZE ?= address,undefined
SANITIZE ?=
COVERAGE ?=
DEBUG ?=
Q := $(if $(V),,@)

# As many jobs as there are cores, unless -j says otherwise.
ifeq ($(MAKELEVEL),0)
MAKEFLAGS += -j$(shell nproc)
endif

# --- configuration -------------------------------------------------------------------------------

host_arch := $(patsubst x86_64,amd64,$(patsubst aarch64,arm64,$(shell uname -m)))
ARCH ?= $(host_arch)
cpu := $(patsubst amd64,x86_64,$(patsubst arm64,aarch64,$(ARCH)))
triplet := $(cpu)-linux-gnu
cross := $(if $(filter-out $(host_arch),$(ARCH)),$(triplet)-)

ifeq ($(origin CC),default)
CC := $(cross)gcc
endif
ifeq ($(origin AR),default)
AR := $(cross)ar
endif
STRIP ?= $(cross)strip
is_clang := $(findstring clang,$(notdir $(firstword $(CC))))
target := $(if $(and $(is_clang),$(cross)),--target=$(triplet))

# Sanitizers and gcov need glibc; what is shipped needs none.
LIBC ?= $(if $(SANITIZE)$(COVERAGE),glibc,musl)

comma := ,
base := build/$(LIBC)-$(ARCH)
out := $(base)-$(notdir $(firstword $(CC)))$(if $(SANITIZE),-$(subst $(comma),-,$(SANITIZE)))$(if $(COVERAGE),-coverage)$(if $(DEBUG),-debug)

room := $(if $(SANITIZE),sanitize/)$(if $(COVERAGE),coverage/)$(if $(DEBUG),debug/)$(if $(cross),$(ARCH)/)
room := $(room)$(if $(room),,$(if $(filter glibc,$(LIBC)),glibc/))
agent := build/$(room)agent
sandbox := build/$(room)sandbox

# --- flags ---------------------------------------------------------------------------------------

# Queries of the compiler: at first use, when it is installed, and once instead of once per object.
once = $(eval $(1) := $(2))$($(1))
ask = $(shell $(CC) $(target) $(1) 2>/dev/null)
compiler_version = $(call once,compiler_version,$(call ask,--version | head -n 1))
compiler_include = $(call once,compiler_include,$(if $(is_clang),$(call ask,-print-resource-dir)/include,$(call ask,-print-file-name=include)))
crt_begin = $(call once,crt_begin,$(call ask,-print-file-name=crtbeginS.o))
crt_end = $(call once,crt_end,$(call ask,-print-file-name=crtendS.o))

warnings := -Wall -Wextra -Wshadow -Wvla -Wformat=2 -Wmissing-prototypes -Wstrict-prototypes -Wconversion \
  -Werror=implicit-function-declaration -Werror=int-conversion -Werror=incompatible-pointer-types
hardening := -fPIE -fstack-protector-strong -ffunction-sections -fdata-sections

ifeq ($(LIBC),musl)
# musl by explicit paths: the musl-gcc wrapper does not support clang, and its -static-pie makes a
# dynamic program. With rcrt1.o the program relocates itself and needs no interpreter.
musl_lib := /usr/lib/$(cpu)-linux-musl
libc_includes = -nostdinc -isystem /usr/include/$(cpu)-linux-musl -isystem $(compiler_include)
# The linker works around an erratum of the Cortex-A53: by an instruction in place, which reaches a mebibyte, else
# by a stub. It keeps a page for each.
erratum := $(if $(filter arm64,$(ARCH)),-Wl$(comma)--fix-cortex-a53-843419=full)
link_head = $(target) -nostartfiles -nostdlib -static -Wl,-static,-pie,--no-dynamic-linker $(erratum) \
  -Wl,-z,text,-z,relro,-z,now,-z,noexecstack,--gc-sections -L$(musl_lib) \
  $(musl_lib)/rcrt1.o $(musl_lib)/crti.o $(crt_begin)
link_tail = -Wl,--start-group -lc -lgcc -lgcc_eh -Wl,--end-group $(crt_end) $(musl_lib)/crtn.o
optimize := $(if $(DEBUG),-O0,-O2)
# A stripped C program is not unwound; the unwind tables would be an eighth of it. The unstripped program has
# them in its debug information.
hardening += $(if $(DEBUG),-fno-omit-frame-pointer,-fno-asynchronous-unwind-tables -fno-unwind-tables)
else
libc_includes :=
link_head = $(target) -pie -Wl,-z,relro,-z,now
link_tail :=
optimize := $(if $(COVERAGE)$(DEBUG),-O0,$(if $(SANITIZE),-O1,-O2))
endif

instrument := $(if $(SANITIZE),-fsanitize=$(SANITIZE) -fno-sanitize-recover=all -fno-omit-frame-pointer)
# Only our own code is measured.
gcov := $(if $(COVERAGE),--coverage -fprofile-update=atomic)

# Debug information names no directory of this machine, so that the build id, which is made of it too, is
# the same everywhere.
anywhere := $(if $(COVERAGE),,-ffile-prefix-map=$(CURDIR)=.)

code_flags = $(target) -std=c11 -D_GNU_SOURCE $(optimize) -g $(warnings) $(hardening) $(instrument) $(gcov) $(anywhere) \
  -I. -isystem $(headers) $(libc_includes) $(CFLAGS)
dep_flags = $(target) -std=gnu11 -w $(optimize) -g $(hardening) $(instrument) $(anywhere) $(libc_includes) $(CFLAGS)
link_flags = $(link_head) $(instrument) $(gcov) $(LDFLAGS)

# Writes the text to the target, only when it differs from what is there.
write_if_changed = @mkdir -p $(@D); printf '%s\n' '$(1)' | cmp -s - $@ || printf '%s\n' '$(1)' >$@

# --- sources -------------------------------------------------------------------------------------

# $(call named,LIST,NAMES,FILES): those of the files that the names (with % for any characters) stand for. A name that
# stands for none of them ends every make, lint too: a file that is renamed takes its name in the lists along. Where
# there are no tests, as where the image is made, nothing is looked for.
named = $(foreach name,$(2),$(or $(filter $(name),$(3)),$(if $(wildcard tests),$(error $(1) names $(name): there is no such file))))

agent_sources := $(sort $(shell find base wire inject agent -name '*.c'))
client_sources := $(sort $(shell find client -name '*.c'))
support_sources := $(wildcard tests/support/*.c)
unit_sources := $(wildcard tests/unit/test_*.c)
# What takes longest begins first.
integration_sources := $(wildcard tests/integration/test_*.c)
longest := $(call named,longest,$(patsubst %,tests/integration/test_%.c,volume key_ttl inject_kill kind_faults overtaking \
  queue run_alive heartbeat deadline hanging_mount),$(integration_sources))
integration_sources := $(longest) $(filter-out $(longest),$(integration_sources))
client_test_sources := $(wildcard tests/client/test_*.c)
timed_sources := $(wildcard tests/timed/test_*.c)
fuzz_sources := $(wildcard tests/fuzz/fuzz_*.c)
fault_sources := $(wildcard tests/fault/*.c)
bench_sources := $(filter-out bench/picture.c,$(wildcard bench/*.c))
bench_program_sources := $(wildcard bench/programs/*.c)
test_sources := $(support_sources) $(unit_sources) $(integration_sources) $(client_test_sources) $(timed_sources) $(fuzz_sources) $(fault_sources) \
  $(wildcard bench/*.c)
scripts := .ci/run completion/sandbox.bash docs/terminal $(shell grep -lE '^\#( shellcheck shell=|!.*/(sh|env bash)$$)' deps/* deploy/* smoke/* tests/run tests/mcp/run tests/support/*.sh 2>/dev/null)
c_files := $(shell find base wire inject agent client tests smoke bench -name '*.[ch]' 2>/dev/null | LC_ALL=C sort)

object = $(patsubst %.c,$(out)/obj/%.o,$(1))
program = $(patsubst %.c,$(out)/%,$(1))
unit_programs := $(call program,$(unit_sources))
integration_programs := $(call program,$(integration_sources))
client_test_programs := $(call program,$(client_test_sources))
timed_programs := $(call program,$(timed_sources))
fuzz_programs := $(call program,$(fuzz_sources))
bench_programs := $(call program,$(bench_program_sources))

# --- the program ---------------------------------------------------------------------------------

.PHONY: agent FORCE tools
agent: $(agent) $(sandbox)

include deps/libraries.mk

# The packages that the goals of this run need; before anything else, in one go.
groups := build $(if $(is_clang),clang $(if $(SANITIZE),fuzz)) $(if $(cross),build-$(ARCH)) \
  $(if $(filter test% run-% smoke coverage% fault bench%,$(MAKECMDGOALS)),test) \
  $(if $(filter fuzz%,$(MAKECMDGOALS)),fuzz) $(if $(filter lint% tidy,$(MAKECMDGOALS)),lint)
tools:
	@deps/install $(groups)

# Groups of packages: deps/install lists them.
FOR ?= build test
.PHONY: deps update-deps
deps:
	@deps/install --sudo $(FOR)
# The versions and sums that Debian has now; the next make fetches and compiles them.
update-deps:
	@deps/fetch --update

$(out)/code-flags: FORCE | tools
	$(call write_if_changed,$(compiler_version) $(code_flags))
$(out)/link-flags: FORCE | tools
	$(call write_if_changed,$(compiler_version) $(link_flags) $(link_tail) $(MAX_BYTES))
# So that the object of a deleted source leaves the archive.
$(out)/source-list: FORCE
	$(call write_if_changed,$(agent_sources) $(client_sources) $(support_sources))

$(out)/obj/%.o: %.c $(out)/code-flags $(headers_ready)
	@mkdir -p $(@D)
	@echo "  CC      $<"
	$(Q)$(CC) $(code_flags) -MMD -MP -c -o $@ $<

# What runs once for each step or connection, or less often, is for size; what runs for each byte, line, record
# or file is for speed.
for_speed := $(call named,for_speed,$(addprefix agent/, \
  $(addprefix frontends/redis/connection/, command.c redis_socket.c reply_parser.c tls% transport.c) \
  $(addprefix frontends/redis/delivery/, delivery.c outbox.c send_queue.c) \
  $(addprefix engine/, batcher.c capture.c lines.c execution.c execution_result.c) \
  $(addprefix files/, glob/% grep/% tree/%) $(addprefix process/, children.c supervisor.c supervisor_message.c supervisor_process.c supervisor_handle.c supervisors.c process.c process_table.c)) \
  $(addprefix base/, buffer.c decimal.c json_string.c mask.c memory.c needles.c utf%) \
  $(addprefix wire/, json.c step_report.c),$(agent_sources))
ifeq ($(optimize),-O2)
$(call object,$(filter-out $(for_speed),$(agent_sources))): private optimize := $(smaller)
endif

$(out)/libagent.a: $(call object,$(filter-out agent/main.c,$(agent_sources))) $(out)/source-list
	@rm -f $@
	$(Q)$(AR) rcs $@ $(filter %.o,$^)

$(out)/libsupport.a: $(call object,$(support_sources)) $(out)/source-list
	@rm -f $@
	$(Q)$(AR) rcs $@ $(filter %.o,$^)

# The order of the code: the kernel maps 64 KB around each page that is used, all of which counts as memory of an
# agent. What one that waits for steps from Redis uses comes first, with the C library; then what a step needs; then
# TLS; then what is only needed now and then, or for another frontend.
at_start := $(call named,at_start,agent/tools/tool.c \
  $(addprefix agent/process/, supervisors.c supervisor.c supervisor_process.c supervisor_handle.c),$(agent_sources))
later = $(call object,$(filter-out $(at_start),$(call named,$(1),$(2),$(agent_sources))))
for_steps := $(call later,for_steps,agent/kinds/% agent/process/% wire/% \
  $(addprefix agent/engine/, batcher.c capture.c lines.c execution.c execution_result.c)) $(out)/deps/libcjson.a
for_tls := $(call later,for_tls,agent/frontends/redis/connection/tls%) $(out)/deps/libmbedtls.a
rarely := $(call later,rarely,agent/frontends/request_files/% agent/frontends/mcp/% agent/frontends/once/% agent/frontends/stdio/% \
  agent/frontends/call% agent/frontends/line_reader.c agent/frontends/stdio_channel.c \
  agent/files/% agent/tools/% inject/%) $(out)/deps/libpcre2.a
first := $(filter-out $(for_steps) $(for_tls) $(rarely),$(call object,$(agent_sources)) $(dep_libs))

$(out)/agent: $(out)/obj/agent/main.o $(out)/libagent.a $(dep_libs) $(out)/link-flags deps/check-binary
	@echo "  LINK    $@"
ifeq ($(LIBC),musl)
	@rm -f $@ $(agent)
	$(Q)$(CC) $(link_flags) -o $@.unstripped $(first) \
	  -lc $(for_steps) -lc $(for_tls) -lc -Wl,--start-group $(rarely) -lc -Wl,--end-group $(link_tail)
ifneq ($(DEBUG),)
	@mv $@.unstripped $@
else
	$(Q)$(STRIP) -o $@.unchecked $@.unstripped
	$(Q)deps/check-binary $@.unchecked $(MAX_BYTES) $(filter %.a,$^) || { rm -f $@.unchecked; exit 1; }
	@mv $@.unchecked $@
endif
else
	$(Q)$(CC) $(link_flags) -o $@ $(filter %.o %.a,$^)
endif

# The program whose idle cycle is short, for the tests that wait for it; every other test runs the
# program as it is shipped. Only what reads the constant is compiled again.
short_idle := $(out)/agent-short-idle
short_idle_objects := $(out)/short-idle/agent/main.o
$(out)/short-idle/%.o: %.c $(out)/code-flags $(headers_ready)
	@mkdir -p $(@D)
	@echo "  CC      $< (short idle cycle)"
	$(Q)$(CC) $(code_flags) -DIDLE_CYCLE_SECONDS=5 -MMD -MP -c -o $@ $<
$(short_idle): $(short_idle_objects) $(out)/libagent.a $(dep_libs) $(out)/link-flags
	@echo "  LINK    $@"
	$(Q)$(CC) $(link_flags) -o $@ $(filter %.o %.a,$^) $(link_tail)

# Compilers share this name; .origin holds the last one, so that a switch replaces the file.
$(agent).origin: FORCE
	$(call write_if_changed,$(out))
$(agent): $(out)/agent $(agent).origin
	@cp $< $@.new
	@mv $@.new $@
	@echo "  DONE    $@, $$(wc -c <$@) bytes"

# The client takes of the agent what it needs: wire/, base/ and the connection of the Redis frontend.
$(out)/libclient.a: $(call object,$(filter-out client/main.c,$(client_sources))) $(out)/source-list
	@rm -f $@
	$(Q)$(AR) rcs $@ $(filter %.o,$^)
$(out)/sandbox: $(out)/obj/client/main.o $(out)/libclient.a $(out)/libagent.a $(dep_libs) $(out)/link-flags deps/check-binary
	@echo "  LINK    $@"
ifeq ($(LIBC),musl)
	$(Q)$(CC) $(link_flags) -o $@.unstripped $(filter %.o %.a,$^) $(link_tail)
ifneq ($(DEBUG),)
	@mv $@.unstripped $@
else
	$(Q)$(STRIP) -o $@.unchecked $@.unstripped
	$(Q)deps/check-binary $@.unchecked $(CLIENT_MAX_BYTES) $(filter %.a,$^) || { rm -f $@.unchecked; exit 1; }
	@mv $@.unchecked $@
endif
else
	$(Q)$(CC) $(link_flags) -o $@ $(filter %.o %.a,$^)
endif
$(sandbox): $(out)/sandbox $(agent).origin
	@cp $< $@.new
	@mv $@.new $@
	@echo "  DONE    $@, $$(wc -c <$@) bytes"

.PHONY: debug
debug:
	+@$(MAKE) --no-print-directory SANITIZE= COVERAGE= DEBUG=1 agent

version := $(shell sed -n 's/^.define SANDBOX_VERSION "\(.*\)"/\1/p' wire/version.h)

prefix ?= /usr/local
bindir ?= $(prefix)/bin
docdir ?= $(prefix)/share/doc/sandbox-agent
.PHONY: install install-client install-carrier
install: $(agent) $(licenses)
	install -D --mode=755 $(agent) $(DESTDIR)$(bindir)/agent
	install -D --mode=644 $(licenses) $(DESTDIR)$(docdir)/licenses

# The client, its manual and completion.
mandir ?= $(prefix)/share/man
install-client: $(sandbox)
	install -D --mode=755 $(sandbox) $(DESTDIR)$(bindir)/sandbox
	install -D --mode=644 docs/man/sandbox.1 $(DESTDIR)$(mandir)/man1/sandbox.1
	install -D --mode=644 docs/man/agent.1 $(DESTDIR)$(mandir)/man1/agent.1
	install -D --mode=644 completion/sandbox.bash $(DESTDIR)$(prefix)/share/bash-completion/completions/sandbox
	install -D --mode=644 completion/_sandbox $(DESTDIR)$(prefix)/share/zsh/site-functions/_sandbox

# All that is in the carrier image. The certificate authorities are those of Debian's package, without those that this
# machine trusts besides.
carrier := build/carrier
install-carrier: $(agent) $(sandbox) $(licenses)
	@install -d $(DESTDIR)
	@install --mode=755 $(agent) $(sandbox) $(DESTDIR)
	@install --mode=644 $(licenses) $(DESTDIR)
	@export LC_ALL=C; cat /usr/share/ca-certificates/mozilla/*.crt >$(DESTDIR)/ca-certificates.crt

# A release: both programs for each architecture, the carrier image of all of them, what is linked in, the
# licenses, the sums of all.
dist := build/dist
dist_name := sandbox-agent-$(version)
DIST_ARCHES ?= amd64 arm64
.PHONY: dist dist-programs dist-check
dist: $(licenses)
	@rm -rf $(dist) $(carrier)
	+@for arch in $(DIST_ARCHES); do \
	  $(MAKE) --no-print-directory ARCH=$$arch DESTDIR=$(carrier)/$$arch dist-programs install-carrier || exit 1; done
	@deps/sbom $(version) $(dist)/*-linux-* >$(dist)/$(dist_name).spdx.json
	@cp $(licenses) $(dist)/licenses
	@VERSION='$(version)' REVISION="$$(git rev-parse HEAD 2>/dev/null)" deploy/oci-image \
	  $(foreach arch,$(DIST_ARCHES),$(arch)=$(carrier)/$(arch)) >$(dist)/$(dist_name)-image.tar
	@cd $(dist) && sha256sum -- * >SHA256SUMS.new && mv SHA256SUMS.new SHA256SUMS && cat SHA256SUMS
dist-programs: $(agent) $(sandbox)
	@install -D --mode=755 $(agent) $(dist)/$(dist_name)-linux-$(ARCH)
	@install --mode=755 $(sandbox) $(dist)/sandbox-$(version)-linux-$(ARCH)

# From the same sources in another directory the same bytes come.
dist-check: dist
	@deploy/dist-check $(dist)

# The carrier image compiles the program again, in its first stage.
IMAGE ?= sandbox-agent:$(version)
.PHONY: image
image:
	@IMAGE='$(IMAGE)' ARCH='$(ARCH)' PYTHON='$(PYTHON)' VERSION='$(version)' REVISION="$$(git rev-parse HEAD 2>/dev/null)" deploy/build-image

# For clangd: every file as it is compiled with glibc, the headers of the libraries beside it.
.PHONY: compile_commands.json run-compile-commands
compile_commands.json:
	+@$(MAKE) --no-print-directory CC=gcc LIBC=glibc SANITIZE= COVERAGE= DEBUG= run-compile-commands
run-compile-commands: $(headers_ready)
	@{ separator='['; for file in $(filter %.c,$(c_files)); do \
	  printf '%s\n{"directory": "%s", "file": "%s", "command": "%s"}' "$$separator" '$(CURDIR)' "$$file" \
	    '$(subst ",\",$(CC) $(code_flags))'" -c $$file"; \
	  separator=,; done; printf '\n]\n'; } >compile_commands.json
	@echo "  DONE    compile_commands.json, $(words $(filter %.c,$(c_files))) files"

# --- tests ---------------------------------------------------------------------------------------

# A name stands for a server that deps/server fetches; anything else is a program.
servers := redis-7 redis-8 valkey-8
server := $(filter $(servers),$(REDIS_SERVER))
ifneq ($(server),)
override REDIS_SERVER := $(abspath build/servers/$(server)/redis-server)
endif
export REDIS_SERVER
# The agents of the tests log in as the user of docs/redis.md.
export TEST_REDIS_ACL := $(ACL)
# The servers of the tests speak TLS, and nothing else.
tls_files := build/tls
ifneq ($(TLS),)
by_tls := TEST_REDIS_TLS=$(abspath $(tls_files))
test test-integration: | $(tls_files)/server.pem
endif
$(tls_files)/server.pem:
	@deps/install test
	@mkdir -p $(@D)
	@openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 3650 -subj /CN=localhost \
	  -addext subjectAltName=DNS:localhost,IP:127.0.0.1 -keyout $(@D)/server.key -out $(@D)/ca.pem 2>/dev/null
	@cp $(@D)/ca.pem $@
.PHONY: $(servers)
$(servers): | tools
	@program=$$(deps/server $@) && echo "  SERVER  $$("$$program" --version)"
test test-integration coverage smoke: | $(server)

# Unit tests run under sanitizers; the tested program is the one this make was asked for.
in_tests = +@$(MAKE) --no-print-directory SANITIZE=$(TEST_SANITIZE) COVERAGE= LIBC=glibc AGENT=$(abspath $(agent)) \
  AGENT_SHORT_IDLE=$(abspath $(short_idle)) SANDBOX=$(abspath $(sandbox))

.PHONY: test test-unit test-integration run-test run-test-unit run-test-integration
test: $(agent) $(short_idle) $(sandbox)
	$(in_tests) run-test
test-unit:
	$(in_tests) run-test-unit
test-integration: $(agent) $(short_idle)
	$(in_tests) run-test-integration

# T names test programs, like unit/utf8 or "unit/utf8 integration/cancel": these only.
chosen = $(if $(T),$(call program,$(call named,T,$(foreach t,$(T),tests/$(dir $(t))test_$(notdir $(t)).c),$(test_sources))),$(1))
run-test: $(call chosen,$(unit_programs) $(integration_programs) $(client_test_programs) $(timed_programs))
run-test-unit: $(call chosen,$(unit_programs))
# With a server of one's own choice: not those that need none, nor those about a file system's faults.
of_any_server = $(shell grep -L 'support/\(job\|redis\|fake_redis\)' $(integration_sources); \
  grep -l 'support/hanging_mount' $(integration_sources))
run-test-integration: $(call chosen,$(filter-out $(if $(REDIS_SERVER)$(TLS),$(call program,$(of_any_server))),$(integration_programs)))
# With TLS: those that write redis:// themselves, or look at the bytes that an agent sends, without.
plain = $(if $(TLS),$(filter $(call program,$(shell grep -l '"redis://\|support/\(proxy\|certificates\)' $(integration_sources))),$^))
secure = $(filter-out $(plain),$(filter $(out)/%,$^))
to_run = AGENT='$(AGENT)' SANDBOX='$(SANDBOX)' AGENT_SHORT_IDLE='$(AGENT_SHORT_IDLE)' tests/run
run-test run-test-unit run-test-integration:
	@$(if $(secure)$(if $(plain),,none),$(by_tls) $(to_run) $(secure))
	@$(if $(plain),$(to_run) $(plain))

$(out)/tests/unit/%: $(out)/obj/tests/unit/%.o $(out)/libsupport.a $(out)/libagent.a $(dep_libs) $(out)/link-flags
	@mkdir -p $(@D)
	@echo "  LINK    $@"
	$(Q)$(CC) $(link_flags) -o $@ $(filter %.o %.a,$^) -lcmocka

$(integration_programs) $(client_test_programs) $(timed_programs): $(out)/%: $(out)/obj/%.o $(out)/libsupport.a $(dep_libs) $(out)/link-flags
	@mkdir -p $(@D)
	@echo "  LINK    $@"
	$(Q)$(CC) $(link_flags) -o $@ $(filter %.o %.a,$^) -lcmocka

# The server within a test has the program's buffers.
$(call program,$(call named,the server within a test,$(patsubst %,tests/%/test_untrusted_server.c,client integration timed),\
  $(test_sources))): $(out)/libagent.a

# The official clients and the conformance suite of MCP; and what the tests of the frontend have recorded, against the
# protocol's schemas, where there is a directory of them (<version>/schema.json), else against the SDK's types.
MCP_SCHEMAS ?= $(abspath $(wildcard ../shared/mcp-schema))
.PHONY: test-mcp run-test-mcp
test-mcp: $(agent)
	@deps/install test manifests
	$(in_tests) run-test-mcp
run-test-mcp: $(out)/tests/integration/test_mcp
	@AGENT='$(AGENT)' MCP_SCHEMAS='$(MCP_SCHEMAS)' tests/mcp/run $<

# Everything that can break between the agent and Redis, broken: tests/fault/main.c.
.PHONY: fault run-fault
fault: $(agent) | $(server)
	+@$(MAKE) --no-print-directory SANITIZE= COVERAGE= LIBC=glibc AGENT=$(abspath $(agent)) run-fault
run-fault: $(out)/tests/fault/fault
	@AGENT='$(AGENT)' $< $(patsubst short,--short,$(FAULT))

$(out)/tests/fault/fault: $(call object,$(fault_sources)) $(out)/libsupport.a $(dep_libs) $(out)/link-flags
	@mkdir -p $(@D)
	@echo "  LINK    $@"
	$(Q)$(CC) $(link_flags) -o $@ $(filter %.o %.a,$^) -lcmocka

# What the program does beside what the machine allows: bench/README.md. The programs that it runs
# are made as the agent is.
.PHONY: bench bench-ready run-bench run-bench-ready
in_bench = $(MAKE) --no-print-directory SANITIZE= COVERAGE= LIBC=glibc AGENT=$(abspath $(agent)) \
  SANDBOX=$(abspath $(sandbox)) BENCH_PROGRAMS=$(abspath $(out)/bench/programs)
bench:
	+@exec $(MAKE) --no-print-directory bench-ready >&2
	+@$(in_bench) run-bench
bench-ready: $(agent) $(sandbox) $(bench_programs) | $(server)
	+@$(in_bench) run-bench-ready
run-bench-ready: $(out)/bench/bench
# Two builds are compared as copies that were written in the same way: how much of a file the kernel
# maps at once depends on that. No shell in between: it would keep a SIGTERM to itself, and the bench
# would run on.
run-bench: # of what is ready: standard output is the table's
ifneq ($(BASELINE),)
	@mkdir -p $(out)/bench/compared
	@cp '$(AGENT)' $(out)/bench/compared/agent
	@cp '$(BASELINE)' $(out)/bench/compared/baseline
	@exec env AGENT='$(abspath $(out)/bench/compared/agent)' BASELINE='$(abspath $(out)/bench/compared/baseline)' \
	  SANDBOX='$(SANDBOX)' BENCH_PROGRAMS='$(BENCH_PROGRAMS)' $(out)/bench/bench $(if $(JSON),--json) $(BENCH)
else
	@exec env AGENT='$(AGENT)' SANDBOX='$(SANDBOX)' BENCH_PROGRAMS='$(BENCH_PROGRAMS)' $(out)/bench/bench $(if $(JSON),--json) $(BENCH)
endif

$(out)/bench/bench: $(call object,$(bench_sources)) $(out)/libsupport.a $(out)/libagent.a $(dep_libs) $(out)/link-flags
	@mkdir -p $(@D)
	@echo "  LINK    $@"
	$(Q)$(CC) $(link_flags) -o $@ $(filter %.o %.a,$^) -lcmocka -lm

# The ceiling of the agent's size is a program with all of the libraries.
bench_libs = -Wl,--start-group $(filter %.a,$^) -Wl,--end-group
$(out)/bench/programs/empty: private bench_libs = -Wl,--no-gc-sections,--whole-archive $(filter %.a,$^) -Wl,--no-whole-archive
# By TLS it has the agent's transport.
$(out)/bench/programs/ping: $(out)/libagent.a
$(out)/bench/programs/%: $(out)/obj/bench/programs/%.o $(dep_libs) $(out)/link-flags
	@mkdir -p $(@D)
	@echo "  LINK    $@"
	$(Q)$(CC) $(link_flags) -o $@.unstripped $< $(bench_libs) $(link_tail)
	$(Q)$(STRIP) -o $@ $@.unstripped

.PHONY: bench-picture
bench-picture: $(out)/bench/picture
	@[ -f build/bench.json ] || { echo "no figures yet: a whole make bench writes them" >&2; exit 1; }
	@$< build/bench.json bench/picture.svg
	@echo "  DONE    bench/picture.svg, $$(wc -c <bench/picture.svg) bytes"

# The terminal of the README: one run, drawn.
.PHONY: terminal-picture
terminal-picture: $(agent) $(sandbox)
	@deps/install test picture
	@AGENT='$(agent)' SANDBOX='$(sandbox)' docs/terminal docs/terminal.svg
	@echo "  DONE    docs/terminal.svg, $$(wc -c <docs/terminal.svg) bytes"

$(out)/bench/picture: $(out)/obj/bench/picture.o $(out)/deps/libcjson.a $(out)/link-flags
	@mkdir -p $(@D)
	@echo "  LINK    $@"
	$(Q)$(CC) $(link_flags) -o $@ $(filter %.o %.a,$^) $(link_tail) -lm

.PHONY: smoke
smoke: $(agent)
	@AGENT='$(abspath $(agent))' smoke/redis-cli

# What hosts of tools write, and read.
.PHONY: smoke-stdio
smoke-stdio: $(agent)
	@AGENT='$(abspath $(agent))' smoke/stdio

# As a skill sidecar, by files.
.PHONY: smoke-files
smoke-files: $(agent)
	@AGENT='$(abspath $(agent))' smoke/files

# Lines of JSON, as clients of MCP write them.
.PHONY: smoke-mcp
smoke-mcp: $(agent)
	@AGENT='$(abspath $(agent))' smoke/mcp

# Screens of the client, typed into a terminal.
.PHONY: smoke-client
smoke-client: $(agent) $(sandbox)
	@deps/install terminal
	@AGENT='$(abspath $(agent))' SANDBOX='$(abspath $(sandbox))' smoke/client

# The pages of sandbox follow --html, in a browser.
.PHONY: smoke-page
smoke-page: $(agent) $(sandbox)
	@deps/install browser
	@AGENT='$(abspath $(agent))' SANDBOX='$(abspath $(sandbox))' smoke/page

# What a server's author would write.
.PHONY: smoke-clients
smoke-clients: $(agent) | $(server)
	@deps/install test clients
	@AGENT='$(agent)' smoke/clients

# deploy/pod.yaml by podman.
.PHONY: smoke-pod
smoke-pod:
	@deps/install build pod
	+@$(MAKE) --no-print-directory DESTDIR=$(carrier)/pod install-carrier
	@CARRIER=$(carrier)/pod smoke/pod

# The program for arm64, emulated.
.PHONY: smoke-arm64
smoke-arm64:
	@deps/install test qemu
	+@$(MAKE) --no-print-directory ARCH=arm64 agent
	@AGENT=build/arm64/agent smoke/arm64

# The carrier image and three kinds of main image, by docker.
.PHONY: smoke-docker
smoke-docker:
	@deps/install build test
	+@smoke/docker-volume

.PHONY: fuzz run-fuzz
fuzz:
	+@$(MAKE) --no-print-directory CC=clang LIBC=glibc COVERAGE= SANITIZE=fuzzer-no-link,address,undefined run-fuzz
run-fuzz: $(patsubst tests/fuzz/fuzz_%.c,run-fuzz-%,$(fuzz_sources))

# The committed corpus is read; what is found on the way is written to a copy under build/.
run-fuzz-%: $(out)/tests/fuzz/fuzz_%
	@[ -n "$$(ls tests/fuzz/corpus/$* 2>/dev/null)" ] || { echo 'tests/fuzz/corpus/$* is empty' >&2; exit 1; }
	@rm -rf build/fuzz/$* && mkdir -p build/fuzz/$*
	@$< -max_total_time=$(FUZZ_SECONDS) -max_len=65536 -timeout=10 -rss_limit_mb=2048 \
	  -print_final_stats=1 -artifact_prefix=build/fuzz/$*- build/fuzz/$* tests/fuzz/corpus/$* \
	  >build/fuzz/$*.log 2>&1 || { tail -n 60 build/fuzz/$*.log; echo 'fuzz $*: failed'; exit 1; }
	@awk '/number_of_executed_units/ { runs = $$2 } /peak_rss_mb/ { rss = $$2 } / cov: / { cov = $$4 } \
	  END { printf "  FUZZ    $*: %d runs, %d edges, peak %d MB, no failure\n", runs, cov, rss }' build/fuzz/$*.log

# What the client reads.
$(call program,$(call named,what the client reads,tests/fuzz/fuzz_tar.c,$(fuzz_sources))): $(out)/libclient.a
# What is fuzzed parses and searches: it has no loop and no connection, but for one; random numbers are the loop's.
$(call program,$(call named,what has a loop,$(patsubst %,tests/fuzz/fuzz_%.c,conversation tar),$(fuzz_sources))): $(out)/deps/libhiredis.a $(out)/deps/liblibevent.a
$(out)/tests/fuzz/%: $(out)/obj/tests/fuzz/%.o $(out)/libagent.a $(out)/deps/libcjson.a $(out)/deps/libpcre2.a $(out)/link-flags
	@mkdir -p $(@D)
	@echo "  LINK    $@"
	$(Q)$(CC) $(link_flags) -fsanitize=fuzzer -o $@ $(filter %.o %/libclient.a,$^) $(filter-out %/libclient.a,$(filter %.a,$^))

.PHONY: coverage coverage-report
coverage:
	+@$(MAKE) --no-print-directory CC=gcc LIBC=glibc SANITIZE= COVERAGE=1 coverage-report
coverage-report: $(agent) $(short_idle) $(unit_programs) $(integration_programs)
	@find $(out)/obj -name '*.gcda' -delete
	@AGENT='$(abspath $(agent))' AGENT_SHORT_IDLE='$(abspath $(short_idle))' tests/run $(filter $(out)/tests/%,$^)
	@gcov --no-output --relative-only $(patsubst %.c,$(out)/obj/%.gcno,$(agent_sources)) 2>&1 | awk -F "[':% ]+" ' \
	  /^File / { file = $$2; next } \
	  /^Lines executed/ && file ~ /^(base|wire|inject|agent)\/.*\.c$$/ { \
	    printf "%6.2f %% of %4d  %s\n", $$3, $$5, file; hit += $$3 * $$5 / 100; all += $$5 } \
	  { file = "" } \
	  END { if (all) printf "%6.2f %% of %4d  total\n", 100 * hit / all, all }'

# --- care ----------------------------------------------------------------------------------------

# Not asked of cppcheck: NULL as the end of variable arguments (a pointer in every C library here),
# and uninitialized data across calls (it takes a struct to be filled for one to be read; the
# analyzer of clang-tidy and the sanitizers tell them apart).
cppcheck_off := --suppress=missingIncludeSystem --suppress=varFuncNullUB --suppress=ctuuninitvar

# gcc compiles what is shipped with musl, and all of it with glibc; clang, whose warnings need no code, reads it:
# with musl here, with glibc as clang-tidy.
.PHONY: lint lint-warnings tidy fmt
lint: tools
	@echo "  LINT    clang-format"
	@clang-format --dry-run -Werror $(c_files)
	@echo "  LINT    cppcheck"
	@cppcheck -j2 --quiet --std=c11 --language=c --enable=warning,performance,portability --inline-suppr \
	  $(cppcheck_off) --error-exitcode=1 -D_GNU_SOURCE -I. $(filter %.c,$(c_files))
	@echo "  LINT    shellcheck"
	@shellcheck -x $(scripts)
	@echo "  LINT    mandoc"
	@mandoc -T lint -W warning docs/man/*.1
	+@$(MAKE) --no-print-directory CC=gcc LIBC=musl SANITIZE= COVERAGE= lint-warnings
	+@$(MAKE) --no-print-directory CC=gcc LIBC=glibc SANITIZE= COVERAGE= lint-warnings
	+@$(MAKE) --no-print-directory CC=clang LIBC=musl SANITIZE= COVERAGE= lint-warnings
	+@$(MAKE) --no-print-directory CC=clang LIBC=glibc SANITIZE= COVERAGE= tidy
	@echo "  LINT    nothing to complain about"

lint-warnings: $(patsubst %,$(out)/lint/%,$(agent_sources) $(client_sources) $(bench_program_sources) $(if $(filter glibc,$(LIBC)),$(test_sources)))
	@echo "  LINT    $(notdir $(CC)) -Werror, $(LIBC): $(words $^) files"
$(out)/lint/%: % $(out)/code-flags $(headers_ready)
	@mkdir -p $(@D)
	$(Q)$(CC) $(code_flags) -Werror -MMD -MP -MF $@.d -MT $@ $(if $(is_clang),-fsyntax-only,-S -g0 -o /dev/null) $<
	@touch $@

# Tests may build their payloads with strcpy: the sanitizers watch them.
tests_tidy_off = $(if $(filter tests/%,$<),--checks=-clang-analyzer-security.insecureAPI.strcpy)
# The states of one function that the analyzer looks at. Where its own 225,000 are not enough, they take three
# quarters of the time of all.
analyzer_nodes := -Xclang -analyzer-config -Xclang max-nodes=60000
tidy: $(patsubst %,$(out)/tidy/%,$(agent_sources) $(client_sources) $(bench_program_sources) $(test_sources))
	@echo "  LINT    clang-tidy: $(words $^) files"
$(out)/tidy/%: % $(filter %.h,$(c_files)) .clang-tidy $(out)/code-flags $(headers_ready)
	@mkdir -p $(@D)
	@clang-tidy --quiet --warnings-as-errors='*' $(tests_tidy_off) $< -- $(code_flags) $(analyzer_nodes) >$@.log 2>&1 || { cat $@.log; exit 1; }
	@touch $@

fmt:
	@deps/install lint
	@clang-format -i $(c_files)

.PHONY: deploy-check
deploy-check:
	@deps/install manifests
	@deploy/check

.PHONY: clean distclean help
clean: # what was compiled; what was fetched stays
	@find build -mindepth 1 -maxdepth 1 ! -name src ! -name servers -exec rm -rf {} + 2>/dev/null || true
distclean:
	@rm -rf build compile_commands.json .cache/clangd

help:
	@echo 'make                  build/agent and build/sandbox, its client (CC=clang, ARCH=arm64, SANITIZE=…)'
	@echo 'make deps             installs the packages of make and make test, by apt, through sudo if need be'
	@echo '                      (FOR="build lint": those of other targets; deps/install lists the groups)'
	@echo 'make test             all tests; test-unit, test-integration: those only'
	@echo '                      (T=unit/utf8 or T=timed/cancel: one program; TEST_FILTER=name: one test;'
	@echo '                      REDIS_SERVER=redis-7, redis-8 or valkey-8: against that one;'
	@echo '                      ACL=1: as the Redis user of docs/redis.md; TLS=1: by TLS)'
	@echo 'make test-mcp         agent --mcp with the official clients of MCP and its conformance suite, by npm'
	@echo 'make fault            what breaks between agent and Redis, broken: nothing lost, nothing doubled'
	@echo '                      (FAULT=short: a cut of it, in some 5 minutes; FAULT=tls, FAULT="short tls": over TLS only;'
	@echo '                      FAULT=cut-again, FAULT=tls-cut-again: one family)'
	@echo 'make bench            speed and size, each beside its ceiling in the same run: bench/README.md'
	@echo '                      (BENCH="output step": these only; JSON=1: for programs;'
	@echo '                      BASELINE=path: beside another build, in turns)'
	@echo 'make bench-picture    the figures of the last whole bench as bench/picture.svg'
	@echo 'make terminal-picture  a run of the client in a terminal as docs/terminal.svg'
	@echo 'make smoke            the main job, typed by redis-cli, shown'
	@echo 'make smoke-stdio      lines of JSON, as hosts of tools write them, and the answers'
	@echo 'make smoke-files      a skill sidecar, by files in its directory, shown'
	@echo 'make smoke-mcp        lines of JSON, as clients of MCP write them, and the answers'
	@echo 'make smoke-client     the client in a terminal: its screens'
	@echo 'make smoke-page       a page of sandbox follow --html, in a browser'
	@echo 'make smoke-clients    the clients of examples/, in Python, TypeScript and, with an SDK, C#'
	@echo 'make smoke-arm64      the same by the program for arm64, emulated'
	@echo 'make smoke-docker     the agent as it gets into containers of three kinds, by docker (as root)'
	@echo 'make smoke-pod        deploy/pod.yaml, run by podman (as root)'
	@echo 'make debug            build/debug/agent: -O0, with symbols; start it with --dumpable'
	@echo 'make compile_commands.json   for clangd and other editors'
	@echo 'make install          the agent and the licenses, below DESTDIR and prefix=$(prefix)'
	@echo 'make install-client   the client, the manuals of both, completion for bash and zsh'
	@echo 'make dist             both programs for amd64 and arm64, the carrier image of both (OCI archive), their'
	@echo '                      SBOM and sums, in $(dist); dist-check builds them once more, elsewhere, and compares'
	@echo 'make image            the carrier image IMAGE=$(IMAGE) for ARCH=$(ARCH), by docker or podman'
	@echo '                      (PYTHON=directory: with a relocatable CPython, which steps find on their PATH)'
	@echo 'make fuzz             each fuzz target for FUZZ_SECONDS=$(FUZZ_SECONDS) from its corpus'
	@echo 'make coverage         line coverage of base/, wire/, inject/ and agent/ by all tests'
	@echo 'make lint             formatting, warnings of two compilers, clang-tidy, cppcheck, shellcheck'
	@echo 'make deploy-check     the manifests in deploy/ against the schemas of Kubernetes'
	@echo 'make fmt              formats every C file'
	@echo 'make update-deps      the newest versions of the libraries that Debian has, to deps/versions'
	@echo 'make clean            removes what was compiled; distclean: what was fetched too'

FORCE:

-include $(shell find $(out) -name '*.d' 2>/dev/null)
