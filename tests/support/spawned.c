#include "tests/support/spawned.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/support/wait.h"

pid_t spawned(const struct spawn_defaults *defaults, const struct spawn_request *request) {
  struct error error;
  struct spawn *spawn = spawn_new(defaults, request, &error);
  assert_non_null(spawn);
  assert_true(spawn_is_detached(spawn, WAIT_BOUND_MS));
  pid_t pid = spawn_pid(spawn);
  spawn_free(spawn);
  return pid;
}
