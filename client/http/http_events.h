#pragma once

#include "client/access.h"

/*
 * The events of an agent over HTTP. Each step has a stream of its own. For all steps, these streams
 * are read one after the other, in the order in which the steps began. An entry "ORDER-SEQ" is the
 * place of an event.
 */
extern const struct event_access http_event_access;
