# The compiler and its flags, and how objects and programs are made.

Q := $(if $(V),,@)

host_arch := $(patsubst x86_64,amd64,$(patsubst aarch64,arm64,$(shell uname -m)))
ARCH ?= $(host_arch)
cpu := $(patsubst amd64,x86_64,$(patsubst arm64,aarch64,$(ARCH)))
triplet := $(cpu)-linux-gnu
cross := $(if $(filter-out $(host_arch),$(ARCH)),$(triplet)-)

# CC and AR have defaults of make itself.
CC := $(if $(filter default,$(origin CC)),$(cross)gcc,$(CC))
AR := $(if $(filter default,$(origin AR)),$(cross)ar,$(AR))
STRIP ?= $(cross)strip
compiler := $(notdir $(firstword $(CC)))
is_clang := $(findstring clang,$(compiler))
target := $(if $(and $(is_clang),$(cross)),--target=$(triplet))

# Sanitizers and gcov need glibc.
LIBC ?= $(if $(SANITIZE)$(COVERAGE),glibc,musl)

# Each configuration has a directory for its objects, $(out), and one below build/ for its programs,
# $(variant). $(base) depends on the C library and the architecture alone.
comma := ,
base := build/$(LIBC)-$(ARCH)
out := $(base)-$(compiler)$(if $(SANITIZE),-$(subst $(comma),-,$(SANITIZE)))
out := $(out)$(if $(COVERAGE),-coverage)$(if $(DEBUG),-debug)
variant := $(if $(SANITIZE),sanitize/)$(if $(COVERAGE),coverage/)$(if $(DEBUG),debug/)$(if $(cross),$(ARCH)/)
variant := $(or $(variant),$(if $(filter glibc,$(LIBC)),glibc/))
agent := build/$(variant)agent
sandbox := build/$(variant)sandbox

# The headers of the libraries are used where they are; libevent's configure makes one more.
sources := build/src
event_config := $(base)/libevent
headers := $(patsubst %,-isystem %,deps $(event_config) $(sources) \
  $(addprefix $(sources)/,libevent/include pcre2/src mbedtls/include))
