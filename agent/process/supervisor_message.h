#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buffer.h"

/*
 * The messages from the agent to a supervisor: a command or work, with its three descriptors. They
 * travel through a pair of SEQPACKET sockets; end-of-file means that the agent is dead. In the
 * other direction the supervisor sends notifications (supervisor_page.h). The hard part is that a
 * message that was not received stays in the socket, so that a stopped supervisor can be killed and
 * replaced without a chance that the task runs twice.
 */
/* The body of a command is the texts of its arguments, of its variables and of its directory, each
   with its NUL; the supervisor has space behind the body for the pointers to them. The body of work
   is what the kind packed. Behind either may be a record of how the task is confined. */
struct supervisor_message {
  bool is_work;
  bool directory_may_be_missing; /* see struct exec_command */
  bool in_file;                  /* the body is a file, in a fourth descriptor */
  uint32_t home_at;              /* see struct exec_command */
  uint32_t arguments;
  uint32_t variables;
  size_t length;      /* of the body; supervisor_message_send sets it */
  size_t task_length; /* of the body without the record of confine.h */
  size_t record_at;   /* where that begins in the body; 0: there is none */
};

/* A longer body, with its space, travels as a file in memory. */
#define SUPERVISOR_BODY_MAX ((size_t)32 * 1024)

/* Sends a message without blocking. The descriptors stay the caller's. Returns 0, or -1 with errno.
   A dead supervisor is no error, because the caller has its end of the socket open, too. */
int supervisor_message_send(int fd, const struct supervisor_message *message,
                            const struct buffer *body, const int descriptors[3]);

/* Whether the supervisor at this end has not received the message that was sent to it. */
bool supervisor_message_is_pending(int end);

/* Receives that message in place of the supervisor, and discards it. Returns false if the
   supervisor has received it already. Does not block. */
bool supervisor_message_withdraw(int end);

/* Receives a message, and blocks for it. The body is in `space` or, if it travelled as a file, in a
   mapping that supervisor_message_release removes. `descriptors` are close-on-exec and the
   caller's. If this process cannot have that many descriptors, all of them are -1, and the body is
   invalid. Returns 1, 0 at end-of-file, or -1 with errno. */
int supervisor_message_receive(int fd, struct supervisor_message *message,
                               char space[SUPERVISOR_BODY_MAX], char **body, int descriptors[3]);
void supervisor_message_release(const struct supervisor_message *message, char *body);
