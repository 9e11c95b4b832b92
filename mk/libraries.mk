# The libraries. deps/versions pins their sources, deps/sources lists the files that are compiled. Each
# configuration compiles them once, with the program's own compiler and hardening. Only tests and measurements use
# hiredis.
libraries := hiredis libevent cjson pcre2 mbedtls

libevent_flags = -DHAVE_CONFIG_H -I$(event_config)/private -I$(sources)/libevent -I$(sources)/libevent/compat
# The generic configuration for 8-bit units, with Unicode and the just-in-time compiler. clang takes minutes
# to optimize it with sanitizers.
pcre2_flags = -DHAVE_CONFIG_H -DPCRE2_CODE_UNIT_WIDTH=8 -DPCRE2_STATIC -DSUPPORT_PCRE2_8 -DSUPPORT_UNICODE \
  -DSUPPORT_JIT -DHAVE_MEMMOVE -DHAVE_BUILTIN_MUL_OVERFLOW -DHAVE_BUILTIN_UNREACHABLE \
  $(if $(and $(is_clang),$(SANITIZE)),-O0)
# For a certificate with an unknown signature, mbedTLS compares names of 0 bytes at address NULL.
mbedtls_flags = -I$(sources)/mbedtls/library $(if $(SANITIZE),-fno-sanitize=nonnull-attribute) \
  $(if $(filter library/ssl_tls12_client,$*),-include deps/mbedtls/mbedtls_tls12_pss.h) \
  $(if $(filter library/aesni,$*),$(aes_flags))
# mbedTLS calls this file if the processor has these instructions. SSSE3 reverses the bytes of a block of GCM at once.
aes_flags := $(if $(filter x86_64,$(cpu)),-O3 -maes -mpclmul -mssse3)

# deps/versions has the checksums of the sources, so a change of deps/fetch does not fetch them again.
$(sources)/.fetched: deps/versions | tools
	@echo "  FETCH   $(libraries)"
	@rm -rf $(sources)
	$(Q)deps/fetch $(sources)
	@touch $@
$(event_config)/event2/event-config.h: $(sources)/.fetched deps/configure-libevent
	@echo "  CONFIG  libevent for $(base)"
	$(Q)CC='$(CC) $(target)' CFLAGS='-O1 $(libc_includes) -fPIE' LDFLAGS='$(link_head)' LIBS='$(link_tail)' \
	  deps/configure-libevent $(sources)/libevent $(event_config) $(triplet)

# The licenses of all that is linked into the programs, and of the authorities in the carrier image.
licenses := build/licenses
$(licenses): LICENSE mk/libraries.mk $(sources)/.fetched
	@tail -n +1 LICENSE $(addprefix $(sources)/,libevent/LICENSE cjson/LICENSE pcre2/LICENCE.md \
	  mbedtls/LICENSE) /usr/share/doc/musl/copyright /usr/share/doc/ca-certificates/copyright >$@.new
	@mv $@.new $@

# No rule names a source file, because none exists yet when make reads this.
define library
$(1)_for_speed := $(patsubst %+,%,$(filter %+,$(2)))
$(out)/deps/$(1)/%.o: $(out)/dep-flags $(headers_ready)
	@mkdir -p $$(@D)
	@echo "  CC      $(1)/$$*.c"
	$$(Q)$$(CC) $$(dep_flags) $$(if $$(filter $$($(1)_for_speed),$$*),,$$(smaller)) $$($(1)_flags) -c -o $$@ \
	  $(sources)/$(1)/$$*.c
$(out)/deps/lib$(1).a: $(patsubst %,$(out)/deps/$(1)/%.o,$(subst +,,$(2)))
	@rm -f $$@
	$$(Q)$$(AR) rcs $$@ $$^
endef
$(foreach name,$(libraries),$(eval $(call library,$(name),$(shell sed -n 's/^$(name) //p' deps/sources))))
$(out)/dep-flags: mk/libraries.mk deps/sources FORCE | tools
	$(call write_if_changed,$(compiler_version) $(dep_flags) $(aes_flags) \
	  $(foreach name,$(libraries),$($(name)_flags) $($(name)_for_speed)))
