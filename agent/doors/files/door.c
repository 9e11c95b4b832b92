/*
 * A request's file is the truth, not what is remembered of it: it is read again when its turn has
 * come, and asked for before its result is written. Events only say where to look; a scan finds the
 * same without them.
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

/* A scan looks at so many new requests in a turn of the loop: a claim is several system calls. */
#define LOOKS_A_TURN 16

/* Claims and locks that dead agents have left are looked for at each n-th scan. */
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
  struct event *timer;    /* of what waits: see arm_timer */
  struct event *finished; /* the end of FILES_DOOR_DONE_MS */
  unsigned wanted;        /* runs that may be submitted */
  unsigned running;
  size_t running_bytes; /* of their requests */
  unsigned scans;
  bool tools_logged; /* that it is missing */
  bool no_workspace; /* EXEC_REQUEST_DIRECTORY was missing when it was needed last */
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

/* --- looking at a request -------------------------------------------------------------------- */

/* True while it is to be waited for: it has changed, or not been like this for long enough. */
static bool waits(struct exec *exec, const struct request_look *looked, int64_t time_ms) {
  int64_t now_ms = clock_monotonic_ms();
  if (exec->state != EXEC_WAITING || exec->hash != looked->hash)
    exec->since_ms = now_ms;
  exec->state = EXEC_WAITING;
  exec->hash = looked->hash;
  exec->due_ms = exec->since_ms + time_ms;
  return now_ms < exec->due_ms;
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
  exec->mtime = file->st_mtim;
  exec->bytes = (size_t)file->st_size;
  self->execs.queued++;
}

/* It is not what a scan has found any more. */
static void lose(struct files_door *self, struct exec *exec) {
  exec->state = EXEC_NEW;
  self->execs.found--;
}

