#include "agent/doors/files/inbox.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "agent/engine/engine.h"
#include "base/clock.h"

/* How long a request that is not whole, or not JSON, must stay as it is until it is answered: who
   writes it may be slow. */
#define SHORT_MS 5000
#define BROKEN_MS 200

/* Where there is no space for a result: the bytes of each stream that it has then, how often it is
   tried again, and how long. */
#define SMALL_STREAM_MAX 4096
#define RETRY_MS 200
#define GIVE_UP_MS 10000

/* In a turn of the loop: files that are read, not longer than READ_SHORT, and one that is. */
#define READS_A_TURN 32
#define READ_SHORT (32 * 1024)

/* A file that was read so often and is not whole yet has no hurry. */
#define READS_SOON 8

/* After an EXEC_BEHIND there is a pause, so that what takes several turns is not held up in each: as
   long as the reading took, and so many times as long where there is nothing to be run of it. */
#define BEHIND_PAUSE 4

/* In a turn of the loop: names of a scan, each of which may be a claim, several system calls. */
#define NAMES_A_TURN 512

/* Claims and locks that dead agents have left are looked for in each n-th scan. */
#define SWEEP_SCANS 10

struct file_name {
  char text[NAME_MAX + 1];
};

static struct file_name result_name(const char *id) {
  struct file_name name;
  (void)snprintf(name.text, sizeof name.text, EXEC_RESULT_PREFIX "%s" EXEC_RESULT_SUFFIX, id);
  return name;
}

static bool has_request(const struct inbox *self, const char *id) {
  return ipc_directory_has(&self->ipc, request_look_name(id).text);
}

static bool has_result(const struct inbox *self, const char *id) {
  return ipc_directory_has_file(&self->ipc, result_name(id).text);
}

static bool find_file(const struct inbox *self, const struct exec *exec, struct stat *file) {
  return fstatat(self->ipc.tools, request_look_name(exec->id).text, file, AT_SYMLINK_NOFOLLOW) == 0;
}

void inbox_drop(struct inbox *self, struct exec *exec) {
  claims_drop(&self->claims, exec->id);
  exec_table_remove(&self->execs, exec);
}

/* --- results --------------------------------------------------------------------------------- */

/* Removes it when its answer was given, by whomever, and is taken. The exec may be gone. */
static void drop_answered(struct inbox *self, struct exec *exec) {
  if (exec->state == EXEC_ANSWERED && !has_request(self, exec->id) && !has_result(self, exec->id))
    inbox_drop(self, exec);
}

static int write_result(struct inbox *self, const struct exec *exec) {
  char hidden[CLAIMS_NAME_SIZE];
  claims_make_name(&self->claims, hidden);
  return ipc_directory_write(&self->ipc, hidden, result_name(exec->id).text, &exec->result);
}

static void set_answered(struct inbox *self, struct exec *exec) {
  log_plain(self->log, INBOX_LOG_PREFIX "done [%s]: exit=%d timed_out=%s", exec->id,
            exec->exit_code, exec->timed_out ? "true" : "false");
  buffer_release(&exec->result);
  exec->state = EXEC_ANSWERED;
}

/* Whoever waited for it is gone when the request is: then there is no result. */
void inbox_answer(struct inbox *self, struct exec *exec, const struct exec_result *result) {
  if (!has_request(self, exec->id)) {
    inbox_drop(self, exec);
    return;
  }
  exec->exit_code = result->exit_code;
  exec->timed_out = result->timed_out;
  exec->result.length = 0;
  exec_result_add(result, EXEC_RESULT_STREAM_MAX, &exec->result);
  int written = write_result(self, exec);
  if (written != 0 && (errno == ENOSPC || errno == EDQUOT)) {
    log_line(self->log, LOG_WARN, NULL, "[%s]: the result is cut: %s", exec->id, strerror(errno));
    buffer_release(&exec->result);
    exec_result_add(result, SMALL_STREAM_MAX, &exec->result);
    written = write_result(self, exec);
  }
  if (written == 0) {
    set_answered(self, exec);
    return;
  }
  log_line(self->log, LOG_WARN, NULL, "[%s]: the result cannot be written: %s: tried for %d s",
           exec->id, strerror(errno), GIVE_UP_MS / 1000);
  exec->state = EXEC_ANSWERING;
  exec->retry_ms = clock_monotonic_ms() + RETRY_MS;
  exec->due_ms = clock_monotonic_ms() + GIVE_UP_MS;
}

