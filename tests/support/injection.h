#ifndef TESTS_SUPPORT_INJECTION_H
#define TESTS_SUPPORT_INJECTION_H

#include <stddef.h>
#include <sys/types.h>

#include "tests/support/agent_process.h"

/*
 * A directory to inject into, in which a test may mount what it likes: this process and its
 * children see the mounts, nobody else. Needs root. Whatever is not as it must be fails the test.
 *
 *   injection_succeeds(self, "agent")
 *   injection_expect_copy(self, "agent")
 *
 * Names of files are relative to the directory.
 */
struct injection {
  char path[40];            /* open to everybody, writable for root */
  struct agent_setup setup; /* how the injector is started; its arguments are set here */
  char root[64];            /* of injectors; see injection_use_root */
  char names[8][512];
  size_t last_name;
};

/* For cmocka: the namespace once for all tests, a directory for each. */
int injection_begin_group(void **state);
int injection_set_up(void **state);
int injection_tear_down(void **state);

/* A test that has one at hand as `self`. */
#define INJECTION_TEST(NAME) INJECTION_TEST_IF(true, NAME)
#define INJECTION_TEST_IF(CONDITION, NAME)                                                         \
  TEST_WITH_IF(CONDITION, struct injection *self, NAME, injection_set_up, injection_tear_down)

/* printf of a name, with the directory in front; valid until eight more were asked for. */
const char *injection_path(struct injection *self, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

void injection_make_directory(struct injection *self, const char *name, mode_t mode, uid_t owner);
void injection_write(struct injection *self, const char *name, const char *content, mode_t mode);

/* A file, or a directory with all that is in it. */
void injection_remove(struct injection *self, const char *name);

/* From now on injectors run in the directory `root`, and execute its `agent`. */
void injection_use_root(struct injection *self);

/* A tmpfs with these options ("size=64k") and MS_ flags at a directory that is made for it. */
void injection_mount(struct injection *self, const char *name, const char *options,
                     unsigned long flags);
/* The same mount with other flags. */
void injection_remount(struct injection *self, const char *name, unsigned long flags);

/* Starts `--inject target`, a name as it is, not relative to the directory. */
struct agent_process *injection_start(const struct injection *self, const char *target);

/* The injector leaves with 0. */
void injection_succeeds(struct injection *self, const char *name);

/* The same, and what is there then is the program. */
void injection_makes(struct injection *self, const char *name, const char *copy);

/* It leaves with 3 and one line that holds all three. */
void injection_is_refused(struct injection *self, const char *name, const char *where,
                          const char *reason, const char *advice);

/* The same of an injector that was started elsewhere; frees it. */
void injection_has_succeeded(struct agent_process *injector);

enum injection_state { INJECTION_ABSENT, INJECTION_WHOLE, INJECTION_OTHER };

/* What a reader finds under this absolute path: nothing, the program with mode 0755 (for a moment)
   or 0111, or anything else. */
enum injection_state injection_look(const char *path);

void injection_expect_copy(struct injection *self, const char *name);

/* Files and directories below a directory, hidden ones too. */
int injection_count(struct injection *self, const char *name);

#endif