/* `closed`: its writer has just closed it. The exec may be gone afterwards. */
static void look(struct files_door *self, struct exec *exec, bool closed) {
  struct request_look looked;
  request_look_take(&looked, &self->ipc, exec->id, &self->rules);
  if (exec->state == EXEC_FOUND)
    lose(self, exec);
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

/* Its file is gone. The exec may be gone afterwards. */
static void vanish(struct files_door *self, struct exec *exec) {
  switch (exec->state) {
  case EXEC_FOUND:
    self->execs.found--;
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
  request_look_take(&looked, &self->ipc, exec->id, &self->rules);
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
  while (self->state == SERVING && self->wanted > 0 && self->execs.queued > 0) {
    struct exec *exec = exec_table_oldest(&self->execs, EXEC_QUEUED);
    if (!has_room(self, exec))
      return;
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
    claims_drop(&self->claims, exec->id);
    look(self, exec, false); /* there may be a new one of this name */
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
  leave_if_finished(self);
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

static bool is_like(const struct stat *left, const struct stat *right) {
  return left->st_ino == right->st_ino && left->st_size == right->st_size &&
         left->st_mode == right->st_mode && left->st_ctim.tv_sec == right->st_ctim.tv_sec &&
         left->st_ctim.tv_nsec == right->st_ctim.tv_nsec;
}

/* Found by a scan, in whatever order. */
static void mark_found(struct files_door *self, struct exec *exec) {
  struct stat file;
  if (fstatat(self->ipc.tools, request_look_name(exec->id).text, &file, AT_SYMLINK_NOFOLLOW) != 0) {
    forget(self, exec);
    return;
  }
  exec->mtime = file.st_mtim;
  exec->state = EXEC_FOUND;
  self->execs.found++;
}

static void look_at_found(struct files_door *self) {
  for (int i = 0; i < LOOKS_A_TURN && self->execs.found > 0; i++)
    look(self, exec_table_oldest(&self->execs, EXEC_FOUND), false);
}

static void look_if_changed(struct files_door *self, struct exec *exec) {
  struct stat file;
  if (fstatat(self->ipc.tools, request_look_name(exec->id).text, &file, AT_SYMLINK_NOFOLLOW) == 0 &&
      !is_like(&file, &exec->identity))
    look(self, exec, false);
}

/* Found by a scan. */
static void find(struct files_door *self, struct exec *exec) {
  exec->request_seen = true;
  switch (exec->state) {
  case EXEC_NEW:
    mark_found(self, exec);
    break;
  case EXEC_WAITING:
  case EXEC_REFUSED:
    look(self, exec, false);
    break;
  case EXEC_OTHERS:
    look_if_changed(self, exec);
    break;
  case EXEC_FOREIGN:
    judge(self, exec);
    break;
  case EXEC_FOUND:
  case EXEC_QUEUED:
  case EXEC_RUNNING:
  case EXEC_CANCELLED:
  case EXEC_ANSWERING:
  case EXEC_ANSWERED:
    break;
  }
}

/* A claim whose request and result are both gone: dead agents leave them. */
static void find_claim(struct files_door *self, const char *name) {
  const char *id = claims_id_of(name);
  if (id != NULL && exec_table_find(&self->execs, id) == NULL && !has_result(self, id))
    claims_drop(&self->claims, id);
}

static void for_each_name(struct files_door *self,
                          void (*found)(struct files_door *self, const char *name)) {
  int fd = openat(self->ipc.tools, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  DIR *names = fd >= 0 ? fdopendir(fd) : NULL;
  if (names == NULL && fd >= 0)
    close(fd);
  if (names == NULL)
    return;
  for (const struct dirent *entry; (entry = readdir(names)) != NULL;)
    found(self, entry->d_name);
  closedir(names);
}

static void find_request(struct files_door *self, const char *name) {
  struct exec *exec = exec_of(self, name, true);
  if (exec != NULL)
    find(self, exec);
}

/* A removal moves the ones after it, which is why it goes from the end. */
static void find_vanished(struct files_door *self) {
  for (size_t i = self->execs.count; i > 0; i--) {
    struct exec *exec = self->execs.items[i - 1];
    if (!exec->request_seen && !has_request(self, exec))
      vanish(self, exec);
  }
}

static void scan_tools(struct files_door *self) {
  for (size_t i = 0; i < self->execs.count; i++)
    self->execs.items[i]->request_seen = false;
  for_each_name(self, find_request);
  find_vanished(self);
  look_at_found(self);
  if (self->scans++ % SWEEP_SCANS == 0) {
    for_each_name(self, find_claim);
    claims_sweep(&self->claims);
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

/* --- what happens ---------------------------------------------------------------------------- */

/* Of what waits for time alone, or for the next turn. */
static void arm_timer(struct files_door *self) {
  int64_t now_ms = clock_monotonic_ms();
  int64_t due_ms = self->execs.found > 0 && self->state == SERVING ? now_ms : INT64_MAX;
  for (size_t i = 0; i < self->execs.count; i++) {
    const struct exec *exec = self->execs.items[i];
    if (exec->state == EXEC_WAITING && exec->due_ms < due_ms && self->state == SERVING)
      due_ms = exec->due_ms;
    if (exec->state == EXEC_ANSWERING && exec->retry_ms < due_ms)
      due_ms = exec->retry_ms;
  }
  if (due_ms < INT64_MAX)
    loop_timer_start(self->timer, due_ms > now_ms ? due_ms - now_ms : 0);
  else
    (void)event_del(self->timer);
}

static void settled(void *owner) {
  struct files_door *self = owner;
  submit_queued(self);
  if (self->state == SERVING || self->state == FINISHING)
    arm_timer(self);
}

static void on_timer(evutil_socket_t fd, short what, void *context) {
  (void)fd;
  (void)what;
  struct files_door *self = context;
  int64_t now_ms = clock_monotonic_ms();
  if (self->state == SERVING)
    look_at_found(self);
  for (size_t i = self->execs.count; i > 0; i--) {
    struct exec *exec = self->execs.items[i - 1];
    if (exec->state == EXEC_WAITING && exec->due_ms <= now_ms && self->state == SERVING)
      look(self, exec, false);
    else if (exec->state == EXEC_ANSWERING && exec->retry_ms <= now_ms)
      answer_again(self, exec, false);
  }
  settled(self);
}

/* False: there is no `tools`, and it cannot be made. */
static bool find_tools(struct files_door *self, struct error *error) {
  switch (ipc_directory_find_tools(&self->ipc, error)) {
  case IPC_TOOLS_SAME:
    (void)claims_renew(&self->claims);
    return true;
  case IPC_TOOLS_OTHER:
    watch_tools(self->watch);
    break;
  case IPC_TOOLS_MISSING:
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
  scan_tools(self);
}

static void written(void *owner, const char *name) {
  struct files_door *self = owner;
  struct exec *exec = self->state == SERVING ? exec_of(self, name, true) : NULL;
  if (exec != NULL && (exec->state <= EXEC_OTHERS || exec->state == EXEC_REFUSED))
    look(self, exec, true);
}

static void removed(void *owner, const char *name) {
  struct files_door *self = owner;
  size_t prefix = sizeof EXEC_RESULT_PREFIX - 1, suffix = sizeof EXEC_RESULT_SUFFIX - 1;
  size_t length = strlen(name);
  struct exec *exec = exec_of(self, name, false);
  if (exec != NULL && !has_request(self, exec))
    vanish(self, exec);
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
    self->watch = watch_new(self->base, self->log, directory, &handler, self);
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

/* No run is begun any more: what was only queued is answered now. */
static void stop(struct files_door *self) {
  char reason[64];
  (void)snprintf(reason, sizeof reason, "stopped by %s", engine_leaving(&self->door));
  self->wanted = 0;
  if (self->state == CLOSED)
    return;
  self->state = LEAVING;
  if (self->watch != NULL)
    watch_stop(self->watch);
  (void)event_del(self->timer);
  (void)event_del(self->finished);
  for (size_t i = self->execs.count; i > 0; i--) {
    struct exec *exec = self->execs.items[i - 1];
    if (exec->state == EXEC_QUEUED)
      refuse(self, exec, RUN_EXIT_NOT_RUN, reason);
  }
}

static void want(struct door *door, unsigned requests) {
  struct files_door *self = self_of(door);
  if (requests == 0) {
    stop(self);
    return;
  }
  self->wanted += requests;
  if (self->state == IDLE)
    start(self);
  else if (self->state == SERVING)
    settled(self);
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
static void close_door(struct door *door, enum door_close how) {
  (void)how;
  struct files_door *self = self_of(door);
  if (self->state == CLOSED)
    return;
  self->state = CLOSED;
  for (size_t i = self->execs.count; i > 0; i--)
    if (self->execs.items[i - 1]->state == EXEC_ANSWERING)
      answer_again(self, self->execs.items[i - 1], true);
  claims_close(&self->claims);
  engine_door_closed(door, 0);
}

static void dump(const struct door *door) {
  const struct files_door *self = (const struct files_door *)door;
  log_line(self->log, LOG_WARN, NULL,
           "state: door files: %s, %zu requests known, %zu found, %zu queued, %u running, %s",
           self->options.directory, self->execs.count, self->execs.found, self->execs.queued,
           self->running,
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
  self->timer = loop_timer_new(base, on_timer, self);
  self->finished = loop_timer_new(base, on_finished, self);
  return &self->door;
}

void files_door_free(struct door *door) {
  struct files_door *self = self_of(door);
  if (self->watch != NULL)
    watch_free(self->watch);
  claims_close(&self->claims);
  ipc_directory_close(&self->ipc);
  env_files_free(self->env_files);
  exec_table_release(&self->execs);
  event_free(self->timer);
  event_free(self->finished);
  free(self);
}
