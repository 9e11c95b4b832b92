#include "wire/heartbeat_json.h"

#include <inttypes.h>
#include <stdio.h>

#include "base/check.h"

size_t heartbeat_json(int64_t unix_ms, int pid, bool step_in_flight,
                      char out[HEARTBEAT_JSON_SIZE]) {
  int length =
      snprintf(out, HEARTBEAT_JSON_SIZE, "{\"Ts\":%" PRId64 ",\"Pid\":%d,\"StepInFlight\":%s}",
               unix_ms, pid, step_in_flight ? "true" : "false");
  CHECK(length > 0 && length < HEARTBEAT_JSON_SIZE);
  return (size_t)length;
}
