#include "agent/frontends/request_files/frontend.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/engine/engine.h"
#include "agent/exit_code.h"
#include "agent/frontends/request_files/env_files.h"
#include "agent/frontends/request_files/inbox.h"
#include "agent/frontends/request_files/watch.h"
#include "agent/payload_limit.h"
#include "base/clock.h"
#include "base/loop.h"
#include "base/memory.h"

/* The most bytes of requests that begin to run in a turn of the loop, unless one has more. */
#define SUBMIT_A_TURN ((size_t)1024 * 1024)

/* An orchestrator gives a pod 30 s to end; these make it 3 s. */
#define DRAIN_MS 100
#define LEAVE_BACKGROUND_MS 500
#define DONE_GRACE_MS 1000
#define DONE_BACKGROUND_MS 200

/* FINISHING: there is a file `done`. LEAVING: the engine wants no more. CLOSING: the engine closes
   the frontend, and queued requests are answered first. */
enum state { IDLE, SERVING, FINISHING, LEAVING, CLOSING, CLOSED };

struct request_files_frontend {
  struct frontend frontend; /* first */
  struct request_files_options options;
  struct event_base *base;
  enum state state;
  struct inbox inbox;
  struct watch *watch; /* NULL before the start */
  struct env_files *env_files;
  struct event *turn; /* see arm_turn */
  int64_t turn_ms;    /* when it is due, if it is pending */
  int64_t finish_ms;  /* the end of FINISHING, monotonic; 0: nothing is running */
  unsigned wanted;    /* executions that the engine wants */
  unsigned running;
  size_t running_bytes; /* of their requests */
  bool may_submit;      /* there may be a request to submit */
  bool tools_logged;    /* `tools` is missing, and that was logged */
  bool no_workspace;    /* EXEC_REQUEST_DIRECTORY was missing when it was last needed */
};

static struct request_files_frontend *self_of(struct frontend *frontend) {
  return (struct request_files_frontend *)frontend;
}

static void arm_turn(struct request_files_frontend *self);

/* --- executions ------------------------------------------------------------------------------ */

/* Returns the directory that replaces a missing workspace; `out` has PATH_MAX bytes. */
static const char *own_directory(char *out) {
  return getcwd(out, PATH_MAX) != NULL && out[0] == '/' ? out : "/";
}

static void log_exec(const struct request_files_frontend *self, const struct exec *exec,
                     const struct exec_request *request, const char *directory) {
  struct buffer text = {0};
  if (self->options.verbose) {
    buffer_add_string(&text, ": ");
    exec_request_add_text(request, &text);
  }
  buffer_add(&text, "", 1);
  mask_string(self->inbox.log->masker, text.bytes, false); /* before the text is cut */
  log_plain(self->inbox.log, INBOX_LOG_PREFIX "exec [%s] (timeout=%us, workdir=%s)%.2000s",
            exec->id, request->timeout_seconds, directory, text.bytes);
  buffer_release(&text);
}

/* Looks for the workspace only after a child has found it missing, so stat(2) does not block. */
static bool check_workspace_missing(struct request_files_frontend *self) {
  struct stat file;
  self->no_workspace = stat(EXEC_REQUEST_DIRECTORY, &file) != 0 && errno == ENOENT;
  return self->no_workspace;
}

/* The name may end with slashes. */
static bool is_workspace(const char *directory) {
  size_t length = strlen(EXEC_REQUEST_DIRECTORY);
  return strncmp(directory, EXEC_REQUEST_DIRECTORY, length) == 0 &&
         directory[length + strspn(directory + length, "/")] == '\0';
}

static void run_request(struct request_files_frontend *self, struct exec *exec,
                        const struct exec_request *request) {
  char path[PATH_MAX];
  bool again = exec->elsewhere;
  if (self->no_workspace && is_workspace(request->directory))
    exec->elsewhere = check_workspace_missing(self);
  const char *directory = exec->elsewhere ? own_directory(path) : request->directory;
  struct request step = {.user_data = exec};
  exec_request_step(request, exec->id, self->options.shell, directory,
                    env_files_read(self->env_files), &step.step);
  inbox_set_state(&self->inbox, exec, EXEC_RUNNING);
  self->wanted--;
  self->running++;
  self->running_bytes += (size_t)exec->file.st_size;
  engine_submit(&self->frontend, &step); /* now its secrets are known, and are masked in the log */
  if (!again)
    log_exec(self, exec, request, directory);
}

