#ifndef AGENT_FRONTENDS_REQUEST_FILES_EXEC_TABLE_H
#define AGENT_FRONTENDS_REQUEST_FILES_EXEC_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>

#include "agent/engine/frontend.h"
#include "base/buffer.h"

/*
 * The requests that are known, by their ids. One goes from top to bottom; EXEC_WAITING, EXEC_OTHERS
 * and EXEC_REFUSED begin anew when the file changes, or somebody else's claim ends.
 *
 *   NEW ── its file is there ──► FOUND or BEHIND ── its turn, the file is read:
 *    │
 *    ├── not whole yet ──► WAITING ── it has changed, or has been so for long enough ──► FOUND, BEHIND
 *    │
 *    ├── no regular file, for another sidecar ──► OTHERS
 *    ├── claimed by another one ──► FOREIGN
 *    ├── the system refuses to read or to claim it ──► REFUSED
 *    └── claimed ──► QUEUED ──► RUNNING ──► ANSWERING ──► ANSWERED ── both files gone ──► removed
 *                      │           └── file gone ──► CANCELLED ── it has ended ──► removed
 *                      └── cannot be executed ──► ANSWERING
 */
enum exec_state {
  EXEC_NEW,
  EXEC_WAITING,
  EXEC_OTHERS,
  EXEC_REFUSED, /* up to here a change of the file decides anew */
  EXEC_FOUND,   /* its file is to be read */
  EXEC_BEHIND,  /* its file is to be read, which takes long: those do not wait for it */
  EXEC_FOREIGN,
  EXEC_QUEUED,
  EXEC_RUNNING,
  EXEC_CANCELLED,
  EXEC_ANSWERING, /* there was no space for the result; tried again */
  EXEC_ANSWERED,
  EXEC_STATES
};

struct exec {
  char *id;
  enum exec_state state; /* exec_table_set */
  bool logged;           /* why it is not executed; once */
  bool closed;           /* its writer has closed it since it was read */
  bool elsewhere;        /* its directory is missing: it runs in the agent's own */
  unsigned reads;        /* how often its file was read until it was claimed */
  uint64_t seen;         /* the last scan that has seen the file */
  uint64_t round;        /* FOUND, BEHIND: the scan after which it is read, which is its place */
  struct stat file; /* as it was found last, before it runs; its mtime is the place in a round */
  int64_t since_ms; /* since when WAITING or ANSWERING; 0: the file was never waited for as it is */
  int64_t due_ms;   /* WAITING: when it is answered if it stays so; ANSWERING: written again */
  struct execution *execution; /* RUNNING, CANCELLED */
  struct buffer result;        /* ANSWERING: the file's text, */
  int exit_code;               /* and what of it is logged */
  bool timed_out;
};

struct exec_table {
  struct exec **items; /* sorted by id */
  size_t count;
  size_t capacity;
  size_t in[EXEC_STATES]; /* how many are in a state */
};

/* Finds it, or adds an EXEC_NEW one with `make`; else NULL. */
struct exec *exec_table_get(struct exec_table *self, const char *id, bool make);

void exec_table_set(struct exec_table *self, struct exec *exec, enum exec_state state);
void exec_table_remove(struct exec_table *self, struct exec *exec);
void exec_table_release(struct exec_table *self);

/* The ones in this state of the first rounds whose files are the oldest, in order, by name where
   two are as old; at most so many. Returns how many; one pass over the table. */
size_t exec_table_oldest(const struct exec_table *self, enum exec_state state, struct exec **out,
                         size_t most);

/* The first of these, or NULL. */
struct exec *exec_table_first(const struct exec_table *self, enum exec_state state);

#endif
