#include "agent/doors/files/door.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/doors/files/env_files.h"
#include "agent/doors/files/inbox.h"
#include "agent/doors/files/watch.h"
#include "agent/engine/engine.h"
#include "agent/exit_code.h"
#include "agent/payload_limit.h"
#include "base/clock.h"
#include "base/loop.h"
#include "base/memory.h"

/* Bytes of requests that begin to run in a turn of the loop, unless one alone has more. */
#define SUBMIT_A_TURN ((size_t)1024 * 1024)

/* An orchestrator waits 30 s, and this program 3 s. */
#define DRAIN_MS 100
#define LEAVE_BACKGROUND_MS 500
#define DONE_GRACE_MS 1000
#define DONE_BACKGROUND_MS 200

enum state { IDLE, SERVING, FINISHING, LEAVING, CLOSED };

struct files_door {
  struct door door; /* first */
  struct files_door_options options;
  struct event_base *base;
  enum state state;
  struct inbox inbox;
  struct watch *watch; /* NULL before the start */
  struct env_files *env_files;
  struct event *turn;     /* see arm_turn */
  struct event *finished; /* the end of FILES_DOOR_DONE_MS */
  unsigned wanted;        /* runs that may be submitted */
  unsigned running;
  size_t running_bytes; /* of their requests */
  bool submits;         /* there may be something to submit */
  bool closing;         /* LEAVING: when nothing is queued any more */
  bool tools_logged;    /* that it is missing */
  bool no_workspace;    /* EXEC_REQUEST_DIRECTORY was missing when it was needed last */
};

static struct files_door *self_of(struct door *door) {
  return (struct files_door *)door;
}

static void arm_turn(struct files_door *self);

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
  log_plain(self->inbox.log, INBOX_LOG_PREFIX "exec [%s] (timeout=%us, workdir=%s)%.2000s",
            exec->id, request->timeout_seconds, directory, text.bytes);
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

static void run_request(struct files_door *self, struct exec *exec,
                        const struct request_look *looked) {
  const struct exec_request *request = &looked->request;
  char path[PATH_MAX];
  bool again = exec->elsewhere;
  if (self->no_workspace && is_workspace(request->directory))
    exec->elsewhere = has_no_workspace(self);
  const char *directory = exec->elsewhere ? own_directory(path) : request->directory;
  struct request step = {.ticket = exec};
  exec_request_step(request, exec->id, self->options.shell, directory,
                    env_files_read(self->env_files), &step.step);
  if (!again)
    log_exec(self, exec, request, directory);
  exec->state = EXEC_RUNNING;
  exec->bytes = (size_t)looked->file.st_size;
  self->wanted--;
  self->running++;
  self->running_bytes += exec->bytes;
  engine_submit(&self->door, &step);
}

/* What it says may have changed since it was queued. */
static void submit_request(struct files_door *self, struct exec *exec) {
  struct inbox *inbox = &self->inbox;
  struct request_look looked;
  request_look_take(&looked, &inbox->ipc, exec->id, &inbox->rules, &inbox->text);
  inbox_unqueue(inbox, exec);
  if (looked.found == REQUEST_GONE)
    inbox_drop(inbox, exec);
  else if (looked.found != REQUEST_READY)
    inbox_refuse(inbox, exec, RUN_EXIT_NOT_RUN,
                 looked.error.text[0] != '\0' ? looked.error.text : "request was changed");
  else if (looked.request.argv == NULL && self->options.shell == NULL)
    inbox_refuse(inbox, exec, RUN_EXIT_NOT_FOUND, "no shell (bash, sh) in this image");
  else
    run_request(self, exec, &looked);
  request_look_release(&looked);
}

static void submit_queued(struct files_door *self) {
  size_t bytes = 0;
  struct exec *exec;
  self->submits = false;
  while (self->wanted > 0 && (exec = inbox_first_queued(&self->inbox)) != NULL &&
         payload_limit_has_room(self->running_bytes, exec->bytes)) {
    if (bytes > 0 && bytes + exec->bytes > SUBMIT_A_TURN) {
      self->submits = true;
      return;
    }
    bytes += exec->bytes;
    submit_request(self, exec);
  }
}

