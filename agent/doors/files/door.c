/*
 * A request's file is the truth, not what is remembered of it: it is read again when its turn has
 * come, and asked for before its result is written. Events only say where to look; a scan finds the
 * same without them.
 *
 * Whoever shares the directory decides how many files there are, how large they are and how often
 * they change. So everything that takes time is done in turns, one in each turn of the loop
 * (on_turn), and a turn is bounded: so many names of a scan, so many files that are read, one large
 * one. A file that has not changed is not read again. Of those that are to be read the ones that an
 * earlier scan has found come first, so that nobody's changes keep others from their turn; large
 * ones, and those that change all the time, have a lane of their own, EXEC_BEHIND.
 *
 * At most once: the claim is made before the command runs, and removed when request and result are
 * both gone. Another agent that has read the request before may take the claim after that: who has
 * a claim therefore looks whether the request is still there.
 */
#include "agent/doors/files/door.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agent/doors/files/claims.h"
#include "agent/doors/files/env_files.h"
#include "agent/doors/files/exec_request.h"
#include "agent/doors/files/exec_result.h"
#include "agent/doors/files/exec_table.h"
#include "agent/doors/files/ipc_directory.h"
#include "agent/doors/files/request_look.h"
#include "agent/doors/files/watch.h"
#include "agent/engine/engine.h"
#include "agent/engine/run_result.h"
#include "agent/exit_code.h"
#include "agent/kinds/kinds.h"
#include "agent/payload_limit.h"
#include "base/clock.h"
#include "base/loop.h"
#include "base/memory.h"

/* How long a request that is not whole, or not JSON, must stay as it is until it is answered: who
   writes it may be slow. */
#define SHORT_MS 5000
#define BROKEN_MS 200

/* Where there is no space for a result: the bytes of each stream that it has then, how often it is
   tried again, and how long. */
#define SMALL_STREAM_MAX 4096
#define RETRY_MS 200
#define GIVE_UP_MS 10000

/* In a turn of the loop: names of a scan, each of which may be a claim, several system calls; files
   that are read, not longer than READ_SHORT, and one that is; bytes of requests that begin to run,
   unless one alone has more; results that are written again, or refuse what was queued. */
#define NAMES_A_TURN 512
#define READS_A_TURN 32
#define READ_SHORT (32 * 1024)
#define SUBMIT_A_TURN ((size_t)1024 * 1024)
#define ANSWERS_A_TURN 32

/* A file that was read so often and is not whole yet has no hurry. */
#define READS_SOON 8

/* After an EXEC_BEHIND there is a pause, so that what takes several turns is not held up in each: as
   long as the reading took, and so many times as long where there is nothing to be run of it. */
#define BEHIND_PAUSE 4

/* Claims and locks that dead agents have left are looked for in each n-th scan. */
#define SWEEP_SCANS 10

/* The agent gives up 10 s after the timeout; an orchestrator waits 30 s, and this program 3 s. */
#define GRACE_MS 2000
#define DRAIN_MS 100
#define LEAVE_BACKGROUND_MS 500
#define DONE_GRACE_MS 1000
#define DONE_BACKGROUND_MS 200

#define LOG_PREFIX "[tool-executor] "
#define MESSAGE_PREFIX "tool-executor: "

enum state { IDLE, SERVING, FINISHING, LEAVING, CLOSED };

struct files_door {
  struct door door; /* first */
  struct files_door_options options;
  struct request_rules rules;
  struct event_base *base;
  const struct log *log;
  enum state state;
  struct ipc_directory ipc;
  struct claims claims;
  struct watch *watch; /* NULL before the start */
  struct env_files *env_files;
  struct exec_table execs;
  struct event *turn;     /* see arm_turn */
  struct event *finished; /* the end of FILES_DOOR_DONE_MS */
  unsigned wanted;        /* runs that may be submitted */
  unsigned running;
  size_t running_bytes; /* of their requests */
  bool submits;         /* there may be something to submit */
  bool closing;         /* LEAVING: when nothing is queued any more */
  DIR *names;           /* of a scan that is under way; or NULL */
  uint64_t scans;       /* that have seen all names */
  size_t unseen;        /* after that: so many are still to be asked whether they have vanished */
  int64_t behind_ms;    /* when the next EXEC_BEHIND may be read */
  struct buffer text;   /* of what is read; kept while there are EXEC_BEHIND */
  bool tools_logged;    /* that it is missing */
  bool no_workspace;    /* EXEC_REQUEST_DIRECTORY was missing when it was needed last */
};

static struct files_door *self_of(struct door *door) {
  return (struct files_door *)door;
}

struct name {
  char text[NAME_MAX + 1];
};

static struct name result_name(const char *id) {
  struct name name;
  (void)snprintf(name.text, sizeof name.text, EXEC_RESULT_PREFIX "%s" EXEC_RESULT_SUFFIX, id);
  return name;
}

