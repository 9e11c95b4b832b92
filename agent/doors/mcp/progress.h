#ifndef AGENT_DOORS_MCP_PROGRESS_H
#define AGENT_DOORS_MCP_PROGRESS_H

#include <stdbool.h>
#include <stdint.h>

/*
 * When a call that has asked for it reports progress. Clients that begin their time limit anew at
 * each report live by the beat. Pure: the time is an argument, in milliseconds of one clock.
 *
 *   progress = mcp_progress_begin(now)
 *   wait mcp_progress_wait(&progress, now)
 *   if (mcp_progress_is_due(&progress, now, output))   report now - progress.start_ms
 */
#define MCP_PROGRESS_FIRST_MS 500
#define MCP_PROGRESS_PACE_MS 250  /* between two, when there is new output */
#define MCP_PROGRESS_BEAT_MS 5000 /* between two, when there is none */

struct mcp_progress {
  int64_t start_ms;
  int64_t last_ms; /* when the last one was reported, or `start_ms` */
  bool reported;
  uint64_t output; /* bytes, with the last one */
};

struct mcp_progress mcp_progress_begin(int64_t now_ms);

/* How long until it has to be asked again: more than 0. */
int64_t mcp_progress_wait(const struct mcp_progress *self, int64_t now_ms);

/* `output`: bytes that the command has printed so far. When it is due, it counts as reported. */
bool mcp_progress_is_due(struct mcp_progress *self, int64_t now_ms, uint64_t output);

#endif