/* Reads the request again, because it may have changed since it was queued, and runs it. */
static void submit_request(struct request_files_frontend *self, struct exec *exec) {
  struct inbox *inbox = &self->inbox;
  struct exec_request request;
  struct error error;
  enum request_found found = inbox_read(inbox, exec, &request, &error);
  if (found == REQUEST_GONE)
    inbox_drop(inbox, exec);
  else if (found != REQUEST_READY)
    inbox_refuse(inbox, exec, EXECUTION_EXIT_NOT_RUN,
                 error.text[0] != '\0' ? error.text : "request was changed");
  else if (request.argv == NULL && self->options.shell == NULL)
    inbox_refuse(inbox, exec, EXECUTION_EXIT_NOT_FOUND, "no shell (bash, sh) in this image");
  else if (exec_request_check_line(&request, &error) != 0)
    inbox_refuse(inbox, exec, EXECUTION_EXIT_NOT_EXECUTABLE, error.text);
  else
    run_request(self, exec, &request);
  exec_request_release(&request);
}

static void submit_queued(struct request_files_frontend *self) {
  size_t bytes = 0;
  struct exec *exec;
  self->may_submit = false;
  while (self->wanted > 0 && (exec = inbox_first(&self->inbox, EXEC_QUEUED)) != NULL &&
         payload_limit_has_capacity(self->running_bytes, (size_t)exec->file.st_size)) {
    self->may_submit = bytes > 0 && bytes + (size_t)exec->file.st_size > SUBMIT_A_TURN;
    if (self->may_submit)
      return;
    bytes += (size_t)exec->file.st_size;
    submit_request(self, exec);
  }
}

static void begin(struct frontend *frontend, struct execution *execution) {
  struct exec *exec = execution_user_data(execution);
  (void)frontend;
  exec->execution = execution;
  engine_start(execution);
}

/* Queues a request again, for another directory, if its workspace is missing. */
static bool retry_elsewhere(struct request_files_frontend *self, struct exec *exec,
                            const struct execution *execution, const struct execution_result *end) {
  if (self->state != SERVING || end->outcome != EXECUTION_NO_DIRECTORY || exec->elsewhere ||
      !is_workspace(execution_step(execution)->working_directory) || !check_workspace_missing(self))
    return false;
  exec->elsewhere = true;
  inbox_set_state(&self->inbox, exec, EXEC_QUEUED);
  self->may_submit = true;
  return true;
}

/* Sets the reason why the command was not executed to its end; "" if it was. */
static void explain_end(const struct request_files_frontend *self,
                        const struct execution_result *end, struct error *out) {
  out->text[0] = '\0';
  if (end->outcome == EXECUTION_STOPPED && engine_leaving(&self->frontend) != NULL)
    (void)error_set(out, "stopped by %s", engine_leaving(&self->frontend));
  else if (end->outcome == EXECUTION_NOT_FOUND || end->outcome == EXECUTION_NOT_EXECUTABLE)
    (void)error_set(out, "cannot run '%.100s': %s", end->subject,
                    end->outcome == EXECUTION_NOT_FOUND ? "No such file or directory"
                                                        : error_why(&end->error));
  else if (!execution_result_is_own(end) && end->outcome != EXECUTION_TIMED_OUT)
    *out = end->error;
}

static void result(struct frontend *frontend, const struct execution *execution,
                   const struct execution_result *end) {
  struct request_files_frontend *self = self_of(frontend);
  struct exec *exec = execution_user_data(execution);
  struct error message;
  self->running--;
  self->running_bytes -= (size_t)exec->file.st_size;
  if (self->running == 0)
    self->finish_ms = 0;
  exec->execution = NULL;
  if (exec->state == EXEC_CANCELLED) {
    inbox_drop(&self->inbox, exec); /* a new request may have its name */
  } else if (!retry_elsewhere(self, exec, execution, end)) {
    explain_end(self, end, &message);
    inbox_answer(&self->inbox, exec, end, message.text);
  }
  self->may_submit = true;
  arm_turn(self);
}