static void answer_again(struct inbox *self, struct exec *exec, bool last) {
  if (!has_request(self, exec->id)) {
    inbox_drop(self, exec);
  } else if (write_result(self, exec) == 0) {
    set_answered(self, exec);
  } else if (last || clock_monotonic_ms() >= exec->due_ms) {
    log_line(self->log, LOG_ERROR, NULL, "[%s]: the result (exit=%d) is lost: %s", exec->id,
             exec->exit_code, strerror(errno));
    buffer_release(&exec->result);
    exec->state = EXEC_ANSWERED; /* the claim stays: it does not run again */
  } else {
    exec->retry_ms = clock_monotonic_ms() + RETRY_MS;
  }
}

void inbox_answer_last(struct inbox *self) {
  for (size_t i = self->execs.count; i > 0; i--)
    if (self->execs.items[i - 1]->state == EXEC_ANSWERING)
      answer_again(self, self->execs.items[i - 1], true);
}

void inbox_refuse(struct inbox *self, struct exec *exec, int exit_code, const char *reason) {
  char message[sizeof INBOX_MESSAGE_PREFIX + sizeof(struct error)];
  (void)snprintf(message, sizeof message, INBOX_MESSAGE_PREFIX "%s", reason);
  const struct exec_result result = {.id = exec->id, .exit_code = exit_code, .message = message};
  inbox_answer(self, exec, &result);
}

/* --- reading a request ----------------------------------------------------------------------- */

/* This file of a request is to be read after so many scans. */
static void mark_request(struct inbox *self, struct exec *exec, const struct stat *file,
                         uint64_t round) {
  bool behind = file->st_size > READ_SHORT || exec->reads >= READS_SOON;
  exec->state = behind ? EXEC_BEHIND : EXEC_FOUND;
  self->execs.behind += behind;
  self->execs.found += !behind;
  exec->mtime = file->st_mtim;
  exec->round = round;
}

static void unmark_request(struct inbox *self, struct exec *exec) {
  self->execs.behind -= exec->state == EXEC_BEHIND;
  self->execs.found -= exec->state == EXEC_FOUND;
  exec->state = EXEC_NEW;
}

static bool is_like(const struct stat *left, const struct stat *right) {
  return left->st_ino == right->st_ino && left->st_size == right->st_size &&
         left->st_mode == right->st_mode && left->st_ctim.tv_sec == right->st_ctim.tv_sec &&
         left->st_ctim.tv_nsec == right->st_ctim.tv_nsec;
}

/* True while it is to be waited for: it has changed, or not been like this for long enough. */
static bool has_to_wait(struct exec *exec, const struct request_look *looked, int64_t time_ms) {
  int64_t now_ms = clock_monotonic_ms();
  if (exec->since_ms == 0 || !is_like(&exec->identity, &looked->file))
    exec->since_ms = now_ms;
  exec->identity = looked->file;
  exec->due_ms = exec->since_ms + time_ms;
  if (now_ms >= exec->due_ms)
    return false;
  exec->state = EXEC_WAITING;
  return true;
}

/* What is not JSON may be the middle of a rewrite, unless its writer has closed it. */
static bool is_unfinished(struct exec *exec, const struct request_look *looked, bool closed) {
  if (looked->found == REQUEST_SHORT)
    return has_to_wait(exec, looked, SHORT_MS);
  return looked->found == REQUEST_BROKEN && !closed && has_to_wait(exec, looked, BROKEN_MS);
}

static void pass_over(struct inbox *self, struct exec *exec, const struct request_look *looked) {
  if (looked->found == REQUEST_NONE && !exec->logged) {
    log_line(self->log, LOG_WARN, NULL, "[%s] is ignored: %s", exec->id, looked->error.text);
    exec->logged = true;
  }
  exec->state = EXEC_OTHERS;
  exec->identity = looked->file;
}

static void try_again(struct inbox *self, struct exec *exec, const char *what, const char *why) {
  if (!exec->logged)
    log_line(self->log, LOG_WARN, NULL, "[%s] cannot be %s: %s: tried again", exec->id, what, why);
  exec->logged = true;
  exec->state = EXEC_REFUSED;
}

/* Of a claim that is not ours. One of an agent that is dead is answered for it. */
static void look_at_claim(struct inbox *self, struct exec *exec) {
  int lock;
  exec->state = has_result(self, exec->id) ? EXEC_ANSWERED : EXEC_FOREIGN;
  if (exec->state == EXEC_ANSWERED)
    return;
  switch (claims_owner(&self->claims, exec->id, &lock)) {
  case CLAIM_OF_DEAD:
    if (!has_result(self, exec->id)) /* asked again, as the lock is held now */
      inbox_refuse(
          self, exec, RUN_EXIT_NOT_RUN,
          "interrupted: the sidecar ended while this request was running; it was not run again");
    break;
  case CLAIM_OF_SELF: /* of a cancelled one of this name: it could not be removed then */
    claims_drop(&self->claims, exec->id);
    exec->state = EXEC_NEW;
    break;
  case CLAIM_OF_NOBODY:
    exec->state = EXEC_NEW;
    break;
  case CLAIM_OF_SCRIPT:
  case CLAIM_OF_AGENT:
    break;
  }
  claims_unlock(lock);
}

