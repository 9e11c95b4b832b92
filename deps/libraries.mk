# The libraries, for the Makefile: where their sources are (deps/versions pins them), and how each is
# compiled: once per configuration, with the program's own compiler and hardening. Lists only the files
# that a program on Linux needs; the linker drops what is not called.

sources_dir := build/src
sources_ready := $(sources_dir)/.fetched

libraries := hiredis libevent cjson pcre2 mbedtls

hiredis_files := alloc async hiredis net read sds
# The event loop alone: no buffers, no name service, no HTTP (SECURITY.md says so).
libevent_files := epoll event evmap evthread evutil evutil_rand evutil_time log poll select signal strlcpy
cjson_files := cJSON
# Without DFA matching, substitution, conversion and serialization, which a search does not call.
pcre2_files := $(addprefix src/pcre2_,auto_possess chartables chkdint compile compile_class config \
  context error extuni find_bracket jit_compile match match_data newline ord2utf pattern_info \
  script_run string_utils study tables ucd valid_utf xclass)

# A client: see deps/mbedtls_config.h.
mbedtls_files := $(addprefix library/,aes aesce aesni asn1parse asn1write base64 bignum bignum_core bignum_mod \
  bignum_mod_raw block_cipher chacha20 chachapoly cipher cipher_wrap constant_time ecdh ecdsa ecp ecp_curves \
  ecp_curves_new gcm hmac_drbg md oid pem pk pk_ecc pk_wrap pkparse platform platform_util poly1305 psa_crypto \
  psa_crypto_aead psa_crypto_cipher psa_crypto_client psa_crypto_driver_wrappers_no_static psa_crypto_ecp \
  psa_crypto_ffdh psa_crypto_hash psa_crypto_mac psa_crypto_pake psa_crypto_rsa psa_crypto_slot_management \
  psa_crypto_storage psa_util rsa rsa_alt_helpers sha256 sha512 ssl_ciphersuites ssl_client \
  ssl_debug_helpers_generated ssl_msg ssl_tls ssl_tls12_client ssl_tls13_client ssl_tls13_generic ssl_tls13_keys \
  version x509 x509_crt)

# The result of configure depends on the C library and the architecture, not on the compiler: $(base).
headers := $(base)/include
headers_ready := $(headers)/.ready
event_config := $(base)/libevent

dep_libs := $(foreach name,$(libraries),$(out)/deps/lib$(name).a)

hiredis_flags :=
libevent_flags = -DHAVE_CONFIG_H -I$(event_config) -I$(event_config)/private \
  -I$(sources_dir)/libevent/include -I$(sources_dir)/libevent -I$(sources_dir)/libevent/compat
cjson_flags :=
# Its generic configuration, for 8-bit units, with Unicode properties and the just-in-time compiler. clang takes minutes to
# optimize it with sanitizers.
pcre2_flags = -DHAVE_CONFIG_H -DPCRE2_CODE_UNIT_WIDTH=8 -DPCRE2_STATIC -DSUPPORT_PCRE2_8 \
  -DSUPPORT_UNICODE -DSUPPORT_JIT -DHAVE_MEMMOVE -DHAVE_BUILTIN_MUL_OVERFLOW \
  -DHAVE_BUILTIN_UNREACHABLE -I$(sources_dir)/pcre2/src \
  $(if $(and $(is_clang),$(SANITIZE)),-O0)

# Of a certificate with a signature that it does not know, it compares names of no bytes, at no address.
mbedtls_flags = -I$(headers) -I$(sources_dir)/mbedtls/library \
  $(if $(SANITIZE),-fno-sanitize=nonnull-attribute) \
  $(if $(filter library/ssl_tls12_client,$*),-include deps/mbedtls_tls12_pss.h) \
  $(if $(filter library/aesni,$*),$(if $(filter x86_64,$(cpu)),$(aes_instructions)))

# The library asks the processor for them before it calls this file. Without SSSE3 the compiler reverses the bytes
# of each block of GCM one by one.
aes_instructions := -O3 -maes -mpclmul -mssse3

