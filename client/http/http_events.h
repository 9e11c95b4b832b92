#pragma once

#include <stdbool.h>

#include "client/access.h"

/*
 * The events of an agent over HTTP. Each step has a stream of its own. For all steps, these streams
 * are read one after the other, in the order in which the steps began. An entry "ORDER-SEQ" is the
 * place of an event.
 */
extern const struct event_access http_event_access;

/*
 * Pushes the step that a source expects, and reads its events from the same response. With another
 * request for them, the agent would not wait for this reader in between, and drop the first events
 * of a fast command. The text must live until the result. Returns false if the response is no
 * stream, or was lost: the step may have been pushed nevertheless.
 */
bool http_events_push(void *source, const char *json);
