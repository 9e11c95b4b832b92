#include "wire/heartbeat_json.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/check.h"
#include "base/decimal.h"

static const char before_time[] = "{\"Ts\":";

size_t heartbeat_json(int64_t unix_ms, int pid, bool step_in_flight,
                      char out[HEARTBEAT_JSON_SIZE]) {
  int length = snprintf(out, HEARTBEAT_JSON_SIZE, "%s%" PRId64 ",\"Pid\":%d,\"StepInFlight\":%s}",
                        before_time, unix_ms, pid, step_in_flight ? "true" : "false");
  CHECK(length > 0 && length < HEARTBEAT_JSON_SIZE);
  return (size_t)length;
}

bool heartbeat_json_set_time(char *json, int64_t unix_ms) {
  if (unix_ms < 0)
    return false;
  char *first = json + sizeof before_time - 1;
  if (strcspn(first, ",") != decimal_length((uint64_t)unix_ms))
    return false;
  (void)decimal_write(first, (uint64_t)unix_ms);
  return true;
}