# Files that run per byte or per turn of the loop are compiled for speed, the others for size. clang's
# -Oz is closest to gcc's -Os. The interpreter of PCRE2 (match) is as fast either way.
hot := read sds epoll event evmap evutil_time cJSON $(addprefix src/pcre2_,valid_utf xclass) \
  $(addprefix library/,aes aesce aesni bignum bignum_core bignum_mod bignum_mod_raw chacha20 constant_time ecp \
  ecp_curves gcm poly1305 sha256)
smaller := $(if $(filter -O2,$(optimize)),$(if $(is_clang),-Oz,-Os))

# The versions say by their sums what is fetched, and not the script.
$(sources_ready): deps/versions | tools
	@echo "  FETCH   $(libraries)"
	@rm -rf $(sources_dir)
	$(Q)deps/fetch $(sources_dir)
	@cd $(sources_dir)/pcre2/src && cp config.h.generic config.h && cp pcre2.h.generic pcre2.h && \
	  cp pcre2_chartables.c.dist pcre2_chartables.c
	@touch $@

$(event_config)/event2/event-config.h: $(sources_ready) deps/configure-libevent | tools
	@echo "  CONFIG  libevent for $(base)"
	$(Q)CC='$(CC) $(target)' CFLAGS='-O1 $(libc_includes) -fPIE' LDFLAGS='$(link_head)' LIBS='$(link_tail)' \
	  deps/configure-libevent $(sources_dir)/libevent $(event_config) $(triplet)

$(headers_ready): $(sources_ready) $(event_config)/event2/event-config.h deps/mbedtls_config.h deps/mbedtls_tls12_pss.h
	@rm -rf $(headers)
	@mkdir -p $(headers)/hiredis/adapters $(headers)/event2 $(headers)/cjson
	@cp $(sources_dir)/hiredis/*.h $(headers)/hiredis/
	@cp $(sources_dir)/hiredis/adapters/libevent.h $(headers)/hiredis/adapters/
	@cp $(sources_dir)/libevent/include/event2/*.h $(headers)/event2/
	@cp $(event_config)/event2/event-config.h $(headers)/event2/
	@cp $(sources_dir)/cjson/cJSON.h $(headers)/cjson/
	@cp $(sources_dir)/pcre2/src/pcre2.h $(headers)/
	@cp -R $(sources_dir)/mbedtls/include/mbedtls $(sources_dir)/mbedtls/include/psa $(headers)/
	@cp deps/mbedtls_config.h $(headers)/mbedtls/mbedtls_config.h
	@touch $@

# The licenses of everything that is linked into the program, and of the authorities in the carrier image; they
# accompany every copy of it.
licenses := build/licenses
$(licenses): LICENSE $(sources_ready) deps/libraries.mk
	@tail -n +1 LICENSE $(addprefix $(sources_dir)/,hiredis/COPYING libevent/LICENSE cjson/LICENSE \
	  pcre2/LICENCE.md mbedtls/LICENSE) /usr/share/doc/musl/copyright /usr/share/doc/ca-certificates/copyright >$@.new
	@mv $@.new $@

# $(1): the library. No rule names a source file: none exists yet when this file is read.
define library
$(out)/deps/$(1)/%.o: $(out)/deps/flags $(headers_ready)
	@mkdir -p $$(@D)
	@echo "  CC      $(1)/$$*.c"
	$$(Q)$$(CC) $$(dep_flags) $$($(1)_flags) $$(if $$(filter $$(hot),$$*),,$$(smaller)) -c -o $$@ $(sources_dir)/$(1)/$$*.c

$(out)/deps/lib$(1).a: $(patsubst %,$(out)/deps/$(1)/%.o,$($(1)_files))
	@rm -f $$@
	$$(Q)$$(AR) rcs $$@ $$^
endef
$(foreach name,$(libraries),$(eval $(call library,$(name))))

$(out)/deps/flags: deps/libraries.mk | tools
	$(call write_if_changed,$(compiler_version) $(dep_flags) $(foreach name,$(libraries),$($(name)_flags)) $(aes_instructions) $(hot))
$(out)/deps/flags: FORCE