static void begin(struct door *door, struct run *run) {
  struct exec *exec = run_ticket(run);
  (void)door;
  exec->run = run;
  engine_start(run);
}

/* True: it has only to run in another directory. */
static bool runs_elsewhere(struct files_door *self, struct exec *exec, const struct run_end *end) {
  if (self->state != SERVING || end->how != RUN_NO_DIRECTORY || exec->elsewhere ||
      !is_workspace(end->subject) || !has_no_workspace(self))
    return false;
  exec->elsewhere = true;
  inbox_queue(&self->inbox, exec);
  self->submits = true;
  return true;
}

/* What this program has to say of a run that was not executed to its end; else "". */
static void explain_end(const struct files_door *self, const struct run_end *end,
                        struct error *out) {
  out->text[0] = '\0';
  switch (end->how) {
  case RUN_EXITED:
  case RUN_SIGNALED:
  case RUN_TIMED_OUT:
    break;
  case RUN_STOPPED:
    (void)error_set(out, INBOX_MESSAGE_PREFIX "stopped by %s", engine_leaving(&self->door));
    break;
  case RUN_NOT_FOUND:
    (void)error_set(out, INBOX_MESSAGE_PREFIX "cannot run '%.100s': No such file or directory",
                    end->subject);
    break;
  case RUN_NOT_EXECUTABLE:
    (void)error_set(out, INBOX_MESSAGE_PREFIX "cannot run '%.100s': %s", end->subject,
                    error_why(&end->error));
    break;
  case RUN_NO_DIRECTORY:
  case RUN_NO_PROCESS:
    (void)error_set(out, INBOX_MESSAGE_PREFIX "%s", end->error.text);
    break;
  }
}

static void leave_if_finished(struct files_door *self) {
  if (self->state == FINISHING && self->running == 0)
    loop_timer_start_now(self->finished);
}

static void result(struct door *door, const struct run *run, const struct run_end *end) {
  struct files_door *self = self_of(door);
  struct exec *exec = run_ticket(run);
  struct error message;
  self->running--;
  self->running_bytes -= exec->bytes;
  bool cancelled = exec->state == EXEC_CANCELLED;
  exec->run = NULL;
  exec->state = EXEC_NEW;
  if (cancelled && self->state != SERVING) {
    inbox_drop(&self->inbox, exec);
  } else if (cancelled) {
    inbox_begin_anew(&self->inbox, exec); /* there may be a new one of its name */
  } else if (!runs_elsewhere(self, exec, end)) {
    explain_end(self, end, &message);
    const struct exec_result result = {.id = exec->id,
                                       .exit_code = end->exit_code,
                                       .output = end->output,
                                       .errors = end->errors,
                                       .message = message.text[0] != '\0' ? message.text : NULL,
                                       .timed_out = end->how == RUN_TIMED_OUT};
    inbox_answer(&self->inbox, exec, &result);
  }
  self->submits = true;
  leave_if_finished(self);
  arm_turn(self);
}

/* --- the end --------------------------------------------------------------------------------- */

static void leave_done(struct files_door *self) {
  engine_leave(&self->door, AGENT_EXIT_SHUTDOWN, "the end of the agent");
}

static void on_finished(evutil_socket_t fd, short what, void *context) {
  (void)fd;
  (void)what;
  leave_done(context);
}

static void begin_finishing(struct files_door *self) {
  log_plain(self->inbox.log, INBOX_LOG_PREFIX "agent done, exiting");
  self->state = FINISHING;
  self->door.terms.leave_grace_ms = DONE_GRACE_MS;
  self->door.terms.leave_background_ms = DONE_BACKGROUND_MS;
  if (self->watch != NULL)
    watch_stop(self->watch);
  if (self->running == 0)
    leave_done(self);
  else
    loop_timer_start(self->finished, FILES_DOOR_DONE_MS);
}

/* --- a turn ---------------------------------------------------------------------------------- */

static bool has_work(const struct files_door *self) {
  if (self->state == LEAVING)
    return self->inbox.execs.queued > 0;
  return self->state == SERVING && (self->submits || inbox_has_work(&self->inbox));
}

