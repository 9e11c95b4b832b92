#ifndef TESTS_SUPPORT_PROCESS_OWNER_H
#define TESTS_SUPPORT_PROCESS_OWNER_H

#include <stdbool.h>
#include <stddef.h>

#include "agent/process/process.h"
#include "tests/support/loop.h"

/* See struct process_context. */
#define PROCESS_OWNER_GRACE_MS 10000
#define PROCESS_OWNER_DRAIN_MS 1500

/* The owner of a process in a test: starts `sh -c script`, reads its output and records its
   outcome. The script has a directory of its own in $D. */
struct process_owner {
  struct loop loop;
  struct process_context context;
  int oom_score_fd;        /* of this process */
  struct process *process; /* NULL: none */
  char script[1024];
  char *argv[4]; /* of the script */
  unsigned timeout_seconds;
  char output[2][1 << 19]; /* texts, by stream */
  size_t length[2];
  size_t read_size;   /* how much is read at a time */
  int readable[2];    /* calls */
  int end_of_file[2]; /* process_read returned 0 */
  int ended;          /* calls */
  struct process_outcome outcome;
  struct exec_failure failure; /* of the outcome */
};

/* Fixtures; the state is a process_owner without a process. */
int process_owner_set_up(void **state);
int process_owner_tear_down(void **state);
#define PROCESS_TEST(NAME)                                                                         \
  TEST_WITH(struct process_owner *owner, NAME, process_owner_set_up, process_owner_tear_down)

/* Starts a script. */
void process_owner_start(struct process_owner *self, const char *script);

/* Starts a command in a directory (NULL: this process's). Both must stay until it is freed. */
void process_owner_start_argv(struct process_owner *self, char *const *argv, const char *directory);

/* The same, but the child waits for process_go. */
void process_owner_prepare(struct process_owner *self, const char *script);
void process_owner_prepare_argv(struct process_owner *self, char *const *argv,
                                const char *directory);

/* Frees the process, which may still run. */
void process_owner_free(struct process_owner *self);

/* Runs the loop until the command was reaped. */
void process_owner_reap(struct process_owner *self);

/* Runs the loop until the process has ended, and frees it. */
void process_owner_wait(struct process_owner *self);

/* The same, and check the outcome or the exit code. */
void process_owner_ends(struct process_owner *self, enum process_end end);
void process_owner_exits(struct process_owner *self, int exit_code);

/* Runs the loop until stdout holds exactly this text. */
void process_owner_expect(struct process_owner *self, const char *text);

#endif
