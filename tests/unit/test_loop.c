#include "base/loop.h"

#include <sys/resource.h>

#include "base/memory.h"
#include "tests/test.h"

enum { CALLS_MAX = 1000 };

/* A timer that restarts itself until another event has happened. */
struct busy {
  struct event_base *base;
  struct event *timer;
  int calls;
  bool is_over;
};

static void on_timer(evutil_socket_t fd, short what, void *context) {
  (void)fd;
  (void)what;
  struct busy *self = context;
  if (++self->calls < CALLS_MAX && !self->is_over)
    loop_timer_start_now(self->timer);
}

static void on_other(evutil_socket_t fd, short what, void *context) {
  (void)fd;
  (void)what;
  struct busy *self = context;
  self->is_over = true;
}

static int set_up(void **state) {
  struct busy *self = calloc(1, sizeof *self);
  assert_non_null(self);
  self->base = loop_event_base_new();
  self->timer = loop_timer_new(self->base, on_timer, self);
  *state = self;
  return 0;
}

static int tear_down(void **state) {
  struct busy *self = *state;
  event_free(self->timer);
  event_base_free(self->base);
  free(self);
  return 0;
}

#define BUSY_TEST(NAME) TEST_WITH(struct busy *busy, NAME, set_up, tear_down)

BUSY_TEST(a_timer_that_restarts_itself_does_not_delay_a_descriptor) {
  int ends[2];
  assert_int_equal(pipe(ends), 0);
  struct event *readable = loop_event_new(busy->base, ends[0], EV_READ, on_other, busy);
  loop_timer_start_now(busy->timer);
  event_base_loop(busy->base, EVLOOP_ONCE);
  assert_int_equal(write(ends[1], "x", 1), 1);
  event_base_dispatch(busy->base);
  assert_in_range(busy->calls, 2, 3);
  event_free(readable);
  close(ends[0]);
  close(ends[1]);
}

BUSY_TEST(a_timer_that_restarts_itself_does_not_delay_a_timer) {
  struct event *other = loop_timer_new(busy->base, on_other, busy);
  loop_timer_start_now(busy->timer);
  event_base_loop(busy->base, EVLOOP_ONCE);
  loop_timer_start(other, 0);
  event_base_dispatch(busy->base);
  assert_in_range(busy->calls, 2, 3);
  event_free(other);
}

TEST(failing_to_create_a_loop_ends_the_program_with_the_reason) {
  int ends[2], status;
  char text[256];
  assert_int_equal(pipe(ends), 0);
  pid_t child = fork();
  assert_true(child >= 0);
  if (child == 0) {
    dup2(ends[1], STDERR_FILENO);
    (void)setrlimit(RLIMIT_NOFILE, &(struct rlimit){.rlim_cur = 3, .rlim_max = 3});
    (void)loop_event_base_new();
    _exit(0);
  }
  close(ends[1]);
  ssize_t length = read(ends[0], text, sizeof text - 1);
  close(ends[0]);
  assert_int_equal(waitpid(child, &status, 0), child);
  assert_int_equal(status, MEMORY_EXHAUSTED_EXIT << 8);
  assert_true(length > 0);
  text[length] = '\0';
  assert_non_null(strstr(text, "open files"));
}
