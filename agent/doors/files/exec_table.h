#ifndef AGENT_DOORS_FILES_EXEC_TABLE_H
#define AGENT_DOORS_FILES_EXEC_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>
#include <time.h>

#include "agent/engine/door.h"
#include "base/buffer.h"

/*
 * The requests that are known, by their ids. One goes from top to bottom; EXEC_WAITING, EXEC_OTHERS
 * and EXEC_REFUSED begin anew when the file changes, or somebody else's claim ends.
 *
 *   NEW ── found by a scan ──► FOUND ── its turn ──► as if new
 *    │
 *    ├── not whole yet ──► WAITING ──┐
 *    │                               │
 *    ├── no regular file, for another sidecar ──► OTHERS
 *    ├── claimed by another one ──► FOREIGN
 *    ├── the system refuses to read or to claim it ──► REFUSED
 *    └── claimed ──► QUEUED ──► RUNNING ──► ANSWERING ──► ANSWERED ── both files gone ──► removed
 *                      │           └── file gone ──► CANCELLED ── it has ended ──► removed
 *                      └── cannot be executed ──► ANSWERING
 */
enum exec_state {
  EXEC_NEW,
  EXEC_FOUND, /* by a scan, which looks at the oldest ones first */
  EXEC_WAITING,
  EXEC_OTHERS,
  EXEC_FOREIGN,
  EXEC_REFUSED,
  EXEC_QUEUED,
  EXEC_RUNNING,
  EXEC_CANCELLED,
  EXEC_ANSWERING, /* there was no space for the result; tried again */
  EXEC_ANSWERED
};

struct exec {
  char *id;
  enum exec_state state;
  bool logged;          /* why it is not executed; once */
  bool request_seen;    /* by the scan that runs */
  struct stat identity; /* OTHERS: of the file that was looked at */
  uint64_t hash;        /* WAITING: of what was read last */
  int64_t since_ms;     /* WAITING: since when it is this */
  int64_t due_ms;   /* WAITING: when it is answered if it stays so; ANSWERING: when to give up */
  int64_t retry_ms; /* ANSWERING: when it is written again */
  struct timespec mtime; /* FOUND, QUEUED: the order */
  size_t bytes;          /* QUEUED, RUNNING, CANCELLED: of the request */
  bool elsewhere;        /* its directory is missing: it runs in the agent's own */
  struct run *run;       /* RUNNING, CANCELLED */
  struct buffer result;  /* ANSWERING: the file's text */
  int exit_code;         /* ANSWERING: for the log */
  bool timed_out;
};

struct exec_table {
  struct exec **items; /* sorted by id */
  size_t count;
  size_t capacity;
  size_t found;  /* how many are EXEC_FOUND, and */
  size_t queued; /* how many are EXEC_QUEUED; the owner counts */
};

/* NULL: there is none. */
struct exec *exec_table_find(const struct exec_table *self, const char *id);

/* Finds it, or adds an EXEC_NEW one. */
struct exec *exec_table_get(struct exec_table *self, const char *id);

void exec_table_remove(struct exec_table *self, struct exec *exec);
void exec_table_release(struct exec_table *self);

/* The one in this state whose file is the oldest, by name where two are as old; or NULL. */
struct exec *exec_table_oldest(const struct exec_table *self, enum exec_state state);

#endif
