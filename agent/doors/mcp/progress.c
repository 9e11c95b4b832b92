#include "agent/doors/mcp/progress.h"

struct mcp_progress mcp_progress_begin(int64_t now_ms) {
  return (struct mcp_progress){.start_ms = now_ms, .last_ms = now_ms};
}

static int64_t least_ms(const struct mcp_progress *self) {
  return self->last_ms + (self->reported ? MCP_PROGRESS_PACE_MS : MCP_PROGRESS_FIRST_MS);
}

int64_t mcp_progress_wait(const struct mcp_progress *self, int64_t now_ms) {
  int64_t left = least_ms(self) - now_ms;
  return left > 0 ? left : MCP_PROGRESS_PACE_MS;
}

bool mcp_progress_is_due(struct mcp_progress *self, int64_t now_ms, uint64_t output) {
  bool is_news = !self->reported || output != self->output;
  if (now_ms < (is_news ? least_ms(self) : self->last_ms + MCP_PROGRESS_BEAT_MS))
    return false;
  self->last_ms = now_ms;
  self->reported = true;
  self->output = output;
  return true;
}
