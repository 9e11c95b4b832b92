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
 * The requests in a shared directory and their results: what is known of each (exec_table.h), which
 * file is to be read next, whose it is, and its answer. It runs nothing: what is claimed is
 * EXEC_QUEUED, and the frontend takes it from there, and answers it.
 *
 * A request's file is the truth, not what is remembered of it: it is read again when its turn has
 * come, and asked for before its result is written. Events only say where to look (inbox_changed);
 * a scan finds the same without them.
 *
 * Whoever shares the directory decides how many files there are, how large they are and how often
 * they change. So everything that takes time is done in turns, and a turn is bounded: so many names
 * of a scan, so many files that are read, one large one. A file that has not changed is not read
 * again. Of those that are to be read the ones that an earlier scan has found come first, so that
 * nobody's changes keep others from their turn; large ones, and those that change all the time,
 * have a lane of their own, EXEC_BEHIND.
 *
 * At most once: the claim is made before the command runs, and removed when request and result are
 * both gone. Another agent that has read the request before may take the claim after that: who has
 * a claim therefore looks whether the request is still there.
 */
struct inbox {
  const struct log *log;
  struct exec_request_rules rules;
  struct ipc_directory ipc;
  struct claims claims;
  struct exec_table execs;
  DIR *names;         /* of a scan that is under way; or NULL */
  uint64_t scans;     /* that have seen all names */
  size_t unseen;      /* after that: so many are still to be asked whether they have vanished */
  int64_t behind_ms;  /* when the next EXEC_BEHIND may be read */
  struct buffer text; /* of what is read: to touch new memory costs more than to read into it */
};

/* In a turn of the loop: results that are written again, or refuse what was queued. */
#define INBOX_ANSWERS_A_TURN 32

/* From SIGTERM to SIGKILL: the requester gives up 10 s after the timeout. */
#define FILES_GRACE_MS 2000

#define INBOX_LOG_PREFIX "[tool-executor] "

/* Nothing is opened. */
void inbox_init(struct inbox *self, const struct log *log, const struct exec_request_rules *rules);

/* Tries for the last time to write what could not be written, and removes the lock. */
void inbox_close(struct inbox *self);
void inbox_release(struct inbox *self);

void inbox_scan_begin(struct inbox *self); /* nothing happens where one is under way */
void inbox_scan_stop(struct inbox *self);

/* A file's name was given to something, by a writer that has closed it (`written`); or taken. */
void inbox_changed(struct inbox *self, const char *name, bool written);

/* Writes results again that are due; and with `serving` goes on with a scan, and reads. */
void inbox_turn(struct inbox *self, bool serving);

/* When the next turn has something to do, in monotonic milliseconds; INT64_MAX: never. */
int64_t inbox_due_ms(const struct inbox *self, bool serving);

/* What is found where its file should be, at this moment: who writes it may not be through. The
   caller ends with exec_request_release, whatever comes back. */
enum request_found inbox_look(struct inbox *self, struct exec *exec, struct exec_request *request,
                              struct error *error);

/* --- an exec that is ours: it may be gone afterwards --- */

/* There is no result when the request is gone. `message`: of this program; "": none. */
void inbox_answer(struct inbox *self, struct exec *exec, const struct execution_result *end,
                  const char *message);
/* It was not executed. */
void inbox_refuse(struct inbox *self, struct exec *exec, int exit_code, const char *reason);
/* It is over without a result: a new request of its name may begin. */
void inbox_drop(struct inbox *self, struct exec *exec);

#endif
