#ifndef AGENT_DOORS_CALL_PROGRESS_H
#define AGENT_DOORS_CALL_PROGRESS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * When a call that has asked for it reports progress. Clients that begin their time limit anew at
 * each report live by the beat. Pure: the time is an argument, in milliseconds of one clock.
 *
 *   progress = call_progress_begin(now)
 *   wait call_progress_wait(&progress, now)
 *   if (call_progress_is_due(&progress, now, output))   report now - progress.start_ms
 */
#define CALL_PROGRESS_FIRST_MS 500
#define CALL_PROGRESS_PACE_MS 250  /* between two, when there is new output */
#define CALL_PROGRESS_BEAT_MS 5000 /* between two, when there is none */

/* The longest message, in characters, and room for the line that it is cut from. */
#define CALL_PROGRESS_CHARACTERS 200
#define CALL_PROGRESS_BYTES (4 * CALL_PROGRESS_CHARACTERS)

struct call_progress {
  int64_t start_ms;
  int64_t last_ms; /* when the last one was reported, or `start_ms` */
  bool reported;
  uint64_t output; /* bytes, with the last one */
};

struct call_progress call_progress_begin(int64_t now_ms);

/* How long until it has to be asked again: more than 0. */
int64_t call_progress_wait(const struct call_progress *self, int64_t now_ms);

/* `output`: bytes that the command has printed so far. When it is due, it counts as reported. */
bool call_progress_is_due(struct call_progress *self, int64_t now_ms, uint64_t output);

/* The length of the message that is cut from this line. */
size_t call_progress_cut(const char *line, size_t length);

#endif
