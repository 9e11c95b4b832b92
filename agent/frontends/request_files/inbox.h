#ifndef AGENT_FRONTENDS_REQUEST_FILES_INBOX_H
#define AGENT_FRONTENDS_REQUEST_FILES_INBOX_H

#include <dirent.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/stat.h>

#include "agent/frontends/request_files/claims.h"
#include "agent/frontends/request_files/exec_request.h"
#include "agent/frontends/request_files/ipc_directory.h"
#include "base/buffer.h"
#include "base/log.h"

/*
 * Finds the requests in a shared directory, claims them, and writes their results. It runs nothing:
 * the frontend takes requests that are EXEC_QUEUED, and answers them.
 *
 * The file of a request is the truth: it is read again before the request runs, and must still be
 * there when the result is written. Events only say where to look (inbox_changed); a scan finds the
 * same changes without them.
 *
 * Other containers decide how many files there are, how large they are and how often they change.
 * So all work is done in bounded turns: a number of names, a number of files, one large file. A
 * file that has not changed is not read again. Files that an earlier scan has found are read first,
 * so that changes of some do not delay others; large files, and those that change all the time,
 * wait in a second queue, EXEC_BEHIND.
 *
 * At most once: the claim is made before the command runs, and removed when request and result are
 * both gone. Another agent may have read the request before and take the claim after that, so an
 * agent with a new claim checks whether the request is still there.
 */

/*
 * A known request. It goes from top to bottom; EXEC_WAITING, EXEC_OTHERS
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
  enum exec_state state; /* inbox_set_state */
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

struct inbox {
  const struct log *log;
  struct exec_request_rules rules;
  struct ipc_directory ipc;
  struct claims claims;
  struct exec **execs; /* the known requests, sorted by id */
  size_t count, capacity;
  size_t in[EXEC_STATES]; /* the number of requests in each state */
  DIR *names;             /* of the scan; NULL: there is none now */
  uint64_t scans;         /* that were completed */
  size_t unseen;     /* after a scan: entries that are not checked yet whether they have vanished */
  int64_t behind_ms; /* when the next EXEC_BEHIND may be read */
  struct buffer text; /* of the file that is read; kept, because touching new memory is slow */
};

/* The most results that are written in a turn of the loop, again or for queued requests. */
#define INBOX_ANSWERS_A_TURN 32

/* From SIGTERM to SIGKILL. The requester gives up 10 s after the timeout. */
#define FILES_GRACE_MS 2000

#define INBOX_LOG_PREFIX "[tool-executor] "

/* Opens nothing. */
void inbox_init(struct inbox *self, const struct log *log, const struct exec_request_rules *rules);

/* Tries for the last time to write the unwritten results, and removes the lock. */
void inbox_close(struct inbox *self);
void inbox_release(struct inbox *self);

void inbox_scan_begin(struct inbox *self); /* unless there is one */
void inbox_scan_stop(struct inbox *self);

/* A file of this name was written and closed, or got the name (`written`); or lost it. */
void inbox_changed(struct inbox *self, const char *name, bool written);

/* Writes the results that are due. With `serving`, also continues the scan and reads requests. */
void inbox_turn(struct inbox *self, bool serving);

/* Returns when the next turn is due, in monotonic milliseconds; INT64_MAX: never. */
int64_t inbox_due_ms(const struct inbox *self, bool serving);

void inbox_set_state(struct inbox *self, struct exec *exec, enum exec_state state);

/* Returns the request in this state that has the earliest round, then the oldest file, then the
   first name; NULL if there is none. */
struct exec *inbox_first(const struct inbox *self, enum exec_state state);

/* Reads the file of a request, which may be incomplete at this moment. The caller calls
   exec_request_release, whatever the result is. */
enum request_found inbox_read(struct inbox *self, struct exec *exec, struct exec_request *request,
                              struct error *error);

/* These three may free the exec, which must be claimed by this agent. */

/* Writes the result, unless the request is gone. `message` is the agent's; "": none. */
void inbox_answer(struct inbox *self, struct exec *exec, const struct execution_result *end,
                  const char *message);
/* Writes the result of a request that was not executed. */
void inbox_refuse(struct inbox *self, struct exec *exec, int exit_code, const char *reason);
/* Forgets a request without a result; a new one of the same name may begin. */
void inbox_drop(struct inbox *self, struct exec *exec);

#endif
