#include "wire/beat.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static const char before_time[] = "{\"Ts\":";

size_t beat_json(int64_t unix_ms, int pid, bool step_in_flight, char out[BEAT_JSON_SIZE]) {
  return (size_t)snprintf(out, BEAT_JSON_SIZE, "%s%" PRId64 ",\"Pid\":%d,\"StepInFlight\":%s}",
                          before_time, unix_ms, pid, step_in_flight ? "true" : "false");
}

void beat_set_time(char *json, int64_t unix_ms) {
  char *first = strstr(json, before_time) + sizeof before_time - 1;
  for (char *at = strchr(first, ','); at-- > first; unix_ms /= 10)
    *at = (char)('0' + unix_ms % 10);
}
