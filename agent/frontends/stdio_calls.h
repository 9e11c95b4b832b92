#pragma once

#include <event2/event.h>

#include "agent/frontends/calls.h"
#include "agent/frontends/stdio_channel.h"

/*
 * The tool calls of a host on standard input and standard output: connects the queue of calls.h
 * with stdio_channel.h. A frontend embeds struct stdio_calls as its first member, and uses the
 * functions below in its struct frontend_type, struct calls_type and struct stdio_channel_type.
 * The hard part is who waits for whom:
 *
 *   - A call begins only while the host reads (stdio_channel_has_capacity).
 *   - The channel takes a line only while may_take() of the frontend allows it. Every call that
 *     leaves the queue makes capacity for lines, so stdio_calls_go_on serves both.
 */
struct stdio_calls {
  struct calls calls; /* first */
  struct stdio_channel channel;
};

void stdio_calls_init(struct stdio_calls *self, struct event_base *base, const struct log *log,
                      const struct calls_type *type, const struct stdio_channel_type *channel);
void stdio_calls_release(struct stdio_calls *self);

/* Returns the buffer for answers (stdio_channel_out). */
struct buffer *stdio_calls_out(struct calls *calls);

/* Returns the same buffer for a report of progress; NULL if the report is left out, because the
   host has not read STDIO_CHANNEL_HOLD_PROGRESS_BYTES. */
struct buffer *stdio_calls_progress_out(struct calls *calls);

/* For struct stdio_channel_type: serves the calls, then reads on. Leaves the engine when the input
   has ended and all calls are answered. */
void stdio_calls_go_on(struct frontend *frontend);

/* For struct calls_type. */
bool stdio_calls_has_capacity(const struct calls *calls);
void stdio_calls_served(struct calls *calls);

/* For struct frontend_type. */
void stdio_calls_want(struct frontend *frontend, unsigned requests);
void stdio_calls_flush(struct frontend *frontend);
void stdio_calls_close(struct frontend *frontend, enum frontend_close how);
void stdio_calls_dump(const struct frontend *frontend);