/* --- turns ----------------------------------------------------------------------------------- */

static size_t count_queued(const struct request_files_frontend *self) {
  return self->inbox.in[EXEC_QUEUED];
}

/* The engine wants no more executions: queued requests are only answered. */
static bool is_leaving(const struct request_files_frontend *self) {
  return self->state == LEAVING || self->state == CLOSING;
}

/* Schedules a turn: at once if there is work, after other events; else when a request is due. An
   earlier turn stays, because events must not delay it. */
static void arm_turn(struct request_files_frontend *self) {
  bool has_work =
      self->state == SERVING ? self->may_submit : is_leaving(self) && count_queued(self) > 0;
  int64_t now_ms = clock_monotonic_ms();
  int64_t due_ms = has_work ? now_ms : inbox_due_ms(&self->inbox, self->state == SERVING);
  if (self->state == FINISHING && self->finish_ms < due_ms)
    due_ms = self->finish_ms;
  if (due_ms == INT64_MAX || self->state == CLOSED ||
      (evtimer_pending(self->turn, NULL) && self->turn_ms <= due_ms))
    return;
  self->turn_ms = due_ms;
  loop_timer_start(self->turn, due_ms > now_ms ? due_ms - now_ms : 0);
}

/* Answers requests that were queued and will not be executed. */
static void refuse_queued(struct request_files_frontend *self) {
  char reason[64];
  struct exec *exec;
  (void)snprintf(reason, sizeof reason, "stopped by %s", engine_leaving(&self->frontend));
  for (int i = 0;
       i < INBOX_ANSWERS_A_TURN && (exec = inbox_first(&self->inbox, EXEC_QUEUED)) != NULL; i++)
    inbox_refuse(&self->inbox, exec, EXECUTION_EXIT_NOT_RUN, reason);
}

/* Results that cannot be written now are lost: the requester or the pod is gone. */
static void close_now(struct request_files_frontend *self) {
  self->state = CLOSED;
  (void)event_del(self->turn);
  inbox_close(&self->inbox);
  engine_frontend_closed(&self->frontend, 0);
}

LOOP_CALLBACK(on_turn, struct request_files_frontend *self) {
  if (self->state == FINISHING && clock_monotonic_ms() >= self->finish_ms) {
    engine_leave(&self->frontend, AGENT_EXIT_SHUTDOWN, "the end of the agent");
    return;
  }
  inbox_turn(&self->inbox, self->state == SERVING);
  if (self->state == SERVING)
    submit_queued(self);
  else if (is_leaving(self))
    refuse_queued(self);
  if (self->inbox.in[EXEC_BEHIND] == 0)
    buffer_release(&self->inbox.text);
  if (self->state == CLOSING && count_queued(self) == 0)
    close_now(self);
  else
    arm_turn(self);
}

/* --- the directory --------------------------------------------------------------------------- */

/* Returns false if there is no `tools` and it cannot be made. */
static bool find_tools(struct request_files_frontend *self) {
  struct inbox *inbox = &self->inbox;
  struct error error;
  if (ipc_directory_find_tools(&inbox->ipc, &error)) {
    inbox_scan_stop(inbox);
    claims_open(&inbox->claims, inbox->ipc.tools);
    if (inbox->ipc.tools >= 0)
      watch_tools(self->watch, inbox->ipc.tools);
    else if (!self->tools_logged)
      log_line(inbox->log, LOG_ERROR, NULL, "%s/%s", self->options.directory, error.text);
  } else {
    (void)claims_renew(&inbox->claims);
  }
  self->tools_logged = inbox->ipc.tools < 0;
  return inbox->ipc.tools >= 0;
}

static void look_at_all(struct request_files_frontend *self) {
  if (!ipc_directory_is_done(&self->inbox.ipc)) {
    (void)find_tools(self);
    inbox_scan_begin(&self->inbox);
    return;
  }
  log_plain(self->inbox.log, INBOX_LOG_PREFIX "agent done, exiting");
  self->state = FINISHING;
  self->finish_ms = self->running > 0 ? clock_monotonic_ms() + REQUEST_FILES_DONE_MS : 0;
  self->frontend.terms.leave_grace_ms = DONE_GRACE_MS;
  self->frontend.terms.leave_background_ms = DONE_BACKGROUND_MS;
}