static bool has_request(const struct files_door *self, const struct exec *exec) {
  return ipc_directory_has(&self->ipc, request_look_name(exec->id).text);
}

static bool has_result(const struct files_door *self, const char *id) {
  return ipc_directory_has_file(&self->ipc, result_name(id).text);
}

static void forget(struct files_door *self, struct exec *exec) {
  exec_table_remove(&self->execs, exec);
}

static void release(struct files_door *self, struct exec *exec) {
  claims_drop(&self->claims, exec->id);
  forget(self, exec);
}

/* --- results --------------------------------------------------------------------------------- */

/* The answer was given, by whomever; false: the exec is gone. */
static void tidy(struct files_door *self, struct exec *exec) {
  if (exec->state == EXEC_ANSWERED && !has_request(self, exec) && !has_result(self, exec->id))
    release(self, exec);
}

static int write_result(struct files_door *self, const struct exec *exec) {
  char hidden[CLAIMS_NAME_SIZE];
  claims_make_name(&self->claims, hidden);
  return ipc_directory_write(&self->ipc, hidden, result_name(exec->id).text, &exec->result);
}

static void answered(struct files_door *self, struct exec *exec) {
  log_plain(self->log, LOG_PREFIX "done [%s]: exit=%d timed_out=%s", exec->id, exec->exit_code,
            exec->timed_out ? "true" : "false");
  buffer_release(&exec->result);
  exec->state = EXEC_ANSWERED;
}

static bool is_no_space(void) {
  return errno == ENOSPC || errno == EDQUOT;
}

/* Whoever waited for it is gone when the request is: then there is no result. The exec may be gone
   afterwards. */
static void answer(struct files_door *self, struct exec *exec, const struct exec_result *result) {
  if (!has_request(self, exec)) {
    release(self, exec);
    return;
  }
  exec->exit_code = result->exit_code;
  exec->timed_out = result->timed_out;
  exec->result.length = 0;
  exec_result_add(result, EXEC_RESULT_STREAM_MAX, &exec->result);
  int written = write_result(self, exec);
  if (written != 0 && is_no_space()) {
    log_line(self->log, LOG_WARN, NULL, "[%s]: the result is cut: %s", exec->id, strerror(errno));
    buffer_release(&exec->result);
    exec_result_add(result, SMALL_STREAM_MAX, &exec->result);
    written = write_result(self, exec);
  }
  if (written == 0) {
    answered(self, exec);
    return;
  }
  log_line(self->log, LOG_WARN, NULL, "[%s]: the result cannot be written: %s: tried for %d s",
           exec->id, strerror(errno), GIVE_UP_MS / 1000);
  exec->state = EXEC_ANSWERING;
  exec->retry_ms = clock_monotonic_ms() + RETRY_MS;
  exec->due_ms = clock_monotonic_ms() + GIVE_UP_MS;
}

static void answer_again(struct files_door *self, struct exec *exec, bool last) {
  if (!has_request(self, exec)) {
    release(self, exec);
  } else if (write_result(self, exec) == 0) {
    answered(self, exec);
  } else if (last || clock_monotonic_ms() >= exec->due_ms) {
    log_line(self->log, LOG_ERROR, NULL, "[%s]: the result (exit=%d) is lost: %s", exec->id,
             exec->exit_code, strerror(errno));
    buffer_release(&exec->result);
    exec->state = EXEC_ANSWERED; /* the claim stays: it does not run again */
  } else {
    exec->retry_ms = clock_monotonic_ms() + RETRY_MS;
  }
}

/* It was not executed. */
static void refuse(struct files_door *self, struct exec *exec, int exit_code, const char *reason) {
  char message[sizeof MESSAGE_PREFIX + sizeof(struct error)];
  (void)snprintf(message, sizeof message, MESSAGE_PREFIX "%s", reason);
  const struct exec_result result = {.id = exec->id, .exit_code = exit_code, .message = message};
  answer(self, exec, &result);
}

/* --- reading a request ----------------------------------------------------------------------- */

static bool find_file(const struct files_door *self, const struct exec *exec, struct stat *file) {
  return fstatat(self->ipc.tools, request_look_name(exec->id).text, file, AT_SYMLINK_NOFOLLOW) == 0;
}

/* This file of a request is to be read after so many scans. */
static void mark(struct files_door *self, struct exec *exec, const struct stat *file,
                 uint64_t round) {
  bool behind = file->st_size > READ_SHORT || exec->reads >= READS_SOON;
  exec->state = behind ? EXEC_BEHIND : EXEC_FOUND;
  self->execs.behind += behind;
  self->execs.found += !behind;
  exec->mtime = file->st_mtim;
  exec->round = round;
}

static bool is_marked(const struct exec *exec) {
  return exec->state == EXEC_FOUND || exec->state == EXEC_BEHIND;
}

