#include "agent/last_words.h"

#include "base/clock.h"

static void log_result(void *owner, const char *json, size_t length) {
  const struct log *log = owner;
  log_line(log, LOG_ERROR, NULL, "undelivered result: %.*s", (int)length, json);
}

void last_words(const struct log *log, const struct outbox *outbox) {
  struct log patient = *log;
  patient.wait_until_ms = clock_monotonic_ms() + LAST_WORDS_MS;
  log_line(&patient, LOG_ERROR, NULL, "what follows did not reach redis, nor did output");
  outbox_each_result(outbox, log_result, &patient);
}
