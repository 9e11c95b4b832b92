/* A command behind a mount that answers nothing: it waits, nobody else does. */
#include <sys/stat.h>
#include <unistd.h>

#include "tests/support/hanging_mount.h"
#include "tests/support/injection.h"
#include "tests/support/proc.h"
#include "tests/support/process_owner.h"
#include "tests/support/wait.h"
#include "tests/test.h"

#define TRUE_PATH "/bin/true"

struct hang {
  struct process_owner *owner;
  struct hanging_mount mount;
  char inside[160]; /* a name in the mount */
};

static void hang_begin(struct hang *self, struct process_owner *owner) {
  self->owner = owner;
  snprintf(self->inside, sizeof self->inside, "%s/mount", self->owner->loop.directory.path);
  assert_int_equal(mkdir(self->inside, 0755), 0);
  hanging_mount_init(&self->mount, self->inside);
  snprintf(self->inside, sizeof self->inside, "%s/mount/below", self->owner->loop.directory.path);
}

static void hang_end(struct hang *self) {
  hanging_mount_release(&self->mount);
  self->inside[strlen(self->inside) - strlen("/below")] = '\0';
  assert_int_equal(rmdir(self->inside), 0);
}

static void on_timer(evutil_socket_t fd, short what, void *context) {
  (void)fd;
  (void)what;
  ++*(int *)context;
}

/* The loop goes on. */
static void a_timer_fires(struct process_owner *owner) {
  int fired = 0;
  struct event *timer = evtimer_new(owner->loop.base, on_timer, &fired);
  const struct timeval soon = {.tv_usec = 1000};
  assert_int_equal(evtimer_add(timer, &soon), 0);
  assert_true(loop_until(&owner->loop, loop_is_counted, &fired));
  event_free(timer);
}

/* On its way to the program, waiting for the mount. */
static bool is_stuck(void *context) {
  char state = proc_state(*(const pid_t *)context);
  return state == 'S' || state == 'D';
}

/* The command's, once there is one. */
static pid_t child_of(struct process_owner *owner) {
  pid_t pid;
  while ((pid = process_pid(owner->process)) == 0)
    (void)usleep(1000);
  return pid;
}

static void another_one_runs(struct process_owner *owner) {
  char *argv[] = {TRUE_PATH, NULL};
  process_owner_start_argv(owner, argv, NULL);
  process_owner_exits(owner, 0);
}

/* Starts, hangs, is stopped, is given up; then another one runs, and the mount goes away. */
static void hangs(struct hang *hang, char *const *argv, const char *directory) {
  struct process_owner *owner = hang->owner;
  process_owner_start_argv(owner, argv, directory);
  pid_t child = child_of(owner);
  assert_true(wait_until(is_stuck, &child, WAIT_BOUND_MS));
  a_timer_fires(owner);
  assert_int_equal(owner->ended, 0);
  process_stop(owner->process, 1);
  process_owner_ends(owner, PROCESS_STOPPED);
  assert_int_equal(owner->outcome.survivors, 1);
  another_one_runs(owner);
  assert_true(is_stuck(&child));
  hang_end(hang);
  assert_true(proc_wait_pid_gone(child, WAIT_BOUND_MS));
  another_one_runs(owner);
}

PROCESS_TEST(a_directory_that_hangs) {
  struct hang hang;
  hang_begin(&hang, owner);
  char *argv[] = {TRUE_PATH, NULL};
  hangs(&hang, argv, hang.inside);
}

PROCESS_TEST(a_program_that_hangs) {
  struct hang hang;
  hang_begin(&hang, owner);
  char *argv[] = {hang.inside, NULL};
  hangs(&hang, argv, NULL);
}

PROCESS_TEST(what_is_freed_while_it_hangs_waits_for_nobody) {
  struct hang hang;
  hang_begin(&hang, owner);
  char *argv[] = {TRUE_PATH, NULL};
  process_owner_start_argv(owner, argv, hang.inside);
  pid_t child = child_of(owner);
  assert_true(wait_until(is_stuck, &child, WAIT_BOUND_MS));
  process_owner_free(owner);
  hang_end(&hang);
  assert_true(proc_wait_pid_gone(child, WAIT_BOUND_MS));
  another_one_runs(owner);
}

/* The mount comes to an end, and the child with a reason. */
PROCESS_TEST(an_error_that_comes_late_is_told) {
  struct hang hang;
  hang_begin(&hang, owner);
  char name[160];
  snprintf(name, sizeof name, "%s", hang.inside);
  char *argv[] = {name, NULL};
  process_owner_start_argv(owner, argv, NULL);
  pid_t child = child_of(owner);
  assert_true(wait_until(is_stuck, &child, WAIT_BOUND_MS));
  hang_end(&hang);
  process_owner_ends(owner, PROCESS_NOT_STARTED);
  assert_int_equal(strncmp(owner->failure.reason.text, "cannot run /", 12), 0);
  assert_non_null(strstr(owner->failure.reason.text, "/mount/below: "));
}

TEST_GROUP(injection_begin_group, NULL)