static void unmark(struct files_door *self, struct exec *exec) {
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
static bool waits(struct exec *exec, const struct request_look *looked, int64_t time_ms) {
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
    return waits(exec, looked, SHORT_MS);
  return looked->found == REQUEST_BROKEN && !closed && waits(exec, looked, BROKEN_MS);
}

static void pass_over(struct files_door *self, struct exec *exec,
                      const struct request_look *looked) {
  if (looked->found == REQUEST_NONE && !exec->logged) {
    log_line(self->log, LOG_WARN, NULL, "[%s] is ignored: %s", exec->id, looked->error.text);
    exec->logged = true;
  }
  exec->state = EXEC_OTHERS;
  exec->identity = looked->file;
}

static void try_again(struct files_door *self, struct exec *exec, const char *what,
                      const char *why) {
  if (!exec->logged)
    log_line(self->log, LOG_WARN, NULL, "[%s] cannot be %s: %s: tried again", exec->id, what, why);
  exec->logged = true;
  exec->state = EXEC_REFUSED;
}

/* Of a claim that is not ours. One of an agent that is dead is answered for it. */
static void judge(struct files_door *self, struct exec *exec) {
  int lock;
  exec->state = has_result(self, exec->id) ? EXEC_ANSWERED : EXEC_FOREIGN;
  if (exec->state == EXEC_ANSWERED)
    return;
  switch (claims_owner(&self->claims, exec->id, &lock)) {
  case CLAIM_OF_DEAD:
    if (!has_result(self, exec->id)) /* asked again, as the lock is held now */
      refuse(self, exec, RUN_EXIT_NOT_RUN,
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
static bool claim(struct files_door *self, struct exec *exec) {
  if (has_result(self, exec->id)) {
    exec->state = EXEC_ANSWERED;
    return false;
  }
  switch (claims_take(&self->claims, exec->id)) {
  case CLAIM_TAKEN:
    break;
  case CLAIM_FOREIGN:
    judge(self, exec);
    return false;
  case CLAIM_REFUSED:
    try_again(self, exec, "claimed", strerror(errno));
    return false;
  }
  if (has_request(self, exec) && !has_result(self, exec->id))
    return true;
  release(self, exec); /* another one was faster, and is through */
  return false;
}

static void queue(struct files_door *self, struct exec *exec, const struct stat *file) {
  exec->state = EXEC_QUEUED;
  exec->round = 0;
  exec->mtime = file->st_mtim;
  exec->bytes = (size_t)file->st_size;
  self->execs.queued++;
  self->submits = true;
}

/* Reads one that is marked, and decides. The exec may be gone afterwards. */
static void look(struct files_door *self, struct exec *exec) {
  struct request_look looked;
  bool closed = exec->closed;
  exec->closed = false;
  exec->reads++;
  unmark(self, exec);
  request_look_take(&looked, &self->ipc, exec->id, &self->rules, &self->text);
  if (looked.found == REQUEST_GONE) {
    forget(self, exec);
  } else if (looked.found == REQUEST_OF_OTHERS || looked.found == REQUEST_NONE) {
    pass_over(self, exec, &looked);
  } else if (looked.found == REQUEST_UNREADABLE) {
    try_again(self, exec, "read", looked.error.text);
  } else if (!is_unfinished(exec, &looked, closed) && claim(self, exec)) {
    if (looked.request.other_id)
      log_line(self->log, LOG_WARN, NULL, "[%s] has another id inside, which does not count",
               exec->id);
    if (looked.found == REQUEST_READY)
      queue(self, exec, &looked.file);
    else
      refuse(self, exec, RUN_EXIT_NOT_RUN, looked.error.text);
  }
  request_look_release(&looked);
}

/* What a scan under way has found has its turn when the scan has seen all names. */
static bool is_due(const struct files_door *self, const struct exec *exec) {
  return exec->round <= self->scans;
}

static void look_behind(struct files_door *self) {
  int64_t begin_ms = clock_monotonic_ms();
  size_t queued = self->execs.queued;
  struct exec *exec =
      begin_ms >= self->behind_ms ? exec_table_first(&self->execs, EXEC_BEHIND) : NULL;
  if (exec == NULL || !is_due(self, exec))
    return;
  look(self, exec);
  int64_t end_ms = clock_monotonic_ms();
  int64_t share = self->execs.queued > queued ? 1 : BEHIND_PAUSE;
  self->behind_ms = end_ms + (end_ms - begin_ms) * share;
}

static void look_at_marked(struct files_door *self) {
  struct exec *found[READS_A_TURN];
  size_t count =
      self->execs.found == 0 ? 0 : exec_table_oldest(&self->execs, EXEC_FOUND, found, READS_A_TURN);
  for (size_t i = 0; i < count && is_due(self, found[i]); i++)
    look(self, found[i]);
  if (self->execs.behind > 0)
    look_behind(self);
}

/* Its file is gone. The exec may be gone afterwards. */
static void vanish(struct files_door *self, struct exec *exec) {
  switch (exec->state) {
  case EXEC_FOUND:
  case EXEC_BEHIND:
    unmark(self, exec);
    forget(self, exec);
    break;
  case EXEC_NEW:
  case EXEC_WAITING:
  case EXEC_OTHERS:
  case EXEC_FOREIGN:
  case EXEC_REFUSED:
    forget(self, exec);
    break;
  case EXEC_QUEUED:
    self->execs.queued--;
    release(self, exec);
    break;
  case EXEC_RUNNING:
    log_plain(self->log, LOG_PREFIX "cancelled [%s]: its request was deleted", exec->id);
    exec->state = EXEC_CANCELLED;
    engine_stop(exec->run, GRACE_MS, "its request was deleted");
    break;
  case EXEC_ANSWERING:
    release(self, exec);
    break;
  case EXEC_CANCELLED:
    break;
  case EXEC_ANSWERED:
    tidy(self, exec);
    break;
  }
}

/* --- running --------------------------------------------------------------------------------- */

/* Where a request's directory is missing; `out` has PATH_MAX bytes. */
static const char *own_directory(char *out) {
  return getcwd(out, PATH_MAX) != NULL && out[0] == '/' ? out : "/";
}

static void log_exec(const struct files_door *self, const struct exec *exec,
                     const struct exec_request *request, const char *directory) {
  struct buffer text = {0};
  if (self->options.verbose) {
    buffer_add_string(&text, ": ");
    exec_request_add_text(request, &text);
  }
  buffer_add(&text, "", 1);
  log_plain(self->log, LOG_PREFIX "exec [%s] (timeout=%us, workdir=%s)%.2000s", exec->id,
            request->timeout_seconds, directory, text.bytes);
  buffer_release(&text);
}

/* Asked only when a child has found it missing, so that to ask does not block. */
static bool has_no_workspace(struct files_door *self) {
  struct stat file;
  self->no_workspace = stat(EXEC_REQUEST_DIRECTORY, &file) != 0 && errno == ENOENT;
  return self->no_workspace;
}

/* However many slashes it ends with. */
static bool is_workspace(const char *directory) {
  size_t length = strlen(EXEC_REQUEST_DIRECTORY);
  return strncmp(directory, EXEC_REQUEST_DIRECTORY, length) == 0 &&
         directory[length + strspn(directory + length, "/")] == '\0';
}

static void run(struct files_door *self, struct exec *exec, const struct request_look *looked) {
  const struct exec_request *request = &looked->request;
  char path[PATH_MAX];
  bool again = exec->elsewhere;
  if (self->no_workspace && is_workspace(request->directory))
    exec->elsewhere = has_no_workspace(self);
  const char *directory = exec->elsewhere ? own_directory(path) : request->directory;
  struct buffer env = {0}, payload = {0};
  struct request step = {.ticket = exec};
  struct error error;
  env_files_add(self->env_files, &env);
  exec_request_add_step(request, exec->id, self->options.shell, directory, &env, &payload);
  int parsed = step_parse(&step.step, kinds, payload.bytes, payload.length, &error);
  buffer_release(&env);
  buffer_release(&payload);
  if (parsed == 0) {
    if (!again)
      log_exec(self, exec, request, directory);
    exec->state = EXEC_RUNNING;
    exec->bytes = (size_t)looked->file.st_size;
    self->wanted--;
    self->running++;
    self->running_bytes += exec->bytes;
    engine_submit(&self->door, &step);
  } else {
    refuse(self, exec, RUN_EXIT_NOT_RUN, error.text);
  }
  step_release(&step.step);
}

/* What it says may have changed since it was queued. */
static void submit(struct files_door *self, struct exec *exec) {
  struct request_look looked;
  request_look_take(&looked, &self->ipc, exec->id, &self->rules, &self->text);
  self->execs.queued--;
  exec->state = EXEC_NEW;
  if (looked.found == REQUEST_GONE)
    release(self, exec);
  else if (looked.found != REQUEST_READY)
    refuse(self, exec, RUN_EXIT_NOT_RUN,
           looked.error.text[0] != '\0' ? looked.error.text : "request was changed");
  else if (looked.request.argv == NULL && self->options.shell == NULL)
    refuse(self, exec, RUN_EXIT_NOT_FOUND, "no shell (bash, sh) in this image");
  else
    run(self, exec, &looked);
  request_look_release(&looked);
}

/* Large ones wait for each other: all that run are held in memory. */
static bool has_room(const struct files_door *self, const struct exec *exec) {
  return self->running_bytes == 0 || self->running_bytes + exec->bytes <= payload_limit();
}

static void submit_queued(struct files_door *self) {
  size_t bytes = 0;
  self->submits = false;
  while (self->wanted > 0 && self->execs.queued > 0) {
    struct exec *exec = exec_table_first(&self->execs, EXEC_QUEUED);
    if (!has_room(self, exec))
      return;
    if (bytes > 0 && bytes + exec->bytes > SUBMIT_A_TURN) {
      self->submits = true;
      return;
    }
    bytes += exec->bytes;
    submit(self, exec);
  }
}

static void begin(struct door *door, struct run *run) {
  struct exec *exec = run_ticket(run);
  (void)door;
  exec->run = run;
  engine_start(run);
}

/* True: it has only to run in another directory. */
static bool runs_elsewhere(struct files_door *self, struct exec *exec, const struct run *run,
                           const struct run_result *ended) {
  if (self->state != SERVING || ended->failure != RUN_NO_DIRECTORY || exec->elsewhere ||
      !is_workspace(run_step(run)->working_directory) || !has_no_workspace(self))
    return false;
  exec->elsewhere = true;
  exec->state = EXEC_QUEUED;
  self->execs.queued++;
  self->submits = true;
  return true;
}

/* What this program has to say of a run that was not executed to its end; else "". */
static void explain(const struct files_door *self, const struct run *run,
                    const struct run_result *ended, struct error *out) {
  const char *command = run_step(run)->target;
  const char *detail = strstr(ended->reason, ": ");
  out->text[0] = '\0';
  switch (ended->failure) {
  case RUN_EXECUTED:
    break;
  case RUN_STOPPED:
    (void)error_set(out, MESSAGE_PREFIX "stopped by %s", engine_leaving(&self->door));
    break;
  case RUN_NOT_FOUND:
    if (strstr(ended->reason, "it exists") == NULL)
      detail = ": No such file or directory";
    /* fall through */
  case RUN_NOT_EXECUTABLE:
    (void)error_set(out, MESSAGE_PREFIX "cannot run '%.100s'%s", command,
                    detail != NULL ? detail : "");
    break;
  case RUN_NO_DIRECTORY:
  case RUN_NO_PROCESS:
    (void)error_set(out, MESSAGE_PREFIX "%.*s", (int)ended->reason_length, ended->reason);
    break;
  }
}

static struct exec_stream stream_of(const struct run_stream *stream) {
  return (struct exec_stream){stream->bytes, stream->length, stream->truncated};
}

static void leave_if_finished(struct files_door *self);

/* Of one that was cancelled: there may be a new one of its name. */
static void begin_anew(struct files_door *self, struct exec *exec) {
  struct stat file;
  claims_drop(&self->claims, exec->id);
  exec->elsewhere = false;
  exec->reads = 0;
  exec->since_ms = 0;
  if (find_file(self, exec, &file))
    mark(self, exec, &file, self->scans);
  else
    forget(self, exec);
}

static void arm_turn(struct files_door *self);

static void result(struct door *door, const struct run *run, const struct step_event *completed,
                   const struct step_result *step_result) {
  (void)completed;
  struct files_door *self = self_of(door);
  struct exec *exec = run_ticket(run);
  struct run_result ended;
  struct error message;
  run_result_get(run, step_result, &ended);
  self->running--;
  self->running_bytes -= exec->bytes;
  bool cancelled = exec->state == EXEC_CANCELLED;
  exec->run = NULL;
  exec->state = EXEC_NEW;
  if (cancelled && self->state != SERVING) {
    release(self, exec);
  } else if (cancelled) {
    begin_anew(self, exec);
  } else if (!runs_elsewhere(self, exec, run, &ended)) {
    explain(self, run, &ended, &message);
    const struct exec_result result = {.id = exec->id,
                                       .exit_code = ended.exit_code,
                                       .output = stream_of(&ended.output),
                                       .errors = stream_of(&ended.errors),
                                       .message = message.text[0] != '\0' ? message.text : NULL,
                                       .timed_out = ended.timed_out};
    answer(self, exec, &result);
  }
  self->submits = true;
  leave_if_finished(self);
  arm_turn(self);
}

/* --- the directory --------------------------------------------------------------------------- */

static struct exec *exec_of(struct files_door *self, const char *file_name, bool make) {
  const char *id;
  size_t length;
  if (!exec_request_name(file_name, &id, &length))
    return NULL;
  struct name copy;
  memcpy(copy.text, id, length);
  copy.text[length] = '\0';
  return make ? exec_table_get(&self->execs, copy.text) : exec_table_find(&self->execs, copy.text);
}

static void vanish_if_gone(struct files_door *self, struct exec *exec) {
  if (!has_request(self, exec))
    vanish(self, exec);
}

/* What a scan finds is read when it has seen all names, the oldest first. */
static void mark_found(struct files_door *self, struct exec *exec) {
  struct stat file;
  if (find_file(self, exec, &file))
    mark(self, exec, &file, self->scans + 1);
}

static void mark_if_changed(struct files_door *self, struct exec *exec) {
  struct stat file;
  if (find_file(self, exec, &file) && !is_like(&file, &exec->identity))
    mark(self, exec, &file, self->scans + 1);
}

/* Found by a scan. */
static void find(struct files_door *self, struct exec *exec) {
  exec->seen = self->scans + 1;
  switch (exec->state) {
  case EXEC_NEW:
  case EXEC_REFUSED:
    mark_found(self, exec);
    break;
  case EXEC_WAITING:
  case EXEC_OTHERS:
    mark_if_changed(self, exec);
    break;
  case EXEC_FOREIGN:
    judge(self, exec);
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

static bool is_sweep(const struct files_door *self) {
  return self->scans % SWEEP_SCANS == 0;
}

/* A claim whose request and result are both gone, and what else dead agents leave. The request may
   be there and not known yet. */
static void find_left(struct files_door *self, const char *name) {
  const char *id = claims_id_of(name);
  claims_sweep_name(&self->claims, name);
  if (id != NULL && exec_table_find(&self->execs, id) == NULL &&
      !ipc_directory_has(&self->ipc, request_look_name(id).text) && !has_result(self, id))
    claims_drop(&self->claims, id);
}

static void find_name(struct files_door *self, const char *name) {
  struct exec *exec = exec_of(self, name, true);
  if (exec != NULL)
    find(self, exec);
  else if (is_sweep(self))
    find_left(self, name);
}

static void stop_scan(struct files_door *self) {
  if (self->names != NULL)
    closedir(self->names);
  self->names = NULL;
}

/* All names were seen; or there are none, as there is no directory. */
static void end_scan(struct files_door *self) {
  stop_scan(self);
  if (is_sweep(self))
    claims_sweep_end(&self->claims);
  self->scans++;
  self->unseen = self->execs.count;
}

/* Goes on where it is under way. */
static void begin_scan(struct files_door *self) {
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

static void scan_names(struct files_door *self) {
  for (int i = 0; i < NAMES_A_TURN && self->names != NULL; i++) {
    const struct dirent *entry = readdir(self->names);
    if (entry != NULL)
      find_name(self, entry->d_name);
    else
      end_scan(self);
  }
}

/* From the end, as a removal moves the ones after it. What comes and goes meanwhile may move one
   past it: the next scan finds that. */
static void find_vanished(struct files_door *self) {
  for (int i = 0; i < NAMES_A_TURN && self->unseen > 0; i++) {
    if (self->unseen > self->execs.count)
      self->unseen = self->execs.count;
    else if (self->execs.items[--self->unseen]->seen != self->scans)
      vanish_if_gone(self, self->execs.items[self->unseen]);
  }
}

/* --- the end --------------------------------------------------------------------------------- */

static void leave(struct files_door *self) {
  engine_leave(&self->door, AGENT_EXIT_SHUTDOWN, "the end of the agent");
}

static void leave_if_finished(struct files_door *self) {
  if (self->state == FINISHING && self->running == 0)
    loop_timer_start_now(self->finished);
}

static void on_finished(evutil_socket_t fd, short what, void *context) {
  (void)fd;
  (void)what;
  leave(context);
}

static void finish(struct files_door *self) {
  log_plain(self->log, LOG_PREFIX "agent done, exiting");
  self->state = FINISHING;
  self->door.terms.leave_grace_ms = DONE_GRACE_MS;
  self->door.terms.leave_background_ms = DONE_BACKGROUND_MS;
  if (self->watch != NULL)
    watch_stop(self->watch);
  if (self->running == 0)
    leave(self);
  else
    loop_timer_start(self->finished, FILES_DOOR_DONE_MS);
}

/* --- a turn ---------------------------------------------------------------------------------- */

static bool has_work(const struct files_door *self) {
  if (self->state == LEAVING)
    return self->execs.queued > 0;
  return self->state == SERVING &&
         (self->names != NULL || self->unseen > 0 || self->submits || self->execs.found > 0);
}

/* When there is work, in the next turn of the loop, after what else has happened; else when there
   is what waits for time alone. */
static void arm_turn(struct files_door *self) {
  int64_t now_ms = clock_monotonic_ms();
  int64_t due_ms = has_work(self) ? now_ms : INT64_MAX;
  bool serving = self->state == SERVING;
  if (serving && self->execs.behind > 0 && self->behind_ms < due_ms)
    due_ms = self->behind_ms;
  for (size_t i = 0; i < self->execs.count && due_ms > now_ms; i++) {
    const struct exec *exec = self->execs.items[i];
    if (exec->state == EXEC_WAITING && exec->due_ms < due_ms && serving)
      due_ms = exec->due_ms;
    if (exec->state == EXEC_ANSWERING && exec->retry_ms < due_ms &&
        (serving || self->state == FINISHING))
      due_ms = exec->retry_ms;
  }
  if (due_ms < INT64_MAX)
    loop_timer_start(self->turn, due_ms > now_ms ? due_ms - now_ms : 0);
  else
    (void)event_del(self->turn);
}

static void settled(void *owner) {
  arm_turn(owner);
}

/* What has waited for long enough. */
static void take_due(struct files_door *self) {
  int64_t now_ms = clock_monotonic_ms();
  int answers = 0;
  for (size_t i = self->execs.count; i > 0; i--) {
    struct exec *exec = self->execs.items[i - 1];
    if (exec->state == EXEC_WAITING && exec->due_ms <= now_ms && self->state == SERVING) {
      exec->reads = READS_SOON; /* it can wait for new ones, too */
      mark(self, exec, &exec->identity, self->scans);
    } else if (exec->state == EXEC_ANSWERING && exec->retry_ms <= now_ms &&
               answers++ < ANSWERS_A_TURN) {
      answer_again(self, exec, false);
    }
  }
}

/* No run is begun any more: what was only queued is answered. */
static void refuse_queued(struct files_door *self) {
  char reason[64];
  (void)snprintf(reason, sizeof reason, "stopped by %s", engine_leaving(&self->door));
  for (int i = 0; i < ANSWERS_A_TURN && self->execs.queued > 0; i++) {
    struct exec *exec = exec_table_first(&self->execs, EXEC_QUEUED);
    self->execs.queued--;
    refuse(self, exec, RUN_EXIT_NOT_RUN, reason);
  }
}

static void close_now(struct files_door *self);

static void on_turn(evutil_socket_t fd, short what, void *context) {
  (void)fd;
  (void)what;
  struct files_door *self = context;
  if (self->state == SERVING) {
    scan_names(self);
    find_vanished(self);
  }
  if (self->state != LEAVING)
    take_due(self);
  if (self->state == SERVING) {
    look_at_marked(self);
    submit_queued(self);
  } else if (self->state == LEAVING) {
    refuse_queued(self);
    if (self->closing && self->execs.queued == 0) {
      close_now(self);
      return;
    }
  }
  if (self->execs.behind == 0)
    buffer_release(&self->text);
  arm_turn(self);
}

/* --- what happens ---------------------------------------------------------------------------- */

/* False: there is no `tools`, and it cannot be made. */
static bool find_tools(struct files_door *self, struct error *error) {
  switch (ipc_directory_find_tools(&self->ipc, error)) {
  case IPC_TOOLS_SAME:
    (void)claims_renew(&self->claims);
    return true;
  case IPC_TOOLS_OTHER:
    stop_scan(self);
    watch_tools(self->watch, self->ipc.tools);
    break;
  case IPC_TOOLS_MISSING:
    stop_scan(self);
    break;
  }
  claims_open(&self->claims, self->ipc.tools);
  return self->ipc.tools >= 0;
}

static void scan(void *owner) {
  struct files_door *self = owner;
  struct error error;
  if (self->state != SERVING)
    return;
  if (ipc_directory_is_done(&self->ipc)) {
    finish(self);
    return;
  }
  bool found = find_tools(self, &error);
  if (!found && !self->tools_logged)
    log_line(self->log, LOG_ERROR, NULL, "%s/%s", self->options.directory, error.text);
  self->tools_logged = !found;
  begin_scan(self);
}

/* Whether a change of its file means anything. */
static bool is_undecided(const struct exec *exec) {
  return exec->state == EXEC_NEW || exec->state == EXEC_WAITING || exec->state == EXEC_OTHERS ||
         exec->state == EXEC_REFUSED;
}

static void written(void *owner, const char *name) {
  struct files_door *self = owner;
  struct stat file;
  struct exec *exec = self->state == SERVING ? exec_of(self, name, true) : NULL;
  if (exec == NULL || (!is_marked(exec) && !is_undecided(exec)))
    return;
  exec->closed = true;
  if (is_marked(exec)) {
    if (exec->round > self->scans)
      exec->round = self->scans;
  } else if (find_file(self, exec, &file)) {
    mark(self, exec, &file, self->scans);
  } else {
    vanish_if_gone(self, exec);
  }
}

static void removed(void *owner, const char *name) {
  struct files_door *self = owner;
  size_t prefix = sizeof EXEC_RESULT_PREFIX - 1, suffix = sizeof EXEC_RESULT_SUFFIX - 1;
  size_t length = strlen(name);
  struct exec *exec = exec_of(self, name, false);
  if (exec != NULL)
    vanish_if_gone(self, exec);
  if (exec != NULL || length <= prefix + suffix || strncmp(name, EXEC_RESULT_PREFIX, prefix) != 0)
    return;
  struct name id;
  memcpy(id.text, name + prefix, length - prefix);
  id.text[length - prefix - suffix] = '\0';
  exec = exec_table_find(&self->execs, id.text);
  if (exec != NULL)
    tidy(self, exec);
}

/* --- the door -------------------------------------------------------------------------------- */

static void start(struct files_door *self) {
  static const struct watch_handler handler = {
      .written = written, .removed = removed, .scan = scan, .settled = settled};
  struct error error = {{0}};
  const char *directory = self->options.directory;
  self->state = SERVING;
  bool opened = ipc_directory_open(&self->ipc, directory, &error) == 0;
  if (opened && !ipc_directory_is_done(&self->ipc)) {
    self->watch = watch_new(self->base, self->log, self->ipc.top, &handler, self);
    opened = find_tools(self, &error);
    if (!opened) {
      struct error reason = error;
      (void)error_set(&error, "%.150s/%s", directory, reason.text);
    }
  }
  if (!opened) {
    log_line(self->log, LOG_ERROR, NULL, "%s", error.text);
    engine_leave(&self->door, AGENT_EXIT_ERROR, "an error of its directory");
    return;
  }
  log_plain(self->log, LOG_PREFIX "started, watching %s/tools for exec requests", directory);
  scan(self);
  if (self->state == SERVING)
    settled(self);
}

static void stop(struct files_door *self) {
  self->wanted = 0;
  if (self->state == CLOSED)
    return;
  self->state = LEAVING;
  if (self->watch != NULL)
    watch_stop(self->watch);
  (void)event_del(self->finished);
  stop_scan(self);
  arm_turn(self);
}

static void want(struct door *door, unsigned requests) {
  struct files_door *self = self_of(door);
  if (requests == 0) {
    stop(self);
    return;
  }
  self->wanted += requests;
  self->submits = true;
  if (self->state == IDLE)
    start(self);
  else
    arm_turn(self);
}

static size_t room(const struct door *door) {
  (void)door;
  return SIZE_MAX;
}

/* Output is in the result alone. */
static void event(struct door *door, const struct run *run, const struct step_event *event) {
  (void)door;
  (void)run;
  (void)event;
}

static void flush(struct door *door) {
  (void)door;
}

/* Nobody waits for what cannot be written now: the agent is gone, or the pod is. */
static void close_now(struct files_door *self) {
  self->state = CLOSED;
  (void)event_del(self->turn);
  for (size_t i = self->execs.count; i > 0; i--)
    if (self->execs.items[i - 1]->state == EXEC_ANSWERING)
      answer_again(self, self->execs.items[i - 1], true);
  claims_close(&self->claims);
  engine_door_closed(&self->door, 0);
}

static void close_door(struct door *door, enum door_close how) {
  struct files_door *self = self_of(door);
  if (self->state == CLOSED)
    return;
  self->closing = true;
  if (how == DOOR_CLOSE_NOW || self->execs.queued == 0)
    close_now(self);
}

static void dump(const struct door *door) {
  const struct files_door *self = (const struct files_door *)door;
  log_line(self->log, LOG_WARN, NULL,
           "state: door files: %s, %zu requests known, %zu to be read, %zu queued, %u running, %s",
           self->options.directory, self->execs.count, self->execs.found + self->execs.behind,
           self->execs.queued, self->running,
           self->watch != NULL && watch_has_inotify(self->watch) ? "inotify" : "no inotify");
}

static const struct door_type files_door_type = {.name = "files",
                                                 .want = want,
                                                 .begin = begin,
                                                 .room = room,
                                                 .event = event,
                                                 .flush = flush,
                                                 .result = result,
                                                 .close = close_door,
                                                 .dump = dump};

struct door *files_door_new(struct event_base *base, const struct log *log,
                            const struct files_door_options *options) {
  struct files_door *self = memory_allocate(sizeof *self);
  *self = (struct files_door){
      .door = {.type = &files_door_type,
               .terms = {.runs = options->concurrency,
                         .grace_ms = GRACE_MS,
                         .drain_ms = DRAIN_MS,
                         .leave_grace_ms = GRACE_MS,
                         .leave_background_ms = LEAVE_BACKGROUND_MS,
                         .output_bytes = EXEC_RESULT_STREAM_MAX}},
      .options = *options,
      .rules = {.pack = options->pack,
                .defaults = {.directory = options->workdir != NULL ? options->workdir
                                                                   : EXEC_REQUEST_DIRECTORY,
                             .timeout_seconds = options->default_timeout_seconds,
                             .timeout_max_seconds = options->max_timeout_seconds}},
      .base = base,
      .log = log,
      .ipc = IPC_DIRECTORY_NONE,
      .claims = CLAIMS_NONE};
  self->env_files = env_files_new(options->env_files, log);
  self->turn = loop_timer_new(base, on_turn, self);
  self->finished = loop_timer_new(base, on_finished, self);
  return &self->door;
}

void files_door_free(struct door *door) {
  struct files_door *self = self_of(door);
  if (self->watch != NULL)
    watch_free(self->watch);
  stop_scan(self);
  buffer_release(&self->text);
  claims_close(&self->claims);
  ipc_directory_close(&self->ipc);
  env_files_free(self->env_files);
  exec_table_release(&self->execs);
  event_free(self->turn);
  event_free(self->finished);
  free(self);
}
