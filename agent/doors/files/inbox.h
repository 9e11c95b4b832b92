#ifndef AGENT_DOORS_FILES_INBOX_H
#define AGENT_DOORS_FILES_INBOX_H

#include <dirent.h>
#include <stdbool.h>
#include <stdint.h>

#include "agent/doors/files/claims.h"
#include "agent/doors/files/exec_result.h"
#include "agent/doors/files/exec_table.h"
#include "agent/doors/files/ipc_directory.h"
#include "agent/doors/files/request_look.h"
#include "base/log.h"

/*
 * The requests in a shared directory and their results: what is known of each (exec_table.h), which
 * file is to be read next, whose it is, and its answer. It runs nothing: what is claimed is
 * EXEC_QUEUED, and the door takes it from there, and answers it.
 *
 * A request's file is the truth, not what is remembered of it: it is read again when its turn has
 * come, and asked for before its result is written. Events only say where to look (inbox_written,
 * inbox_removed); a scan finds the same without them.
 *
 * Whoever shares the directory decides how many files there are, how large they are and how often
 * they change. So everything that takes time is done in turns, and a turn is bounded: so many names
 * of a scan, so many files that are read, one large one. A file that has not changed is not read
 * again. Of those that are to be read the ones that an earlier scan has found come first, so that
 * nobody's changes keep others from their turn; large ones, and those that change all the time, have
 * a lane of their own, EXEC_BEHIND.
 *
 * At most once: the claim is made before the command runs, and removed when request and result are
 * both gone. Another agent that has read the request before may take the claim after that: who has
 * a claim therefore looks whether the request is still there.
 */
struct inbox {
  const struct log *log;
  struct request_rules rules;
  struct ipc_directory ipc;
  struct claims claims;
  struct exec_table execs;
  DIR *names;         /* of a scan that is under way; or NULL */
  uint64_t scans;     /* that have seen all names */
  size_t unseen;      /* after that: so many are still to be asked whether they have vanished */
  int64_t behind_ms;  /* when the next EXEC_BEHIND may be read */
  struct buffer text; /* of what is read; kept while there are EXEC_BEHIND */
};

/* In a turn of the loop: results that are written again, or refuse what was queued. */
#define INBOX_ANSWERS_A_TURN 32

/* From SIGTERM to SIGKILL: the requester gives up 10 s after the timeout. */
#define FILES_GRACE_MS 2000

/* Of what this program says in the log, and to those who read a result. */
#define INBOX_LOG_PREFIX "[tool-executor] "
#define INBOX_MESSAGE_PREFIX "tool-executor: "

/* All zeros but the log and the rules; nothing is opened. */
void inbox_init(struct inbox *self);
void inbox_release(struct inbox *self);

/* --- a turn --- */

void inbox_scan_begin(struct inbox *self); /* nothing happens where one is under way */
void inbox_scan_stop(struct inbox *self);
void inbox_scan_turn(struct inbox *self);

/* Marks what was waited for, and with `serving` only that; writes results again. */
void inbox_take_due(struct inbox *self, bool serving);
void inbox_read_turn(struct inbox *self);

/* There is something to do for inbox_scan_turn or inbox_read_turn. */
bool inbox_has_work(const struct inbox *self);

/* When the next of what waits for time alone is due, in monotonic milliseconds; INT64_MAX: never. */
int64_t inbox_due_ms(const struct inbox *self, bool serving);

/* --- what happened in the directory --- */

void inbox_written(struct inbox *self, const char *name);
void inbox_removed(struct inbox *self, const char *name);

/* --- an exec that is ours: it may be gone afterwards --- */

/* There is no result when the request is gone. */
void inbox_answer(struct inbox *self, struct exec *exec, const struct exec_result *result);
/* It was not executed. */
void inbox_refuse(struct inbox *self, struct exec *exec, int exit_code, const char *reason);
/* It is over without a result; or a new request of its name may begin. */
void inbox_drop(struct inbox *self, struct exec *exec);
void inbox_begin_anew(struct inbox *self, struct exec *exec);

void inbox_queue(struct inbox *self, struct exec *exec);
/* The first that is queued, or NULL; no longer so by inbox_unqueue. */
struct exec *inbox_first_queued(const struct inbox *self);
void inbox_unqueue(struct inbox *self, struct exec *exec);

/* The last attempt to write what could not be written. */
void inbox_answer_last(struct inbox *self);

#endif
