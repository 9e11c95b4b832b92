#pragma once

#include <dirent.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/stat.h>

#include "agent/frontends/request_files/exec_request.h"
#include "agent/frontends/request_files/ipc_directory.h"
#include "base/buffer.h"
#include "base/list.h"
#include "base/log.h"

/*
 * Finds the requests in a shared directory, claims them, and writes their results. It runs nothing:
 * the frontend says which requests are read, and how large one may be to run now.
 *
 * The file of a request is the truth: it is read just before the request runs, and must still be
 * there when the result is written. Events only say where to look (inbox_changed); a scan finds the
 * same changes without them.
 *
 * Other containers decide how many files there are, how large they are and how often they change.
 * So all work is done in bounded turns: a number of names, a number of files, one large file. A
 * file that has not changed is read again only to run it. The oldest files are read first; large
 * files, and those that change all the time, wait behind the others.
 *
 * At most once: the claim is made before the command runs, and removed when request and result are
 * both gone. Another agent may have run the request since it was read, so an agent with a new claim
 * checks whether the request is still the same.
 */

/*
 * A known request. It goes from top to bottom; EXEC_WAITING and EXEC_READY start again when the
 * file changes.
 *
 *   NEW ── event, or end of the scan ──► FOUND or BEHIND ── its turn, the file is read:
 *    │
 *    ├── not complete yet; or cannot be read or claimed, or claimed by another agent or script
 *    │     ──► WAITING ── its time is over ──► BEHIND
 *    ├── not a regular file, or for another sidecar ──► WAITING, without an end
 *    ├── can be executed, but not now ──► READY ── there is an execution for it, read again:
 *    └── claimed ──► RUNNING ──► ANSWERING ──► ANSWERED ── both files gone ──► removed
 *            │           └── file gone ──► CANCELLED ── it has ended ──► removed
 *            └── cannot be executed ──► ANSWERING
 *
 * A claim without a request is removed; the exec is DROPPING until that succeeds.
 */
enum exec_state {
  EXEC_NEW,     /* found by a scan, which is completed first, so that the oldest file is first */
  EXEC_WAITING, /* until its file changes, or for a time */
  EXEC_READY,   /* not claimed; waits until it can run */
  EXEC_FOUND,   /* its file waits to be read */
  EXEC_BEHIND,  /* the same, behind the others: its file is large, or changes all the time */
  EXEC_RUNNING,
  EXEC_CANCELLED,
  EXEC_DROPPING,  /* the claim could not be removed, and is tried again */
  EXEC_ANSWERING, /* so is the result, which could not be written */
  EXEC_ANSWERED,
  EXEC_STATES
};

struct exec {
  struct list_node node; /* in the list of its state */
  char *id;
  enum exec_state state; /* inbox_set_state */
  int lock;              /* of its claim (claims.h); -1: this agent has none */
  bool logged;           /* the reason why it is not executed was logged */
  bool closed;           /* its writer has closed the file since it was read */
  unsigned reads;        /* how many times its file was read before it was claimed */
  uint64_t seen;         /* the last scan that has seen the file, or found it gone */
  struct stat file;      /* as it was when it was last read, or found to be read */
  int64_t since_ms;      /* the begin of ANSWERING; of waiting for the rest of this version, or 0 */
  int64_t due_ms;        /* WAITING: read again; DROPPING, ANSWERING: tried again */
  struct execution *execution; /* RUNNING, CANCELLED */
  struct buffer result;        /* ANSWERING: the text of the file; and for the log: */
  int exit_code;
  bool timed_out;
};

struct inbox {
  const struct log *log;
  struct exec_request_rules rules;
  struct ipc_directory ipc;
  struct list in[EXEC_STATES]; /* the known requests in each state, */
  void *tree;                  /* and all of them for tfind(3), by id */
  DIR *names;                  /* of the scan; NULL: there is none now */
  uint64_t scans;              /* that were completed */
  int64_t due_ms;              /* the earliest time at which one of them may be due */
};

/* From SIGTERM to SIGKILL. The requester gives up 10 s after the timeout. */
#define FILES_GRACE_MS 2000

#define INBOX_LOG_PREFIX "[tool-executor] "

/* Opens nothing. */
void inbox_init(struct inbox *self, const struct log *log, const struct exec_request_rules *rules);

/* Tries for the last time to write the unwritten results. */
void inbox_close(struct inbox *self);
void inbox_release(struct inbox *self);

void inbox_scan_begin(struct inbox *self); /* unless there is one */
void inbox_scan_stop(struct inbox *self);

/* Notes that a file of this name was written and closed, or got the name (`written`), or lost
   it. */
void inbox_changed(struct inbox *self, const char *name, bool written);

/* Writes the results that are due. With `serving`, also continues the scan. */
void inbox_turn(struct inbox *self, bool serving);

/* Returns when the next turn is due, in monotonic milliseconds; INT64_MAX: never. */
int64_t inbox_due_ms(const struct inbox *self, bool serving);

void inbox_set_state(struct inbox *self, struct exec *exec, enum exec_state state);

/* Writes the oldest requests of EXEC_READY, EXEC_FOUND or EXEC_BEHIND that can be read now, at most
   `most`, which is not 0. Those of EXEC_READY are only the ones that are read behind the others, or
   the ones that are not. Returns their number. */
size_t inbox_oldest(const struct inbox *self, enum exec_state state, bool behind, struct exec **out,
                    size_t most);

/* Reads the file of a request. Returns true if the request is complete, can be executed, has at
   most `capacity` bytes, and belongs to this agent now; otherwise the exec may be freed. The caller
   calls step_release for its step in any case. */
bool inbox_claim(struct inbox *self, struct exec *exec, size_t capacity,
                 struct exec_request *request);

/* Returns the number of requests in these states. */
size_t inbox_count(const struct inbox *self, enum exec_state first, enum exec_state last);

/* These three may free the exec, of which this agent has the lock. */

/* Writes the result, unless the request is gone. `message` is the agent's; "": none. */
void inbox_answer(struct inbox *self, struct exec *exec, const struct execution_result *end,
                  const char *message);
/* Writes the result of a request that was not executed. */
void inbox_refuse(struct inbox *self, struct exec *exec, int exit_code, const char *reason);
/* Forgets a request without a result; a new one of the same name may begin. */
void inbox_drop(struct inbox *self, struct exec *exec);