headers_ready := $(event_config)/event2/event-config.h $(wildcard deps/mbedtls/*.h)

# Runs make for another configuration of the same compiler; and the programs, for what runs them.
again = +@$(MAKE) --no-print-directory SANITIZE= COVERAGE= DEBUG=
with_programs = AGENT=$(abspath $(agent)) SANDBOX=$(abspath $(sandbox)) AGENT_SHORT_IDLE=$(abspath $(short_idle))

# The compiler is asked once, at the first use, when it is installed.
once = $(eval $(1) := $(2))$($(1))
ask = $(shell $(CC) $(target) $(1) 2>/dev/null)
compiler_version = $(call once,compiler_version,$(call ask,--version | head -n 1))
compiler_include = $(call once,compiler_include,$(call ask,-print-file-name=include))
crt_begin = $(call once,crt_begin,$(call ask,-print-file-name=crtbeginS.o))
crt_end = $(call once,crt_end,$(call ask,-print-file-name=crtendS.o))

warnings := -Wall -Wextra -Wshadow -Wvla -Wformat=2 -Wmissing-prototypes -Wstrict-prototypes -Wconversion \
  -Werror=implicit-function-declaration -Werror=int-conversion -Werror=incompatible-pointer-types
hardening := -fPIE -fstack-protector-strong -ffunction-sections -fdata-sections
optimize := $(if $(COVERAGE)$(DEBUG),-O0,$(if $(SANITIZE),-O1,-O2))

ifeq ($(LIBC),musl)
# musl-gcc does not support clang, and its -static-pie links dynamically. With rcrt1.o the program relocates itself.
musl_lib := /usr/lib/$(cpu)-linux-musl
libc_includes = -nostdinc -isystem /usr/include/$(cpu)-linux-musl -isystem $(compiler_include)
# By default, the linker works around an erratum of the Cortex-A53 with a page of stubs.
link_head = $(target) -nostartfiles -nostdlib -static -Wl,-static,-pie,--no-dynamic-linker \
  -Wl,-z,text,-z,relro,-z,now,-z,noexecstack,--gc-sections -L$(musl_lib) $(musl_lib)/rcrt1.o $(musl_lib)/crti.o \
  $(crt_begin) $(if $(filter arm64,$(ARCH)),-Wl$(comma)--fix-cortex-a53-843419=full)
link_tail = -Wl,--start-group -lc -lgcc -lgcc_eh -Wl,--end-group $(crt_end) $(musl_lib)/crtn.o
# A stripped C program is never unwound, and unwind tables would be an eighth of it. The unstripped program
# has them in its debug information.
hardening += $(if $(DEBUG),-fno-omit-frame-pointer,-fno-asynchronous-unwind-tables -fno-unwind-tables)
else
link_head = $(target) -pie -Wl,-z,relro,-z,now
endif

instrument := $(if $(SANITIZE),-fsanitize=$(SANITIZE) -fno-sanitize-recover=all -fno-omit-frame-pointer)
gcov := $(if $(COVERAGE),--coverage -fprofile-update=atomic)
# Debug information names no directory of this machine, so that the build ID is the same everywhere.
prefix_map := $(if $(COVERAGE),,-ffile-prefix-map=$(CURDIR)=.)

common_flags = $(target) $(optimize) -g $(hardening) $(instrument) $(prefix_map)
code_flags = $(common_flags) -std=c11 -D_GNU_SOURCE $(warnings) $(gcov) -I. $(headers) $(libc_includes) $(CFLAGS)
dep_flags = $(common_flags) -std=gnu11 -w $(headers) $(libc_includes) $(CFLAGS)
link_flags = $(link_head) $(instrument) $(gcov) $(LDFLAGS)

# Ends make if a name in a list stands for no source file.
existing = $(foreach name,$(1),$(if $(wildcard $(subst %,*,$(name)).c),$(name),$(error there is no $(name).c)))

# The code of the agent is optimized for size, except what runs for each byte, line, record or file. clang's -Oz
# is closest to gcc's -Os.
smaller := $(if $(filter -O2,$(optimize)),$(if $(is_clang),-Oz,-Os),$(optimize))
for_speed := $(call existing,base/buffer base/json_string base/mask base/needles base/utf% wire/json \
  wire/step_report agent/engine/lines agent/engine/capture agent/files/glob/% agent/files/grep/% \
  agent/frontends/redis/connection/reply_parser agent/frontends/redis/connection/transport)
$(patsubst %,$(out)/obj/%/%.o,agent inject wire base): private optimize := $(smaller)
$(patsubst %,$(out)/obj/%.o,$(for_speed)): private optimize := $(optimize)

# Writes the text to the target if it differs from the target's.
write_if_changed = @mkdir -p $(@D); printf '%s\n' '$(1)' | cmp -s - $@ || printf '%s\n' '$(1)' >$@
$(out)/code-flags: FORCE | tools
	$(call write_if_changed,$(compiler_version) $(code_flags) $(for_speed))
$(out)/link-flags: FORCE | tools
	$(call write_if_changed,$(compiler_version) $(link_flags) $(link_tail) $(MAX_BYTES) $(CLIENT_MAX_BYTES))

define compile
@mkdir -p $(@D)
@echo "  CC      $<"
$(Q)$(CC) $(code_flags) $(1) -MMD -MP -c -o $@ $<
endef
$(out)/obj/%.o: %.c $(out)/code-flags $(headers_ready)
	$(call compile)

# $(call link,PROGRAM,OBJECTS AND LIBRARIES)
define link
@mkdir -p $(@D)
@echo "  LINK    $@"
$(Q)$(CC) $(link_flags) -o $(1) $(2) $(link_tail)
endef
linked = $(sort $(filter %.o,$^)) $(filter %.a,$^)

# What each program is linked from follows from its #include lines: $(objects_PROGRAM).
programs := agent=agent sandbox=client tests/fault/fault=tests/fault bench/bench=bench \
  $(patsubst %.c,%,$(wildcard tests/*/test_*.c tests/fuzz/fuzz_*.c bench/programs/*.c))
$(shell mkdir -p build && deps/objects $(programs) >build/.objects.$$$$ && mv build/.objects.$$$$ build/objects.mk)
include build/objects.mk

# The packages that the goals of this run need, before anything else and all at once.
tools:
	@deps/install build $(if $(is_clang),clang $(if $(SANITIZE),fuzz)) $(if $(cross),build-$(ARCH)) \
	  $(if $(filter test% run-% smoke% coverage% fault bench%,$(MAKECMDGOALS)),test) \
	  $(if $(filter fuzz%,$(MAKECMDGOALS)),fuzz) $(if $(filter lint% tidy,$(MAKECMDGOALS)),lint)

-include $(shell find $(out) -name '*.d' 2>/dev/null)
