# The three libraries, for the Makefile: where their sources are, and how each is compiled.
#
# Once per configuration, with the program's own compiler and hardening. Only the files that a
# program on Linux needs are listed; the linker drops what is not called.

sources_dir := build/src
sources_ready := $(sources_dir)/.fetched

hiredis_files := alloc async hiredis net read sds
libevent_files := buffer bufferevent bufferevent_filter bufferevent_pair bufferevent_ratelim \
  bufferevent_sock epoll evdns event evmap evthread evutil evutil_rand evutil_time listener log \
  poll select signal strlcpy
cjson_files := cJSON

# What configure finds depends on the compiler and the C library, not on sanitizers: $(base).
headers := $(base)/include
headers_ready := $(headers)/.ready
event_config := $(base)/libevent

dep_libs := $(foreach name,hiredis libevent cjson,$(out)/deps/lib$(name).a)

hiredis_flags :=
libevent_flags = -DHAVE_CONFIG_H -I$(event_config) -I$(event_config)/private \
  -I$(sources_dir)/libevent/include -I$(sources_dir)/libevent -I$(sources_dir)/libevent/compat
cjson_flags :=

$(sources_ready): deps/fetch | tools
	@echo "  FETCH   hiredis libevent cJSON"
	@rm -rf $(sources_dir)
	$(Q)deps/fetch $(sources_dir)
	@touch $@

$(event_config)/event2/event-config.h: $(sources_ready) deps/configure-libevent $(base)/flags
	@echo "  CONFIG  libevent for $(base)"
	$(Q)CC='$(CC) $(target)' CFLAGS='-O1 $(libc_includes) -fPIE' LDFLAGS='$(link_head)' LIBS='$(link_tail)' \
	  deps/configure-libevent $(sources_dir)/libevent $(event_config) $(triplet)

$(headers_ready): $(sources_ready) $(event_config)/event2/event-config.h
	@rm -rf $(headers)
	@mkdir -p $(headers)/hiredis/adapters $(headers)/event2 $(headers)/cjson
	@cp $(sources_dir)/hiredis/*.h $(headers)/hiredis/
	@cp $(sources_dir)/hiredis/adapters/libevent.h $(headers)/hiredis/adapters/
	@cp $(sources_dir)/libevent/include/event2/*.h $(headers)/event2/
	@cp $(event_config)/event2/event-config.h $(headers)/event2/
	@cp $(sources_dir)/cjson/cJSON.h $(headers)/cjson/
	@touch $@

# $(1): the library. The sources do not exist when this file is read, so that no rule names them.
define library
$(out)/deps/$(1)/%.o: $(out)/deps/flags $(sources_ready) $(event_config)/event2/event-config.h
	@mkdir -p $$(@D)
	@echo "  CC      $(1)/$$*.c"
	$$(Q)$$(CC) $$(dep_flags) $$($(1)_flags) -c -o $$@ $(sources_dir)/$(1)/$$*.c

$(out)/deps/lib$(1).a: $(patsubst %,$(out)/deps/$(1)/%.o,$($(1)_files))
	@rm -f $$@
	$$(Q)$$(AR) rcs $$@ $$^
endef
$(foreach name,hiredis libevent cjson,$(eval $(call library,$(name))))

$(out)/deps/flags: deps/libraries.mk | tools
	$(call write_if_changed,$(compiler_version) $(dep_flags))
$(out)/deps/flags: FORCE
