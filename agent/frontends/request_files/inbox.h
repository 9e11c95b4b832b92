#ifndef AGENT_FRONTENDS_REQUEST_FILES_INBOX_H
#define AGENT_FRONTENDS_REQUEST_FILES_INBOX_H

#include <dirent.h>
#include <stdbool.h>
#include <stdint.h>

#include "agent/frontends/request_files/claims.h"
#include "agent/frontends/request_files/exec_request.h"
#include "agent/frontends/request_files/exec_table.h"
#include "agent/frontends/request_files/ipc_directory.h"
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
struct inbox {
  const struct log *log;
  struct exec_request_rules rules;
  struct ipc_directory ipc;
  struct claims claims;
  struct exec_table execs;
  DIR *names;        /* of the scan; NULL: there is none now */
  uint64_t scans;    /* that were completed */
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