/* When there is work, in the next turn of the loop, after what else has happened; else when there
   is what waits for time alone. */
static void arm_turn(struct files_door *self) {
  int64_t now_ms = clock_monotonic_ms(), due_ms = INT64_MAX;
  if (has_work(self))
    due_ms = now_ms;
  else if (self->state == SERVING || self->state == FINISHING)
    due_ms = inbox_due_ms(&self->inbox, self->state == SERVING);
  if (due_ms < INT64_MAX)
    loop_timer_start(self->turn, due_ms > now_ms ? due_ms - now_ms : 0);
  else
    (void)event_del(self->turn);
}

static void on_settled(void *owner) {
  arm_turn(owner);
}

/* No run is begun any more: what was only queued is answered. */
static void refuse_queued(struct files_door *self) {
  char reason[64];
  struct exec *exec;
  (void)snprintf(reason, sizeof reason, "stopped by %s", engine_leaving(&self->door));
  for (int i = 0; i < INBOX_ANSWERS_A_TURN && (exec = inbox_first_queued(&self->inbox)) != NULL;
       i++) {
    inbox_unqueue(&self->inbox, exec);
    inbox_refuse(&self->inbox, exec, RUN_EXIT_NOT_RUN, reason);
  }
}

static void close_now(struct files_door *self);

static void on_turn(evutil_socket_t fd, short what, void *context) {
  (void)fd;
  (void)what;
  struct files_door *self = context;
  struct inbox *inbox = &self->inbox;
  if (self->state == SERVING)
    inbox_scan_turn(inbox);
  if (self->state != LEAVING)
    inbox_take_due(inbox, self->state == SERVING);
  if (self->state == SERVING) {
    inbox_read_turn(inbox);
    submit_queued(self);
  } else if (self->state == LEAVING) {
    refuse_queued(self);
    if (self->closing && inbox->execs.queued == 0) {
      close_now(self);
      return;
    }
  }
  if (inbox->execs.behind == 0)
    buffer_release(&inbox->text);
  arm_turn(self);
}

/* --- what happens ---------------------------------------------------------------------------- */

/* False: there is no `tools`, and it cannot be made. */
static bool find_tools(struct files_door *self, struct error *error) {
  switch (ipc_directory_find_tools(&self->inbox.ipc, error)) {
  case IPC_TOOLS_SAME:
    (void)claims_renew(&self->inbox.claims);
    return true;
  case IPC_TOOLS_OTHER:
    inbox_scan_stop(&self->inbox);
    watch_tools(self->watch, self->inbox.ipc.tools);
    break;
  case IPC_TOOLS_MISSING:
    inbox_scan_stop(&self->inbox);
    break;
  }
  claims_open(&self->inbox.claims, self->inbox.ipc.tools);
  return self->inbox.ipc.tools >= 0;
}

static void on_scan(void *owner) {
  struct files_door *self = owner;
  struct error error;
  if (self->state != SERVING)
    return;
  if (ipc_directory_is_done(&self->inbox.ipc)) {
    begin_finishing(self);
    return;
  }
  bool found = find_tools(self, &error);
  if (!found && !self->tools_logged)
    log_line(self->inbox.log, LOG_ERROR, NULL, "%s/%s", self->options.directory, error.text);
  self->tools_logged = !found;
  inbox_scan_begin(&self->inbox);
}

static void on_written(void *owner, const char *name) {
  struct files_door *self = owner;
  if (self->state == SERVING)
    inbox_written(&self->inbox, name);
}

static void on_removed(void *owner, const char *name) {
  struct files_door *self = owner;
  inbox_removed(&self->inbox, name);
}

/* --- the door -------------------------------------------------------------------------------- */

