#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "agent/frontends/redis/delivery/outbox.h"

/*
 * The control messages that were read and are still in the list `control`, the oldest first. The
 * heartbeat reads the list, and intake acts on the messages and removes them. Does no I/O.
 *
 * These messages are the oldest of the list, so their number is the position at which the next
 * message is read. Therefore nothing is removed while a read is under way. If Redis executes a
 * removal before its acknowledgement arrives, a read may skip newer messages; they are read after
 * the known ones have left. No message is read twice for that reason.
 */
#define CONTROL_MESSAGES_MAX 16384
#define CONTROL_BYTES_MAX ((size_t)1024 * 1024)

/* The most messages in one read. */
#define CONTROL_PAGE_MAX 128

/* The longest valid message. Only the beginning of a longer one is read. */
#define CONTROL_MESSAGE_BYTES ((size_t)64 * 1024)

enum control_state {
  CONTROL_PENDING, /* a cancel whose step was not found yet */
  CONTROL_DONE,    /* the message may be removed */
  CONTROL_REMOVING /* the removal is under way */
};

enum control_kind { CONTROL_MALFORMED, CONTROL_CANCEL, CONTROL_READ };

struct control_message {
  struct payload payload; /* owned */
  enum control_kind kind;
  char *step_id;   /* of the step that it is about; NULL: the message is malformed */
  uint64_t seq;    /* of CONTROL_READ */
  uint64_t number; /* counts the messages in the order in which they were read */
  enum control_state state;
  struct control_message *newer, *same_hash;
};

struct control_messages {
  struct control_message *oldest, *newest;
  struct control_message **by_id; /* a hash table; NULL while there are no messages */
  size_t count, bytes;
  size_t by_state[CONTROL_REMOVING + 1]; /* the number of messages in each state */
  uint64_t next_number;                  /* the number of the next message that is read */
  uint64_t removal_end; /* the removals are delivered when send_queue.delivered is at least this; 0:
                           there are none */
  /* The operation under way that relies on the messages' positions in the list. */
  enum { CONTROL_IDLE, CONTROL_READING, CONTROL_SEARCHING } activity;
};

void control_messages_release(struct control_messages *self);

/* Adds the next message of the list. */
struct control_message *control_messages_add(struct control_messages *self,
                                             const struct payload *payload);

/* Returns a pending cancel of this step, or NULL. */
struct control_message *control_messages_find(const struct control_messages *self,
                                              const char *step_id);

void control_messages_set_state(struct control_messages *self, struct control_message *message,
                                enum control_state state);

/* Notes that the removal of the message was written; it ends at this position in the send queue. */
void control_messages_begin_removal(struct control_messages *self, struct control_message *message,
                                    uint64_t end);

/* Frees the messages whose removal is delivered: send_queue.delivered is `delivered`. */
void control_messages_free_removed(struct control_messages *self, uint64_t delivered);

bool control_messages_is_full(const struct control_messages *self);
bool control_messages_may_read(const struct control_messages *self);
bool control_messages_may_remove(const struct control_messages *self);
