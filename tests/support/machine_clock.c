#include "tests/support/machine_clock.h"

#include <pthread.h>

#include "tests/test.h"

static clockid_t worker_clock;

static void *work(void *context) {
  (void)context;
  for (volatile unsigned long turns = 0;; turns = turns + 1)
    continue;
  return NULL;
}

static void start_worker(void) {
  pthread_t worker;
  assert_int_equal(pthread_create(&worker, NULL, work, NULL), 0);
  assert_int_equal(pthread_detach(worker), 0);
  assert_int_equal(pthread_getcpuclockid(worker, &worker_clock), 0);
}

double machine_clock_ms(void) {
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  struct timespec worked;
  assert_int_equal(pthread_once(&once, start_worker), 0);
  assert_int_equal(clock_gettime(worker_clock, &worked), 0);
  return (double)worked.tv_sec * 1e3 + (double)worked.tv_nsec / 1e6;
}
