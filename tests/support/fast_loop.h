#ifndef TESTS_SUPPORT_FAST_LOOP_H
#define TESTS_SUPPORT_FAST_LOOP_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/loop.h"

/*
 * agent/loop_event for a test in which the loop's time goes by TIMES as fast, which it defines
 * before. These functions stand before the program's own: to be included once in a test program.
 */
struct event_base *loop_event_base_new(void) {
  return event_base_new();
}

struct event *loop_event_new_idle(struct event_base *base, int fd, short what,
                                  event_callback_fn callback, void *owner) {
  return event_new(base, fd, what, callback, owner);
}

struct event *loop_event_new(struct event_base *base, int fd, short what,
                             event_callback_fn callback, void *owner) {
  struct event *event = event_new(base, fd, what, callback, owner);
  assert_int_equal(event_add(event, NULL), 0);
  return event;
}

struct event *loop_timer_new(struct event_base *base, event_callback_fn callback, void *owner) {
  return evtimer_new(base, callback, owner);
}

struct timeval loop_milliseconds(int64_t milliseconds) {
  int64_t us = milliseconds * 1000 / TIMES;
  return (struct timeval){.tv_sec = (time_t)(us / 1000000), .tv_usec = (suseconds_t)(us % 1000000)};
}

void loop_timer_start(struct event *timer, int64_t milliseconds) {
  struct timeval time = loop_milliseconds(milliseconds);
  assert_int_equal(evtimer_add(timer, &time), 0);
}

void loop_timer_start_now(struct event *timer) {
  event_active(timer, EV_TIMEOUT, 0);
}

#endif