/* True: it is ours now. Else the exec may be gone. */
static bool claim_request(struct inbox *self, struct exec *exec) {
  if (has_result(self, exec->id)) {
    exec->state = EXEC_ANSWERED;
    return false;
  }
  switch (claims_take(&self->claims, exec->id)) {
  case CLAIM_TAKEN:
    break;
  case CLAIM_FOREIGN:
    look_at_claim(self, exec);
    return false;
  case CLAIM_REFUSED:
    try_again(self, exec, "claimed", strerror(errno));
    return false;
  }
  if (has_request(self, exec->id) && !has_result(self, exec->id))
    return true;
  inbox_drop(self, exec); /* another one was faster, and is through */
  return false;
}

void inbox_queue(struct inbox *self, struct exec *exec) {
  exec->state = EXEC_QUEUED;
  self->execs.queued++;
}

struct exec *inbox_first_queued(const struct inbox *self) {
  return self->execs.queued > 0 ? exec_table_first(&self->execs, EXEC_QUEUED) : NULL;
}

void inbox_unqueue(struct inbox *self, struct exec *exec) {
  self->execs.queued--;
  exec->state = EXEC_NEW;
}

static void take_claimed(struct inbox *self, struct exec *exec, const struct request_look *looked) {
  if (looked->request.other_id)
    log_line(self->log, LOG_WARN, NULL, "[%s] has another id inside, which does not count",
             exec->id);
  if (looked->found != REQUEST_READY) {
    inbox_refuse(self, exec, RUN_EXIT_NOT_RUN, looked->error.text);
    return;
  }
  exec->round = 0;
  exec->mtime = looked->file.st_mtim;
  exec->bytes = (size_t)looked->file.st_size;
  inbox_queue(self, exec);
}

/* Reads one that is marked, and decides. The exec may be gone afterwards. */
static void read_request(struct inbox *self, struct exec *exec) {
  struct request_look looked;
  bool closed = exec->closed;
  exec->closed = false;
  exec->reads++;
  unmark_request(self, exec);
  request_look_take(&looked, &self->ipc, exec->id, &self->rules, &self->text);
  if (looked.found == REQUEST_GONE)
    exec_table_remove(&self->execs, exec);
  else if (looked.found == REQUEST_OF_OTHERS || looked.found == REQUEST_NONE)
    pass_over(self, exec, &looked);
  else if (looked.found == REQUEST_UNREADABLE)
    try_again(self, exec, "read", looked.error.text);
  else if (!is_unfinished(exec, &looked, closed) && claim_request(self, exec))
    take_claimed(self, exec, &looked);
  request_look_release(&looked);
}

/* What a scan under way has found has its turn when the scan has seen all names. */
static bool is_due(const struct inbox *self, const struct exec *exec) {
  return exec->round <= self->scans;
}

static void read_one_behind(struct inbox *self) {
  int64_t begin_ms = clock_monotonic_ms();
  size_t queued = self->execs.queued;
  struct exec *exec =
      begin_ms >= self->behind_ms ? exec_table_first(&self->execs, EXEC_BEHIND) : NULL;
  if (exec == NULL || !is_due(self, exec))
    return;
  read_request(self, exec);
  int64_t end_ms = clock_monotonic_ms();
  int64_t share = self->execs.queued > queued ? 1 : BEHIND_PAUSE;
  self->behind_ms = end_ms + (end_ms - begin_ms) * share;
}

void inbox_read_turn(struct inbox *self) {
  struct exec *found[READS_A_TURN];
  size_t count =
      self->execs.found == 0 ? 0 : exec_table_oldest(&self->execs, EXEC_FOUND, found, READS_A_TURN);
  for (size_t i = 0; i < count && is_due(self, found[i]); i++)
    read_request(self, found[i]);
  if (self->execs.behind > 0)
    read_one_behind(self);
}

void inbox_begin_anew(struct inbox *self, struct exec *exec) {
  struct stat file;
  claims_drop(&self->claims, exec->id);
  exec->elsewhere = false;
  exec->reads = 0;
  exec->since_ms = 0;
  if (find_file(self, exec, &file))
    mark_request(self, exec, &file, self->scans);
  else
    exec_table_remove(&self->execs, exec);
}

