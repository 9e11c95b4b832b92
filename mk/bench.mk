# The bench, and the pictures of the documents.

.PHONY: bench bench-ready run-bench run-bench-ready bench-picture terminal-picture

# Standard output contains only the table. The programs that the bench runs are linked like the agent.
bench_programs := $(patsubst %.c,$(out)/%,$(wildcard bench/programs/*.c))
in_bench = $(again) LIBC=glibc $(with_programs) BENCH_PROGRAMS=$(abspath $(out)/bench/programs)
bench:
	+@exec $(MAKE) --no-print-directory bench-ready >&2
	$(in_bench) run-bench
bench-ready: $(agent) $(sandbox) $(bench_programs)
	$(in_bench) run-bench-ready
run-bench-ready: $(out)/bench/bench
run-bench:
	@exec bench/run $(out)/bench/bench $(if $(JSON),--json) $(BENCH)

$(out)/bench/bench: $(out)/link-flags
	$(call link,$@,$(linked) -lcmocka -lm)
$(out)/bench/programs/%: $(out)/link-flags
	$(call link,$@.unstripped,$(linked))
	$(Q)$(STRIP) -o $@ $@.unstripped

bench-picture: | tools
	@bench/picture build/bench.json bench/picture.svg
terminal-picture: $(agent) $(sandbox)
	@$(with_programs) docs/terminal docs/terminal.svg
