#ifndef AGENT_FRONTENDS_REQUEST_FILES_EXEC_TABLE_H
#define AGENT_FRONTENDS_REQUEST_FILES_EXEC_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>

#include "agent/engine/frontend.h"
#include "base/buffer.h"

/*
 * The known requests, by their ids. A request goes from top to bottom; EXEC_WAITING, EXEC_OTHERS
 * and EXEC_REFUSED start again when the file changes, EXEC_FOREIGN when the other claim is gone.
 *
 *   NEW ── its file is there ──► FOUND or BEHIND ── its turn, the file is read:
 *    │
 *    ├── not complete yet ──► WAITING ── it has changed, or its time is over ──► FOUND, BEHIND
 *    │
 *    ├── not a regular file, or for another sidecar ──► OTHERS
 *    ├── claimed by another agent or script ──► FOREIGN
 *    ├── cannot be read or claimed ──► REFUSED
 *    └── claimed ──► QUEUED ──► RUNNING ──► ANSWERING ──► ANSWERED ── both files gone ──► removed
 *                      │           └── file gone ──► CANCELLED ── it has ended ──► removed
 *                      └── cannot be executed ──► ANSWERING
 */
enum exec_state {
  EXEC_NEW,
  EXEC_WAITING,
  EXEC_OTHERS,
  EXEC_REFUSED, /* up to here, a change of the file starts again */
  EXEC_FOUND,   /* its file waits to be read */
  EXEC_BEHIND,  /* the same, behind the others: its file is large, or changes all the time */
  EXEC_FOREIGN,
  EXEC_QUEUED,
  EXEC_RUNNING,
  EXEC_CANCELLED,
  EXEC_ANSWERING, /* the result could not be written, and is tried again */
  EXEC_ANSWERED,
  EXEC_STATES
};

struct exec {
  char *id;
  enum exec_state state; /* exec_table_set */
  bool logged;           /* the reason why it is not executed was logged */
  bool closed;           /* its writer has closed the file since it was read */
  bool elsewhere;        /* its directory is missing, so it runs in the agent's own */
  unsigned reads;        /* how many times its file was read before it was claimed */
  uint64_t seen;         /* the last scan that has seen the file */
  uint64_t round;        /* FOUND, BEHIND: the file is read after this scan */
  struct stat file; /* as it was last found before it runs; within a round, the oldest is first */
  int64_t since_ms; /* the begin of WAITING or ANSWERING; 0: this version was not waited for */
  int64_t due_ms;   /* WAITING: answered if it has not changed; ANSWERING: written again */
  struct execution *execution; /* RUNNING, CANCELLED */
  struct buffer result;        /* ANSWERING: the text of the file; and for the log: */
  int exit_code;
  bool timed_out;
};

struct exec_table {
  struct exec **items; /* sorted by id */
  size_t count;
  size_t capacity;
  size_t in[EXEC_STATES]; /* the number of requests in each state */
};

/* Returns the request; with `make`, adds an EXEC_NEW one if there is none, else returns NULL. */
struct exec *exec_table_get(struct exec_table *self, const char *id, bool make);

void exec_table_set(struct exec_table *self, struct exec *exec, enum exec_state state);
void exec_table_remove(struct exec_table *self, struct exec *exec);
void exec_table_release(struct exec_table *self);

/* Writes at most `most` requests in this state: those of the earliest round first, then those with
   the oldest files, then by name. Returns their number, in one pass over the table. */
size_t exec_table_oldest(const struct exec_table *self, enum exec_state state, struct exec **out,
                         size_t most);

/* Returns the first of these, or NULL. */
struct exec *exec_table_first(const struct exec_table *self, enum exec_state state);

#endif
