#include "agent/doors/redis/client/outage.h"

#include <stdio.h>
#include <string.h>

static bool is_told(const struct outage *self, const char *why, bool refused, int64_t now_ms) {
  if (!refused)
    return self->there && strcmp(self->text, why) == 0;
  bool lately = self->there || now_ms - self->told_ms < OUTAGE_TOLD_MS;
  return self->told_ms > 0 && lately && strncmp(self->text, why, strcspn(why, " ") + 1) == 0;
}

bool outage_is_news(struct outage *self, const char *why, bool refused, int64_t now_ms) {
  bool news = !is_told(self, why, refused, now_ms);
  self->told = (self->there && self->told) || news;
  if (!self->there)
    self->since_ms = now_ms;
  self->there = true;
  if (news) {
    (void)snprintf(self->text, sizeof self->text, "%s", why);
    self->told_ms = now_ms;
  }
  return news;
}
