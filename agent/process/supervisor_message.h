#ifndef AGENT_PROCESS_SUPERVISOR_MESSAGE_H
#define AGENT_PROCESS_SUPERVISOR_MESSAGE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "agent/process/exec_command.h"
#include "agent/process/process_table.h"
#include "base/buffer.h"
#include "wire/step_report.h"

/*
 * What the agent and a supervisor say to each other. Messages travel through a pair of SEQPACKET
 * sockets, one at a time in each direction; a page of memory that both have mapped holds what must
 * not wait behind a message, and what must survive the supervisor.
 *
 *   agent -> supervisor   RUN, WORK: a command or work, with its three descriptors; end-of-file: the
 *                     agent is dead
 *   supervisor -> agent   one byte of SUPERVISOR_ENDED, SUPERVISOR_EMPTY, SUPERVISOR_LEAVES, SUPERVISOR_COUNTED; the first is
 *                     0: it is there
 */
enum supervisor_message_kind { SUPERVISOR_MESSAGE_RUN, SUPERVISOR_MESSAGE_WORK };

#define SUPERVISOR_ENDED 1   /* the page has how the command ended */
#define SUPERVISOR_EMPTY 2   /* no process of it is left */
#define SUPERVISOR_LEAVES 4  /* the supervisor takes no further message, and exits */
#define SUPERVISOR_COUNTED 8 /* the page has the answer to a question */

/* What the supervisor is to do with the processes below it. The agent raises it, and sends SIGCONT,
   which wakes a supervisor that was stopped, too. */
enum supervisor_order { SUPERVISOR_ORDER_NONE, SUPERVISOR_ORDER_TERMINATE, SUPERVISOR_ORDER_KILL };

/* Where a command's child waits before it does anything that leaves a trace. The agent opens it,
   and wakes the child by futex(2). */
enum supervisor_gate { SUPERVISOR_GATE_OPEN, SUPERVISOR_GATE_CLOSED };

#define SUPERVISOR_ALIVE_MAX 32

/* The processes below a supervisor. Only the supervisor reads /proc, because that takes as long as
   the processes and their descriptors are many. */
struct supervisor_census {
  int64_t living;    /* -1: not known */
  int64_t rss_bytes; /* of all together; memory that they share counts for each */
  /* One that has the command's output open; its pid is 0 if none was found. */
  struct pipe_holder holder;
};

/* The lowest bit of a question: the holder is asked for, too. The other bits are its number. */
#define SUPERVISOR_ASKS_HOLDER 1U

struct supervisor_page {
  atomic_int order; /* enum supervisor_order */
  atomic_int gate;  /* enum supervisor_gate */
  atomic_int pid;   /* of the command's process */
  atomic_int ended; /* `status` counts */
  int status;       /* as waitpid(2) has it; of work its exit code */
  atomic_uint left; /* live processes that the last walk over the tree has found */
  atomic_uint
      asked; /* the agent's last question, which SIGCONT follows: see SUPERVISOR_ASKS_HOLDER */
  atomic_uint answered; /* the question that `census` answers */
  struct supervisor_census census;
  struct exec_failure failure;
  struct step_usage usage; /* of those that the supervisor has reaped; known when `ended` counts */
  atomic_uint alive_count; /* when the first order came: see `alive` of the message */
  struct step_process alive[SUPERVISOR_ALIVE_MAX];
  char whole_reason[EXEC_REASON_MAX]; /* of the failure, if it is exec_command's; else undefined */
};

/* The body of RUN: the texts of argv, of envp and of the directory if there is one, each with its
   NUL; behind it the supervisor has room for the pointers to them. That of WORK: what was packed
   for it. */
struct supervisor_message {
  uint32_t kind; /* enum supervisor_message_kind */
  bool has_directory;
  bool directory_may_be_missing;
  uint32_t home_at;
  bool lists_alive; /* RUN: before the first signal of an order it is told who is there */
  bool in_file;     /* the body is a file, in a fourth descriptor */
  uint32_t arguments;
  uint32_t variables;
  size_t length;   /* of the body */
  size_t capacity; /* behind it */
};

/* For so many pointers, two times NULL, and what aligns them. */
#define SUPERVISOR_TEXTS_CAPACITY(COUNT) (((size_t)(COUNT) + 3) * sizeof(char *))

/* A longer body, with its room, travels as a file in memory. */
#define SUPERVISOR_BODY_MAX ((size_t)32 * 1024)

#define SUPERVISOR_DESCRIPTORS_MAX 4

/* Makes the message of a command, and adds its body to the buffer, which is empty. */
void supervisor_message_pack(struct supervisor_message *self, struct buffer *body,
                             const struct exec_command *exec, bool lists_alive);

/* Sends a message with its three descriptors, which stay the caller's. Returns 0, or -1 with errno.
   Does not wait. The caller has the supervisor's end open, too, so a dead supervisor is no
   error. */
int supervisor_message_send(int fd, const struct supervisor_message *message, const char *body,
                            const int descriptors[3]);

/* Whether the supervisor at this end has not received the message that was sent to it. */
bool supervisor_message_waits(int end);

/* Takes that message back, and sends it to another supervisor through `fd` (-1: to nobody). What
   was taken back no supervisor will receive, so a message is received once at most. Returns 1; 0 if
   the supervisor has received it before; or -1 with errno, and then the message is lost. Does not
   wait. */
int supervisor_message_move(int end, int fd);

/* Receives one, and waits for it. The body is in `space` or, where it travelled as a file, in a
   mapping that supervisor_message_release ends; `descriptors` are close-on-exec and the caller's.
   If this process may not have that many descriptors, all of them are -1, and the body does not
   count. Returns 1, 0 at end-of-file, -1 with errno. */
int supervisor_message_receive(int fd, struct supervisor_message *message,
                               char space[SUPERVISOR_BODY_MAX], char **body, int descriptors[3]);
void supervisor_message_release(const struct supervisor_message *message, char *body);

#endif
