#ifndef TESTS_SUPPORT_VIRTUAL_TIME_H
#define TESTS_SUPPORT_VIRTUAL_TIME_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/epoll.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

/*
 * For a test in whose event loop everything happens: the loop's time goes on only when nothing else
 * is to be done, and then at once to the next timer. So what takes a minute takes no time, to the
 * millisecond, however busy the machine is. What arrives must be there as soon as it is sent, as in
 * a local socket; the loop's own bounds (wait.h) are real time.
 *
 * These functions stand before the C library's own: to be included once in a test program.
 */
static int64_t virtual_time_ms = 1000000;

/* The loop, and nobody else, reads the coarse clock. */
int clock_gettime(clockid_t clock, struct timespec *out) {
  if (clock != CLOCK_MONOTONIC_COARSE)
    return (int)syscall(SYS_clock_gettime, clock, out);
  *out = (struct timespec){.tv_sec = virtual_time_ms / 1000,
                           .tv_nsec = virtual_time_ms % 1000 * 1000000};
  return 0;
}

int epoll_wait(int fd, struct epoll_event *events, int most, int timeout_ms) {
  bool may_pass = timeout_ms > 0;
  int count = (int)syscall(SYS_epoll_pwait, fd, events, most, may_pass ? 0 : timeout_ms, NULL, 0);
  if (count == 0 && may_pass)
    virtual_time_ms += timeout_ms;
  return count;
}

#endif