static void start_serving(struct files_door *self) {
  static const struct watch_handler handler = {
      .written = on_written, .removed = on_removed, .scan = on_scan, .settled = on_settled};
  struct error error = {.text = ""};
  const char *directory = self->options.directory;
  self->state = SERVING;
  bool opened = ipc_directory_open(&self->inbox.ipc, directory, &error) == 0;
  if (opened && !ipc_directory_is_done(&self->inbox.ipc)) {
    self->watch = watch_new(self->base, self->inbox.log, self->inbox.ipc.top, &handler, self);
    opened = find_tools(self, &error);
    if (!opened) {
      struct error reason = error;
      (void)error_set(&error, "%.150s/%s", directory, reason.text);
    }
  }
  if (!opened) {
    log_line(self->inbox.log, LOG_ERROR, NULL, "%s", error.text);
    engine_leave(&self->door, AGENT_EXIT_ERROR, "an error of its directory");
    return;
  }
  log_plain(self->inbox.log, INBOX_LOG_PREFIX "started, watching %s/tools for exec requests",
            directory);
  on_scan(self);
  if (self->state == SERVING)
    arm_turn(self);
}

static void stop_serving(struct files_door *self) {
  self->wanted = 0;
  if (self->state == CLOSED)
    return;
  self->state = LEAVING;
  if (self->watch != NULL)
    watch_stop(self->watch);
  (void)event_del(self->finished);
  inbox_scan_stop(&self->inbox);
  arm_turn(self);
}

static void want(struct door *door, unsigned requests) {
  struct files_door *self = self_of(door);
  if (requests == 0) {
    stop_serving(self);
    return;
  }
  self->wanted += requests;
  self->submits = true;
  if (self->state == IDLE)
    start_serving(self);
  else
    arm_turn(self);
}

/* Nobody waits for what cannot be written now: the agent is gone, or the pod is. */
static void close_now(struct files_door *self) {
  self->state = CLOSED;
  (void)event_del(self->turn);
  inbox_answer_last(&self->inbox);
  claims_close(&self->inbox.claims);
  engine_door_closed(&self->door, 0);
}

static void close_door(struct door *door, enum door_close how) {
  struct files_door *self = self_of(door);
  if (self->state == CLOSED)
    return;
  self->closing = true;
  if (how == DOOR_CLOSE_NOW || self->inbox.execs.queued == 0)
    close_now(self);
}

static void dump(const struct door *door) {
  const struct files_door *self = (const struct files_door *)door;
  log_line(self->inbox.log, LOG_WARN, NULL,
           "state: door files: %s, %zu requests known, %zu to be read, %zu queued, %u running, %s",
           self->options.directory, self->inbox.execs.count,
           self->inbox.execs.found + self->inbox.execs.behind, self->inbox.execs.queued,
           self->running,
           self->watch != NULL && watch_has_inotify(self->watch) ? "inotify" : "no inotify");
}

static const struct door_type files_door_type = {.name = "files",
                                                 .want = want,
                                                 .begin = begin,
                                                 .result = result,
                                                 .close = close_door,
                                                 .dump = dump};

struct door *files_door_new(struct event_base *base, const struct log *log,
                            const struct files_door_options *options) {
  struct files_door *self = memory_allocate(sizeof *self);
  *self = (struct files_door){
      .door = {.type = &files_door_type,
               .terms = {.runs = options->concurrency,
                         .grace_ms = FILES_GRACE_MS,
                         .drain_ms = DRAIN_MS,
                         .leave_grace_ms = FILES_GRACE_MS,
                         .leave_background_ms = LEAVE_BACKGROUND_MS,
                         .output_bytes = EXEC_RESULT_STREAM_MAX}},
      .options = *options,
      .base = base,
      .inbox = {
          .log = log,
          .rules = {.pack = options->pack,
                    .defaults = {.directory = options->workdir != NULL ? options->workdir
                                                                       : EXEC_REQUEST_DIRECTORY,
                                 .timeout_seconds = options->default_timeout_seconds,
                                 .timeout_max_seconds = options->max_timeout_seconds}}}};
  inbox_init(&self->inbox);
  self->env_files = env_files_new(options->env_files, log);
  self->turn = loop_timer_new(base, on_turn, self);
  self->finished = loop_timer_new(base, on_finished, self);
  return &self->door;
}

void files_door_free(struct door *door) {
  struct files_door *self = self_of(door);
  if (self->watch != NULL)
    watch_free(self->watch);
  inbox_release(&self->inbox);
  env_files_free(self->env_files);
  event_free(self->turn);
  event_free(self->finished);
  free(self);
}