static void on_changed(void *owner, const char *name, bool written) {
  struct request_files_frontend *self = owner;
  if (self->state == SERVING)
    inbox_changed(&self->inbox, name, written);
}

static void on_changes_read(void *owner, bool scan) {
  struct request_files_frontend *self = owner;
  if (scan && self->state == SERVING)
    look_at_all(self);
  arm_turn(self);
}

/* --- the frontend ----------------------------------------------------------------------------- */

static void start_serving(struct request_files_frontend *self) {
  static const struct watch_handler handler = {.changed = on_changed,
                                               .changes_read = on_changes_read};
  struct inbox *inbox = &self->inbox;
  struct error error;
  self->state = SERVING;
  bool opened = ipc_directory_open(&inbox->ipc, self->options.directory, &error) == 0;
  if (!opened) {
    log_line(inbox->log, LOG_ERROR, NULL, "%s", error.text);
  } else if (!ipc_directory_is_done(&inbox->ipc)) {
    self->watch = watch_new(self->base, inbox->log, inbox->ipc.top, &handler, self);
    opened = find_tools(self);
  }
  if (!opened) {
    engine_leave(&self->frontend, AGENT_EXIT_ERROR, "an error of its directory");
    return;
  }
  log_plain(inbox->log, INBOX_LOG_PREFIX "started, watching %s/tools for exec requests",
            self->options.directory);
  look_at_all(self);
}

static void want(struct frontend *frontend, unsigned requests) {
  struct request_files_frontend *self = self_of(frontend);
  self->wanted = requests > 0 ? self->wanted + requests : 0;
  self->may_submit = true;
  if (requests == 0 && self->state < LEAVING)
    self->state = LEAVING;
  else if (self->state == IDLE)
    start_serving(self);
  arm_turn(self);
}

static void close_frontend(struct frontend *frontend, enum frontend_close how) {
  struct request_files_frontend *self = self_of(frontend);
  if (self->state == CLOSED)
    return;
  self->state = CLOSING;
  if (how == FRONTEND_CLOSE_IMMEDIATE || count_queued(self) == 0)
    close_now(self);
}

static void dump(const struct frontend *frontend) {
  const struct request_files_frontend *self = (const struct request_files_frontend *)frontend;
  log_line(
      self->inbox.log, LOG_WARN, NULL,
      "state: frontend files: %s, %zu requests known, %zu to be read, %zu queued, %u running, %s",
      self->options.directory, self->inbox.count,
      self->inbox.in[EXEC_FOUND] + self->inbox.in[EXEC_BEHIND], count_queued(self), self->running,
      self->watch != NULL && watch_has_inotify(self->watch) ? "inotify" : "no inotify");
}

static void free_frontend(struct frontend *frontend) {
  struct request_files_frontend *self = self_of(frontend);
  if (self->watch != NULL)
    watch_free(self->watch);
  inbox_release(&self->inbox);
  env_files_free(self->env_files);
  event_free(self->turn);
  free(self);
}

static const struct frontend_type request_files_frontend_type = {.name = "files",
                                                                 .want = want,
                                                                 .begin = begin,
                                                                 .result = result,
                                                                 .close = close_frontend,
                                                                 .dump = dump,
                                                                 .free = free_frontend};

struct frontend *request_files_frontend_new(struct event_base *base, const struct log *log,
                                            const struct request_files_options *options) {
  struct request_files_frontend *self = memory_allocate(sizeof *self);
  *self = (struct request_files_frontend){
      .frontend = {.type = &request_files_frontend_type,
                   .terms = {.executions = options->concurrency,
                             .grace_ms = FILES_GRACE_MS,
                             .drain_ms = DRAIN_MS,
                             .leave_grace_ms = FILES_GRACE_MS,
                             .leave_background_ms = LEAVE_BACKGROUND_MS,
                             .output_bytes = EXEC_RESULT_STREAM_MAX}},
      .options = *options,
      .base = base};
  inbox_init(&self->inbox, log, &options->rules);
  self->env_files = env_files_new(options->env_files, log);
  self->turn = loop_timer_new(base, on_turn, self);
  return &self->frontend;
}
