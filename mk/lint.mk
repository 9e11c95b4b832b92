# Formatting, warnings, static analysis and the words of comments and documents.

.PHONY: lint lint-words lint-warnings tidy fmt compile_commands.json run-compile-commands

c_files := $(shell find base wire inject agent client tests smoke bench -name '*.[ch]' 2>/dev/null | LC_ALL=C sort)
# Tests compile the others themselves.
c_sources := $(filter-out tests/integration/%_command.c smoke/%,$(filter %.c,$(c_files)))
shipped_sources := $(filter-out tests/% bench/%,$(c_sources)) $(filter bench/programs/%,$(c_sources))
scripts = $(shell grep -slE '^\#( shellcheck shell=|!.*/(sh|env bash)$$)' .ci/* bench/* completion/* deploy/* deps/* \
  docs/* smoke/* tests/* tests/*/*)

# cppcheck also warns of NULL at the end of variable arguments, which is a pointer in every C library here, and of
# uninitialized data that a call has in fact filled.
lint: tools lint-words
	@echo "  LINT    clang-format, cppcheck, shellcheck, mandoc"
	@clang-format --dry-run -Werror $(c_files)
	@cppcheck -j2 --quiet --std=c11 --language=c --enable=warning,performance,portability --inline-suppr \
	  --suppress=missingIncludeSystem --suppress=varFuncNullUB --suppress=ctuuninitvar \
	  --error-exitcode=1 -D_GNU_SOURCE -I. $(filter %.c,$(c_files))
	@shellcheck -x $(scripts)
	@mandoc -T lint -W warning docs/man/*.1
	$(again) CC=gcc LIBC=musl lint-warnings
	$(again) CC=gcc LIBC=glibc lint-warnings
	$(again) CC=clang LIBC=musl lint-warnings
	$(again) CC=clang LIBC=glibc tidy
lint-words:
	@deps/check-words

# gcc compiles the shipped programs with musl, and everything with glibc. clang needs no code for its
# warnings; with glibc clang-tidy shows them.
lint-warnings: $(patsubst %,$(out)/lint/%,$(if $(filter musl,$(LIBC)),$(shipped_sources),$(c_sources)))
	@echo "  LINT    $(compiler) -Werror, $(LIBC): $(words $^) files"
$(out)/lint/%: % $(out)/code-flags $(headers_ready)
	@mkdir -p $(@D)
	$(Q)$(CC) $(code_flags) -Werror -MMD -MP -MF $@.d -MT $@ $(if $(is_clang),-fsyntax-only,-S -g0 -o /dev/null) $<
	@touch $@

# Tests may build their payloads with strcpy: the sanitizers watch them. With the analyzer's own limit of
# 225,000 states of a function, the few functions that reach it take three quarters of the time.
tidy: $(patsubst %,$(out)/tidy/%,$(c_sources))
	@echo "  LINT    clang-tidy: $(words $^) files"
$(out)/tidy/%: % $(filter %.h,$(c_files)) .clang-tidy $(out)/code-flags $(headers_ready)
	@mkdir -p $(@D)
	@clang-tidy --quiet --warnings-as-errors='*' \
	  $(if $(filter tests/%,$<),--checks=-clang-analyzer-security.insecureAPI.strcpy) $< -- $(code_flags) \
	  -Xclang -analyzer-config -Xclang max-nodes=60000 >$@.log 2>&1 || { cat $@.log; exit 1; }
	@touch $@

fmt:
	@deps/install lint
	@clang-format -i $(c_files)

compile_commands.json:
	$(again) CC=gcc LIBC=glibc run-compile-commands
run-compile-commands: $(headers_ready)
	@jq --null-input '[$$ARGS.positional[] | {directory: "$(CURDIR)", file: ., command: "$(CC) $(code_flags) -c \(.)"}]' \
	  --args $(filter %.c,$(c_files)) >compile_commands.json