/* The exec of the id that is so many bytes of a file's name. */
static struct exec *exec_of_id(struct inbox *self, const char *id, size_t length, bool make) {
  struct file_name copy;
  memcpy(copy.text, id, length);
  copy.text[length] = '\0';
  return make ? exec_table_get(&self->execs, copy.text) : exec_table_find(&self->execs, copy.text);
}

static struct exec *exec_of_request(struct inbox *self, const char *name, bool make) {
  const char *id;
  size_t length;
  return exec_request_name(name, &id, &length) ? exec_of_id(self, id, length, make) : NULL;
}

/* --- what has gone --------------------------------------------------------------------------- */

/* Its file is gone. The exec may be gone afterwards. */
static void end_vanished(struct inbox *self, struct exec *exec) {
  switch (exec->state) {
  case EXEC_FOUND:
  case EXEC_BEHIND:
    unmark_request(self, exec);
    exec_table_remove(&self->execs, exec);
    break;
  case EXEC_NEW:
  case EXEC_WAITING:
  case EXEC_OTHERS:
  case EXEC_FOREIGN:
  case EXEC_REFUSED:
    exec_table_remove(&self->execs, exec);
    break;
  case EXEC_QUEUED:
    inbox_unqueue(self, exec);
    inbox_drop(self, exec);
    break;
  case EXEC_RUNNING:
    log_plain(self->log, INBOX_LOG_PREFIX "cancelled [%s]: its request was deleted", exec->id);
    exec->state = EXEC_CANCELLED;
    engine_stop(exec->run, FILES_GRACE_MS, "its request was deleted");
    break;
  case EXEC_ANSWERING:
    inbox_drop(self, exec);
    break;
  case EXEC_CANCELLED:
    break;
  case EXEC_ANSWERED:
    drop_answered(self, exec);
    break;
  }
}

static void end_if_gone(struct inbox *self, struct exec *exec) {
  if (!has_request(self, exec->id))
    end_vanished(self, exec);
}

/* --- what is there --------------------------------------------------------------------------- */

/* It is read when the scan has seen all names, the oldest first. */
static void mark_for_scan(struct inbox *self, struct exec *exec, bool only_if_changed) {
  struct stat file;
  if (find_file(self, exec, &file) && !(only_if_changed && is_like(&file, &exec->identity)))
    mark_request(self, exec, &file, self->scans + 1);
}

static void note_found(struct inbox *self, struct exec *exec) {
  exec->seen = self->scans + 1;
  switch (exec->state) {
  case EXEC_NEW:
  case EXEC_REFUSED:
    mark_for_scan(self, exec, false);
    break;
  case EXEC_WAITING:
  case EXEC_OTHERS:
    mark_for_scan(self, exec, true);
    break;
  case EXEC_FOREIGN:
    look_at_claim(self, exec);
    break;
  case EXEC_FOUND:
  case EXEC_BEHIND:
  case EXEC_QUEUED:
  case EXEC_RUNNING:
  case EXEC_CANCELLED:
  case EXEC_ANSWERING:
  case EXEC_ANSWERED:
    break;
  }
}

static bool is_sweep(const struct inbox *self) {
  return self->scans % SWEEP_SCANS == 0;
}

/* A claim whose request and result are both gone, and what else dead agents leave. The request may
   be there and not known yet. */
static void sweep_name(struct inbox *self, const char *name) {
  const char *id = claims_id_of(name);
  claims_sweep_name(&self->claims, name);
  if (id != NULL && exec_table_find(&self->execs, id) == NULL && !has_request(self, id) &&
      !has_result(self, id))
    claims_drop(&self->claims, id);
}

/* --- a scan ---------------------------------------------------------------------------------- */

void inbox_scan_stop(struct inbox *self) {
  if (self->names != NULL)
    closedir(self->names);
  self->names = NULL;
}

/* All names were seen; or there are none, as there is no directory. */
static void end_scan(struct inbox *self) {
  inbox_scan_stop(self);
  if (is_sweep(self))
    claims_sweep_end(&self->claims);
  self->scans++;
  self->unseen = self->execs.count;
}

