#include "agent/doors/redis/link/backoff.h"

#include <stdio.h>
#include <string.h>

void backoff_succeeded(struct backoff *self) {
  self->attempts = 0;
  if (!self->succeeded)
    self->pause_ms = 0;
  self->succeeded = true;
}

int backoff_pause(struct backoff *self, uint64_t random) {
  int pause_ms = self->pause_ms;
  if (pause_ms == 0)
    pause_ms = self->succeeded ? BACKOFF_PAUSE_MIN_MS : BACKOFF_BOOT_PAUSE_MS;
  self->pause_ms = pause_ms < BACKOFF_PAUSE_MAX_MS / 2 ? 2 * pause_ms : BACKOFF_PAUSE_MAX_MS;
  if (!self->succeeded)
    return pause_ms;
  return pause_ms / 2 + (int)(random % (unsigned)(pause_ms / 2 + 1));
}

static bool is_known(const struct outage *self, const char *reason, bool is_error_reply,
                     int64_t now_ms) {
  if (!is_error_reply)
    return self->ongoing && strcmp(self->reason, reason) == 0;
  bool lately = self->ongoing || now_ms - self->news_ms < OUTAGE_NEWS_MS;
  size_t kind = strcspn(reason, " ") + 1;
  return self->news_ms > 0 && lately && strncmp(self->reason, reason, kind) == 0;
}

bool outage_is_news(struct outage *self, const char *reason, bool is_error_reply, int64_t now_ms) {
  bool is_news = !is_known(self, reason, is_error_reply, now_ms);
  self->was_news = (self->ongoing && self->was_news) || is_news;
  if (!self->ongoing)
    self->since_ms = now_ms;
  self->ongoing = true;
  if (is_news) {
    (void)snprintf(self->reason, sizeof self->reason, "%s", reason);
    self->news_ms = now_ms;
  }
  return is_news;
}
