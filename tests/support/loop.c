#include "tests/support/loop.h"

#include <sys/prctl.h>
#include <sys/signalfd.h>

#include "base/cgroup.h"
#include "tests/support/gate.h"
#include "tests/support/logged.h"
#include "tests/support/proc.h"
#include "tests/test.h"

__attribute__((weak)) int loop_tick_ms = 2; /* virtual_time.h replaces it */

static void reap(struct loop *self) {
  if (self->reap != NULL)
    self->reap(self->owner);
  else
    while (waitpid(-1, NULL, WNOHANG) > 0)
      continue;
}

static void on_child(evutil_socket_t fd, short what, void *context) {
  (void)what;
  struct loop *self = context;
  struct signalfd_siginfo info;
  while (read((int)fd, &info, sizeof info) == (ssize_t)sizeof info)
    reap(self);
}

void loop_init(struct loop *self) {
  static char path[] = "PATH=/usr/bin:/bin";
  (void)cgroup_own(); /* stays open until the program ends */
  *self = (struct loop){.descriptors = proc_fd_count(getpid())};
  self->log = logged_open(LOG_INFO);
  self->stdin_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
  directory_init(&self->directory);
  snprintf(self->variable, sizeof self->variable, "D=%s", self->directory.path);
  self->environment[0] = self->variable;
  self->environment[1] = path;
  sigset_t all;
  sigset_t child;
  sigfillset(&all);
  sigdelset(&all, SIGTERM); /* so that the tests can be ended */
  sigdelset(&all, SIGINT);
  sigemptyset(&child);
  sigaddset(&child, SIGCHLD);
  assert_int_equal(sigprocmask(SIG_SETMASK, &all, NULL), 0);
  assert_int_equal(prctl(PR_SET_CHILD_SUBREAPER, 1), 0);
  self->base = event_base_new();
  self->child_fd = signalfd(-1, &child, SFD_NONBLOCK | SFD_CLOEXEC);
  assert_non_null(self->base);
  assert_true(self->child_fd >= 0);
  self->children = event_new(self->base, self->child_fd, EV_READ | EV_PERSIST, on_child, self);
  assert_non_null(self->children);
  assert_int_equal(event_add(self->children, NULL), 0);
}

static bool all_are_gone(void *context) {
  (void)context;
  proc_kill_children(getpid());
  while (waitpid(-1, NULL, WNOHANG) > 0)
    continue;
  return proc_child_count(getpid(), NULL) == 0;
}

void loop_release(struct loop *self) {
  self->reap = NULL; /* the owner was freed */
  bool gone = wait_until(all_are_gone, NULL, WAIT_BOUND_MS);
  loop_settle(self); /* frees cancelled look-ups */
  event_free(self->children);
  event_base_free(self->base);
  close(self->child_fd);
  close(self->log.fd);
  close(self->stdin_fd);
  gate_close_all();
  assert_true(gone);
  directory_release(&self->directory);
  assert_int_equal(proc_fd_count(getpid()), self->descriptors);
}

static void on_tick(evutil_socket_t fd, short what, void *context) {
  (void)fd;
  (void)what;
  (void)context;
}

void loop_wait_begin(struct loop_wait *self, struct loop *loop) {
  const struct timeval tick = {.tv_usec = loop_tick_ms * 1000L};
  *self = (struct loop_wait){.loop = loop, .end_ms = wait_now_ms() + WAIT_BOUND_MS};
  self->ticks = event_new(loop->base, -1, EV_PERSIST, on_tick, NULL);
  assert_non_null(self->ticks);
  event_add(self->ticks, &tick);
}

void loop_wait_turn(struct loop_wait *self, const char *awaited) {
  if (wait_now_ms() >= self->end_ms)
    fail_msg("never true: %s", awaited);
  event_base_loop(self->loop->base, EVLOOP_ONCE);
}

void loop_wait_end(struct loop_wait *self) {
  event_free(self->ticks);
}

bool loop_until(struct loop *self, bool (*condition)(void *context), void *context) {
  struct loop_wait wait;
  bool holds;
  loop_wait_begin(&wait, self);
  while (!(holds = condition(context)) && wait_now_ms() < wait.end_ms)
    event_base_loop(self->base, EVLOOP_ONCE);
  loop_wait_end(&wait);
  return holds;
}

void loop_settle(struct loop *self) {
  /* A turn may cause another one; a few turns are enough for work that needs no time. */
  for (int turn = 0; turn < 20; turn++)
    event_base_loop(self->base, EVLOOP_NONBLOCK);
}

bool loop_is_counted(void *counter) {
  return *(const int *)counter != 0;
}

struct awaited_count {
  const int *counter;
  int value;
};

static bool has_counted(void *context) {
  const struct awaited_count *awaited = context;
  return *awaited->counter >= awaited->value;
}

void loop_await(struct loop *self, const int *counter, int value) {
  struct awaited_count awaited = {counter, value};
  if (!loop_until(self, has_counted, &awaited))
    fail_msg("counted %d, not %d", *counter, value);
}

void loop_await_once(struct loop *self, int *counter) {
  loop_await(self, counter, 1);
  loop_settle(self);
  assert_int_equal(*counter, 1);
  *counter = 0;
}

int loop_logged(const struct loop *self, const char *text) {
  return logged_count(&self->log, text);
}

void loop_await_log(struct loop *self, const char *text) {
  LOOP_UNTIL(self, loop_logged(self, text) != 0);
}

void loop_await_file(struct loop *self, const char *name) {
  LOOP_UNTIL(self, directory_has(&self->directory, name));
}

void loop_open_gate(struct loop *self, const char *name) {
  gate_open(directory_path(&self->directory, name));
}
