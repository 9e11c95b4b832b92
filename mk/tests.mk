# Tests, fault families, fuzzers, coverage and smokes.

.PHONY: test test-unit test-integration test-http test-mcp test-sdk run-test run-test-unit run-test-integration \
  run-test-mcp fault run-fault fuzz run-fuzz coverage coverage-report smoke redis-7 redis-8 valkey-8

# A name is one of the servers that deps/server fetches; anything else is a program.
servers := redis-7 redis-8 valkey-8
server := $(filter $(servers),$(REDIS_SERVER))
override REDIS_SERVER := $(if $(server),$(abspath build/servers/$(server)/redis-server),$(REDIS_SERVER))
export REDIS_SERVER
export TEST_REDIS_ACL := $(ACL)
export TEST_REDIS_TLS := $(if $(TLS),$(abspath build/tls))
$(servers): | tools
	@program=$$(deps/server $@) && echo "  SERVER  $$("$$program" --version)"
test test-integration test-sdk coverage fault bench-ready smoke smoke-redis-cli smoke-clients: | $(server)

test test-integration: | $(if $(TLS),build/tls/server.pem)
build/tls/server.pem: | tools
	@tests/make-certificate $(@D)

tests_of = $(patsubst %.c,$(out)/%,$(wildcard $(patsubst %,tests/%/test_*.c,$(1))))
# The modules of the product are in an archive, because tests may have a fake of one: that is linked instead.
$(out)/tests/%: $(out)/link-flags
	@mkdir -p $(@D) && rm -f $@.a && $(AR) rcsT $@.a $(filter-out $(out)/obj/tests/%,$(filter %.o,$^))
	$(call link,$@,$(filter $(out)/obj/tests/%,$^) $@.a $(filter %.a,$^) -lcmocka)
$(call tests_of,unit integration client timed): $(out)/obj/tests/support/test_main.o
$(out)/tests/fuzz/%: $(out)/link-flags
	@mkdir -p $(@D) && rm -f $@.a && $(AR) rcsT $@.a $(filter-out $(out)/obj/tests/%,$(filter %.o,$^))
	$(call link,$@,-fsanitize=fuzzer $(filter $(out)/obj/tests/%,$^) $@.a $(filter %.a,$^) -lcmocka)

# For tests that wait for an agent's idle cycle. All other tests run the program as it is shipped.
short_idle := $(out)/agent-short-idle
$(out)/short-idle/%.o: %.c $(out)/code-flags $(headers_ready)
	$(call compile,-DIDLE_CYCLE_SECONDS=5)
$(short_idle): $(out)/short-idle/agent/main.o $(filter-out %/agent/main.o,$(objects_agent)) $(out)/link-flags
	$(call link,$@,$(linked))

TEST_SANITIZE ?= address,undefined
source_of = tests/$(dir $(1))test_$(notdir $(1)).c
named_test = $(if $(wildcard $(source_of)),$(patsubst %.c,$(out)/%,$(source_of)),$(error there is no $(source_of)))
chosen = $(if $(T),$(foreach test,$(T),$(call named_test,$(test))),$(call tests_of,$(1)))

# The tests are compiled with sanitizers; the program that they test is the one this make was asked for.
test test-integration: $(if $(if $(T),$(filter-out unit/%,$(T)),all),$(agent) $(sandbox) $(short_idle))
test-mcp: $(agent)
test test-unit test-integration test-mcp:
	$(again) SANITIZE=$(TEST_SANITIZE) LIBC=glibc $(with_programs) run-$@
run-test: $(call chosen,unit integration client timed)
run-test-unit: $(call chosen,unit)
run-test-integration: $(call chosen,integration)
run-test run-test-unit run-test-integration:
	@tests/run $^

run-test-mcp: $(out)/tests/integration/test_mcp
	@tests/mcp/run $<

test-http: $(agent)
	@$(with_programs) tests/http/run

test-sdk: $(agent)
	@$(with_programs) tests/sdk/run $(SDK)

fault: $(agent)
	$(again) LIBC=glibc $(with_programs) run-fault
run-fault: $(out)/tests/fault/fault
	@$< $(patsubst short,--short,$(FAULT))

FUZZ_SECONDS ?= 30
fuzz:
	$(again) CC=clang LIBC=glibc SANITIZE=fuzzer-no-link,address,undefined run-fuzz
run-fuzz: $(patsubst tests/fuzz/fuzz_%.c,run-fuzz-%,$(wildcard tests/fuzz/fuzz_*.c))
run-fuzz-%: $(out)/tests/fuzz/fuzz_%
	@tests/fuzz/run $* $< $(FUZZ_SECONDS)

coverage:
	$(again) CC=gcc LIBC=glibc COVERAGE=1 coverage-report
coverage-report: $(agent) $(sandbox) $(short_idle) $(call tests_of,unit integration)
	@find $(out)/obj -name '*.gcda' -delete
	@$(with_programs) tests/run $(filter $(out)/tests/%,$^)
	@tests/coverage $(patsubst %.o,%.gcno,$(filter %.o,$(objects_agent)))

smoke: smoke-redis-cli
# The attacks of these tests also run in its container.
smoke-fence: $(agent)
	$(again) LIBC=glibc $(with_programs) run-smoke-fence
run-smoke-fence: $(addprefix $(out)/tests/integration/test_,fence fence_kinds)
	@smoke/fence $^
smoke-%: $(agent) $(sandbox)
	+@$(with_programs) smoke/$*
