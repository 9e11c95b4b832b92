#include "tests/support/machine_clock.h"

#include <pthread.h>

#include "tests/test.h"

/* The worker looks at its clock about a million times a second. A larger step means that the whole
   machine stood still, which the kernel counts as work of the thread. */
#define STEP_MAX_NS INT64_C(1000000)

static _Atomic int64_t worked_ns;

static int64_t thread_ns(void) {
  struct timespec now;
  (void)clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

static void *work(void *context) {
  (void)context;
  for (int64_t before_ns = thread_ns();;) {
    int64_t now_ns = thread_ns(), step_ns = now_ns - before_ns;
    worked_ns += step_ns < STEP_MAX_NS ? step_ns : STEP_MAX_NS;
    before_ns = now_ns;
  }
  return NULL;
}

static void start_worker(void) {
  pthread_t worker;
  assert_int_equal(pthread_create(&worker, NULL, work, NULL), 0);
  assert_int_equal(pthread_detach(worker), 0);
}

double machine_clock_ms(void) {
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  assert_int_equal(pthread_once(&once, start_worker), 0);
  return (double)worked_ns / 1e6;
}
