#ifndef AGENT_FRONTENDS_REDIS_HEARTBEAT_CONTROL_MESSAGES_H
#define AGENT_FRONTENDS_REDIS_HEARTBEAT_CONTROL_MESSAGES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "agent/frontends/redis/delivery/outbox.h"

/*
 * The messages of the list `control` that were read and have not left it yet, the oldest first.
 * They are the oldest of the list, so their number says where the next one is read. Nothing is
 * removed while a read is under way. When a removal is executed before its acknowledgement has
 * come, a read may pass over a newer message; that is read when those that are known have left. No
 * message is read twice for that reason. Does no I/O.
 */
#define CONTROL_MESSAGES_MAX 16384
#define CONTROL_BYTES_MAX ((size_t)1024 * 1024)

/* In one read, at most. */
#define CONTROL_PAGE_MAX 128

/* The longest message. A longer one is no message, and only its beginning is read. */
#define CONTROL_MESSAGE_BYTES ((size_t)64 * 1024)

enum control_state {
  CONTROL_WAITS,  /* a cancel whose step was not found yet */
  CONTROL_DONE,   /* it may be removed */
  CONTROL_REMOVED /* its removal is under way */
};

struct control_message {
  struct payload payload; /* owned */
  char *step_id;          /* of the step to cancel; NULL: the message is malformed */
  uint64_t number;        /* it was read as this one */
  enum control_state state;
  struct control_message *newer, *same_hash;
};

struct control_messages {
  struct control_message *oldest, *newest;
  struct control_message **by_id; /* a hash table; NULL while there are no messages */
  size_t count, bytes;
  size_t by_state[CONTROL_REMOVED + 1]; /* how many messages are in each state */
  uint64_t next;                        /* the number of the next message */
  uint64_t
      removed_at; /* the removals are delivered when the send queue's `gone` is at least this */
  enum { CONTROL_OF_NOBODY, CONTROL_OF_READER, CONTROL_OF_SEARCH } user;
};

void control_messages_release(struct control_messages *self);

/* Adds the message that was read next. */
struct control_message *control_messages_add(struct control_messages *self,
                                             const struct payload *payload);

/* A cancel for this step that waits; NULL: there is none. */
struct control_message *control_messages_find(const struct control_messages *self,
                                              const char *step_id);

void control_messages_set(struct control_messages *self, struct control_message *message,
                          enum control_state state);

/* Its removal, `end` in the send queue, is under way. */
void control_messages_remove(struct control_messages *self, struct control_message *message,
                             uint64_t end);

/* So much has left the send queue: forgets the messages that have left the list. */
void control_messages_delivered(struct control_messages *self, uint64_t gone);

bool control_messages_is_full(const struct control_messages *self);
bool control_messages_may_read(const struct control_messages *self);
bool control_messages_may_remove(const struct control_messages *self);

#endif