void inbox_scan_begin(struct inbox *self) {
  if (self->names != NULL)
    return;
  int fd = openat(self->ipc.tools, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  self->names = fd >= 0 ? fdopendir(fd) : NULL;
  if (self->names == NULL && fd >= 0)
    close(fd);
  if (is_sweep(self))
    claims_sweep_begin(&self->claims);
  if (self->names == NULL)
    end_scan(self);
}

static void scan_names(struct inbox *self) {
  for (int i = 0; i < NAMES_A_TURN && self->names != NULL; i++) {
    const struct dirent *entry = readdir(self->names);
    struct exec *exec = entry != NULL ? exec_of_request(self, entry->d_name, true) : NULL;
    if (entry == NULL)
      end_scan(self);
    else if (exec != NULL)
      note_found(self, exec);
    else if (is_sweep(self))
      sweep_name(self, entry->d_name);
  }
}

/* From the end, as a removal moves the ones after it. What comes and goes meanwhile may move one
   past it: the next scan finds that. */
static void end_unseen(struct inbox *self) {
  for (int i = 0; i < NAMES_A_TURN && self->unseen > 0; i++) {
    if (self->unseen > self->execs.count)
      self->unseen = self->execs.count;
    else if (self->execs.items[--self->unseen]->seen != self->scans)
      end_if_gone(self, self->execs.items[self->unseen]);
  }
}

void inbox_scan_turn(struct inbox *self) {
  scan_names(self);
  end_unseen(self);
}

/* --- events ---------------------------------------------------------------------------------- */

/* A change of its file matters: it is not decided yet. It is read in its turn. */
void inbox_written(struct inbox *self, const char *name) {
  struct stat file;
  struct exec *exec = exec_of_request(self, name, true);
  if (exec == NULL)
    return;
  switch (exec->state) {
  case EXEC_FOUND:
  case EXEC_BEHIND:
    exec->closed = true;
    if (exec->round > self->scans)
      exec->round = self->scans;
    break;
  case EXEC_NEW:
  case EXEC_WAITING:
  case EXEC_OTHERS:
  case EXEC_REFUSED:
    exec->closed = true;
    if (find_file(self, exec, &file))
      mark_request(self, exec, &file, self->scans);
    else
      end_if_gone(self, exec);
    break;
  case EXEC_FOREIGN:
  case EXEC_QUEUED:
  case EXEC_RUNNING:
  case EXEC_CANCELLED:
  case EXEC_ANSWERING:
  case EXEC_ANSWERED:
    break;
  }
}

void inbox_removed(struct inbox *self, const char *name) {
  size_t prefix = sizeof EXEC_RESULT_PREFIX - 1, suffix = sizeof EXEC_RESULT_SUFFIX - 1;
  size_t length = strlen(name);
  struct exec *exec = exec_of_request(self, name, false);
  if (exec != NULL) {
    end_if_gone(self, exec);
    return;
  }
  if (length <= prefix + suffix || strncmp(name, EXEC_RESULT_PREFIX, prefix) != 0)
    return;
  exec = exec_of_id(self, name + prefix, length - prefix - suffix, false);
  if (exec != NULL)
    drop_answered(self, exec);
}

/* --- time ------------------------------------------------------------------------------------ */

void inbox_take_due(struct inbox *self, bool serving) {
  int64_t now_ms = clock_monotonic_ms();
  int answers = 0;
  for (size_t i = self->execs.count; i > 0; i--) {
    struct exec *exec = self->execs.items[i - 1];
    if (exec->state == EXEC_WAITING && exec->due_ms <= now_ms && serving) {
      exec->reads = READS_SOON; /* it can wait for new ones, too */
      mark_request(self, exec, &exec->identity, self->scans);
    } else if (exec->state == EXEC_ANSWERING && exec->retry_ms <= now_ms &&
               answers++ < INBOX_ANSWERS_A_TURN) {
      answer_again(self, exec, false);
    }
  }
}

bool inbox_has_work(const struct inbox *self) {
  return self->names != NULL || self->unseen > 0 || self->execs.found > 0;
}

int64_t inbox_due_ms(const struct inbox *self, bool serving) {
  int64_t due_ms = serving && self->execs.behind > 0 ? self->behind_ms : INT64_MAX;
  for (size_t i = 0; i < self->execs.count; i++) {
    const struct exec *exec = self->execs.items[i];
    if (exec->state == EXEC_WAITING && exec->due_ms < due_ms && serving)
      due_ms = exec->due_ms;
    if (exec->state == EXEC_ANSWERING && exec->retry_ms < due_ms)
      due_ms = exec->retry_ms;
  }
  return due_ms;
}

void inbox_init(struct inbox *self) {
  self->ipc = IPC_DIRECTORY_NONE;
  self->claims = CLAIMS_NONE;
}

void inbox_release(struct inbox *self) {
  inbox_scan_stop(self);
  buffer_release(&self->text);
  claims_close(&self->claims);
  ipc_directory_close(&self->ipc);
  exec_table_release(&self->execs);
}
