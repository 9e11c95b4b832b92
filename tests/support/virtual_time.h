#pragma once

#include <sched.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/epoll.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "tests/support/loop.h"

/*
 * Virtual time for a test whose work all happens in its event loop: time advances only when nothing
 * else is left to do, and then at once to the next timer. A minute takes no real time and is exact
 * to the millisecond, however busy the machine is. Data must arrive at once, as through a local
 * socket. A test without a loop sets virtual_time_ms itself.
 *
 * The timers of libevent and base/clock are virtual. wait.h uses real time, because it detects
 * tests that hang.
 *
 * These functions replace the C library's and base/clock's: include this once in a test program.
 */
static int64_t virtual_time_ms = 1000000;

/* While another process works in a short virtual time: the minimum of real milliseconds per virtual
   one. */
static int virtual_time_pace_ms = 0;

/* The difference between the time of day and virtual_time_ms; a test that sets the clock changes
   it. */
static int64_t virtual_unix_offset_ms = INT64_C(1746439200000);

int64_t clock_monotonic_ms(void) {
  return virtual_time_ms;
}

int64_t clock_unix_ms(void) {
  return virtual_time_ms + virtual_unix_offset_ms;
}

/* Only libevent reads the coarse clock. */
int clock_gettime(clockid_t clock, struct timespec *out) {
  if (clock != CLOCK_MONOTONIC_COARSE)
    return (int)syscall(SYS_clock_gettime, clock, out);
  *out = (struct timespec){.tv_sec = virtual_time_ms / 1000,
                           .tv_nsec = virtual_time_ms % 1000 * 1000000};
  return 0;
}

int epoll_wait(int fd, struct epoll_event *events, int most, int timeout_ms) {
  bool may_pass = timeout_ms > 0;
  if (may_pass && virtual_time_pace_ms > 0) {
    int there = (int)syscall(SYS_epoll_pwait, fd, events, most, virtual_time_pace_ms, NULL, 0);
    virtual_time_ms += there == 0;
    return there;
  }
  int count = (int)syscall(SYS_epoll_pwait, fd, events, most, may_pass ? 0 : timeout_ms, NULL, 0);
  if (count == 0 && may_pass) {
    (void)sched_yield(); /* the kernel may deliver loopback data in a thread */
    count = (int)syscall(SYS_epoll_pwait, fd, events, most, 0, NULL, 0);
  }
  if (count == 0 && may_pass)
    virtual_time_ms += timeout_ms;
  return count;
}

/* Replaces that of loop.c: each tick is a sched_yield, which on a busy machine lets all others run
   first. */
int loop_tick_ms = 100;

/* Runs the loop for this much time, without checks in between as in loop_until: time advances from
   one timer to the next. */
static inline void virtual_time_pass(struct loop *loop, int64_t milliseconds) {
  int64_t end_ms = virtual_time_ms + milliseconds;
  for (int64_t left_ms; (left_ms = end_ms - virtual_time_ms) > 0;) {
    const struct timeval left = {.tv_sec = left_ms / 1000, .tv_usec = left_ms % 1000 * 1000};
    event_base_loopexit(loop->base, &left);
    event_base_dispatch(loop->base);
  }
}
