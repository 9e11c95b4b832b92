#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "agent/frontends/redis/connection/command.h"
#include "agent/frontends/redis/delivery/send_queue.h"
#include "agent/frontends/redis/keys.h"

/*
 * The commands of a batch that move a result to a list of replyTo, or let such a list expire. Redis
 * may refuse them, because of the type of the key or the rights of the user. Without them, the
 * result stays in `results`.
 */

/* Returns true if the batch's command with this index is one of them, and names it for people. */
bool reply_list_find(const struct keys *keys, const struct batch *batch, size_t index,
                     struct command_name *name);

/* Leaves out the commands about the same list as this one; if commands of the batch were left out
   before, those about all lists, so that a batch is sent three times at most. */
void reply_list_leave_out(const struct keys *keys, struct send_queue *send_queue, size_t index);
