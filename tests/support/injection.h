#pragma once

#include <stddef.h>
#include <sys/types.h>

#include "tests/support/agent_process.h"

/*
 * A directory to inject into, in which a test may mount file systems; only this process and its
 * children see the mounts. Needs root. An unexpected result fails the test.
 *
 *   injection_succeeds(self, "agent")
 *   injection_expect_copy(self, "agent")
 *
 * Names of files are relative to the directory.
 */
struct injection {
  char path[40];            /* readable for everybody, writable for root */
  struct agent_setup setup; /* how the injector is started; its arguments are set here */
  char root[64];            /* the root of injectors; see injection_use_root */
  char names[8][512];
  size_t last_name;
};

/* For cmocka: makes the namespace once for all tests, and a directory for each. */
int injection_begin_group(void **state);
int injection_set_up(void **state);
int injection_tear_down(void **state);

/* A test with `self` as its fixture. */
#define INJECTION_TEST(NAME) INJECTION_TEST_IF(true, NAME)
#define INJECTION_TEST_IF(CONDITION, NAME)                                                         \
  TEST_WITH_IF(CONDITION, struct injection *self, NAME, injection_set_up, injection_tear_down)

/* Formats a path below the directory; valid until eight more were requested. */
const char *injection_path(struct injection *self, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

void injection_make_directory(struct injection *self, const char *name, mode_t mode, uid_t owner);
void injection_write(struct injection *self, const char *name, const char *content, mode_t mode);

/* Removes a file, or a directory with its content. */
void injection_remove(struct injection *self, const char *name);

/* From now on injectors run in the root `root` and execute its `agent`. */
void injection_use_root(struct injection *self);

/* Mounts a tmpfs with these options ("size=64k") and MS_ flags at a new directory. */
void injection_mount(struct injection *self, const char *name, const char *options,
                     unsigned long flags);
/* Changes the flags of the mount. */
void injection_remount(struct injection *self, const char *name, unsigned long flags);

/* Starts `--inject target`; the name is not relative to the directory. */
struct agent_process *injection_start(const struct injection *self, const char *target);

/* Runs an injector, which must exit with 0. */
void injection_succeeds(struct injection *self, const char *name);

/* The same; then `copy` must be the program. */
void injection_makes(struct injection *self, const char *name, const char *copy);

/* Runs an injector, which must exit with 3 and one line that contains all three texts. */
void injection_expect_refusal(struct injection *self, const char *name, const char *where,
                              const char *reason, const char *advice);

/* Waits until this injector has exited with 0, and frees it. */
void injection_expect_success(struct agent_process *injector);

enum injection_state { INJECTION_ABSENT, INJECTION_WHOLE, INJECTION_OTHER };

/* What an absolute path is: absent, the program with mode 0755 (for a moment) or 0111, or anything
   else. */
enum injection_state injection_look(const char *path);

void injection_expect_copy(struct injection *self, const char *name);

/* The number of files and directories below a directory, also hidden ones. */
int injection_count(struct injection *self, const char *name);
