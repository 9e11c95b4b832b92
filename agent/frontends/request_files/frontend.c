#include "agent/frontends/request_files/frontend.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <unistd.h>

#include "agent/engine/engine.h"
#include "agent/exit_code.h"
#include "agent/frontends/request_files/inbox.h"
#include "agent/payload_limit.h"
#include "base/clock.h"
#include "base/descriptor.h"
#include "base/loop.h"
#include "base/memory.h"

/* The most requests of EXEC_READY, and of EXEC_FOUND, that are read in a turn of the loop. */
#define READS_A_TURN 32

/* While this many claims cannot be removed or results cannot be written, nothing else is read,
   because each has a lock, which is a descriptor. */
#define LOCKED_MAX 64

/* After a request was read that waits behind the others, there is a pause, so that other work is
   not delayed in every turn: as long as reading it took, and this many times as long if there is
   nothing to run. */
#define BEHIND_PAUSE 4

/* A scan finds changes that inotify(7) does not report: a hard link, a bind mount, an overflow of
   its queue. The second time is without inotify, whose limits are per user: all pods have one. */
#define SCAN_MS 1000
#define SCAN_ALONE_MS 100

#define TOOLS_MASK (IN_CLOSE_WRITE | IN_MOVED_TO | IN_DELETE | IN_MOVED_FROM)
/* DELETE_SELF does not come while the directory is open, so its name is watched from above. */
#define TOP_MASK (IN_CLOSE_WRITE | IN_MOVED_TO | IN_CREATE | IN_DELETE | IN_MOVED_FROM)

/* An orchestrator gives a pod 30 s to end; these make it 3 s. */
#define DRAIN_MS 100
#define LEAVE_BACKGROUND_MS 500
#define DONE_GRACE_MS 1000
#define DONE_BACKGROUND_MS 200

/* FINISHING: there is a file `done`. LEAVING: the engine wants no more. CLOSING: the engine closes
   the frontend, and found requests are answered first. */
enum files_state { IDLE, SERVING, FINISHING, LEAVING, CLOSING, CLOSED };

struct request_files_frontend {
  struct frontend frontend; /* first */
  struct request_files_options options;
  struct event_base *base;
  enum files_state state;
  struct inbox inbox;
  int inotify;           /* -1: there is none */
  int top, tools;        /* its watches, of the shared directory and of `tools` in it */
  struct event *changed; /* NULL without inotify */
  struct event *scan;
  struct event *turn; /* see arm_turn */
  int64_t turn_ms;    /* when it is due, if it is pending */
  int64_t finish_ms;  /* the end of FINISHING, monotonic; 0: nothing is running */
  unsigned wanted;    /* executions that the engine wants */
  unsigned running;
  size_t running_bytes; /* of their requests */
  int64_t behind_ms;    /* when the next request behind the others may be read */
  bool tools_logged;    /* `tools` is missing, and that was logged */
};

static struct request_files_frontend *self_of(struct frontend *frontend) {
  return (struct request_files_frontend *)frontend;
}

static void arm_turn(struct request_files_frontend *self);
static void on_changed(evutil_socket_t fd, short what, void *owner);

static bool is_leaving(const struct request_files_frontend *self) {
  return self->state == LEAVING || self->state == CLOSING;
}

/* --- executions ------------------------------------------------------------------------------ */

/* Returns the directory that replaces a missing workspace; `out` has PATH_MAX bytes. */
static const char *own_directory(char *out) {
  return getcwd(out, PATH_MAX) != NULL && out[0] == '/' ? out : "/";
}

/* Looks at the names in the root directory if it can, because stat(2) of a file system that hangs
   blocks. */
static bool has_workspace(void) {
  bool found = false;
  DIR *root = opendir("/");
  if (root == NULL)
    return faccessat(AT_FDCWD, EXEC_REQUEST_DIRECTORY, F_OK, 0) == 0;
  for (const struct dirent *entry; !found && (entry = readdir(root)) != NULL;)
    found = strcmp(entry->d_name, &EXEC_REQUEST_DIRECTORY[1]) == 0;
  closedir(root);
  return found;
}

/* The name may end with slashes. */
static bool is_workspace(const char *directory) {
  size_t length = strlen(EXEC_REQUEST_DIRECTORY);
  return strncmp(directory, EXEC_REQUEST_DIRECTORY, length) == 0 &&
         directory[length + strspn(directory + length, "/")] == '\0';
}

/* The secrets of a step are known, and masked in the log, once it is submitted. */
static void run_request(struct request_files_frontend *self, struct exec *exec,
                        struct exec_request *request) {
  char path[PATH_MAX];
  struct request step = {.step = request->step, .user_data = exec};
  struct buffer text = {0};
  if (is_workspace(step.step.working_directory) && !has_workspace()) {
    const char *directory = own_directory(path);
    free(step.step.working_directory);
    step.step.working_directory = memory_copy(directory, strlen(directory));
  }
  if (self->options.verbose) {
    buffer_add_string(&text, ": ");
    exec_request_add_text(request, &text);
  }
  buffer_add(&text, "", 1);
  char *line = memory_format(INBOX_LOG_PREFIX "exec [%s] (timeout=%us, workdir=%s)", exec->id,
                             step.step.timeout_seconds, step.step.working_directory);
  request->step = (struct step){0};
  inbox_set_state(&self->inbox, exec, EXEC_RUNNING);
  self->wanted--;
  self->running++;
  self->running_bytes += (size_t)exec->file.st_size;
  engine_submit(&self->frontend, &step);
  mask_string(self->inbox.log->masker, text.bytes, false); /* before the text is cut */
  log_plain(self->inbox.log, "%s%.2000s", line, text.bytes);
  buffer_release(&text);
  free(line);
}

/* Returns the most bytes of a request that can run now; 0: none can. The engine wants no more
   executions when it leaves: then small requests are only answered. */
static size_t capacity(const struct request_files_frontend *self) {
  if (is_leaving(self))
    return SIZE_MAX;
  if (self->wanted == 0)
    return 0;
  return self->running_bytes == 0 ? SIZE_MAX : payload_limit() - self->running_bytes;
}

static bool may_read(const struct request_files_frontend *self, bool behind) {
  return (self->state == SERVING || (is_leaving(self) && !behind)) &&
         inbox_count(&self->inbox, EXEC_DROPPING, EXEC_ANSWERING) < LOCKED_MAX;
}

/* Writes the oldest requests in this state that can be read now, as inbox_oldest does. If the first
   EXEC_READY one cannot run, the others do not, so that it does not wait forever. */
static size_t find_requests(const struct request_files_frontend *self, enum exec_state state,
                            bool behind, struct exec **out, size_t most) {
  if (!may_read(self, behind) || (state == EXEC_READY && capacity(self) == 0))
    return 0;
  size_t count = inbox_oldest(&self->inbox, state, behind, out, most);
  bool waits = state == EXEC_READY && count > 0 && (size_t)out[0]->file.st_size > capacity(self);
  return waits ? 0 : count;
}

static bool has_request(const struct request_files_frontend *self, bool behind) {
  const struct list *found = &self->inbox.in[behind ? EXEC_BEHIND : EXEC_FOUND];
  struct exec *first;
  return (found->first != NULL && may_read(self, behind)) ||
         find_requests(self, EXEC_READY, behind, &first, 1) > 0;
}

/* Reads a request, and runs it if it is for this agent and is the first that can run. Returns false
   if it does not run. */
static bool read_request(struct request_files_frontend *self, struct exec *exec) {
  struct exec_request request;
  char reason[64];
  bool is_first = exec->state == EXEC_READY || self->inbox.in[EXEC_READY].first == NULL;
  if (exec->state == EXEC_READY && (size_t)exec->file.st_size > capacity(self))
    return false;
  bool is_mine = inbox_claim(&self->inbox, exec, is_first ? capacity(self) : 0, &request);
  if (is_mine && is_leaving(self)) {
    (void)snprintf(reason, sizeof reason, "stopped by %s", engine_leaving(&self->frontend));
    inbox_refuse(&self->inbox, exec, EXECUTION_EXIT_NOT_RUN, reason);
  } else if (is_mine) {
    run_request(self, exec, &request);
  }
  step_release(&request.step);
  return is_mine;
}

static void read_oldest(struct request_files_frontend *self, enum exec_state state) {
  struct exec *oldest[READS_A_TURN];
  size_t count = find_requests(self, state, false, oldest, READS_A_TURN);
  for (size_t i = 0; i < count; i++)
    (void)read_request(self, oldest[i]);
}

static void read_requests(struct request_files_frontend *self) {
  struct exec *exec;
  read_oldest(self, EXEC_READY);
  read_oldest(self, EXEC_FOUND);
  int64_t begin_ms = clock_monotonic_ms();
  if (begin_ms >= self->behind_ms && (find_requests(self, EXEC_READY, true, &exec, 1) > 0 ||
                                      find_requests(self, EXEC_BEHIND, true, &exec, 1) > 0)) {
    int64_t pause = read_request(self, exec) ? 1 : BEHIND_PAUSE;
    int64_t end_ms = clock_monotonic_ms();
    self->behind_ms = end_ms + (end_ms - begin_ms) * pause;
  }
}

static void begin(struct frontend *frontend, struct execution *execution) {
  struct exec *exec = execution_user_data(execution);
  (void)frontend;
  exec->execution = execution;
  engine_start(execution);
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
  } else {
    explain_end(self, end, &message);
    inbox_answer(&self->inbox, exec, end, message.text);
  }
  arm_turn(self);
}

/* --- turns ----------------------------------------------------------------------------------- */

/* Schedules a turn: at once if there is work, after other events; else when a request is due. An
   earlier turn stays, because events must not delay it. */
static void arm_turn(struct request_files_frontend *self) {
  int64_t now_ms = clock_monotonic_ms();
  int64_t due_ms = inbox_due_ms(&self->inbox, self->state == SERVING);
  if (has_request(self, false))
    due_ms = now_ms;
  else if (self->behind_ms < due_ms && has_request(self, true))
    due_ms = self->behind_ms;
  if (self->state == FINISHING && self->finish_ms < due_ms)
    due_ms = self->finish_ms;
  if (due_ms == INT64_MAX || self->state == CLOSED ||
      (evtimer_pending(self->turn, NULL) && self->turn_ms <= due_ms))
    return;
  self->turn_ms = due_ms;
  loop_timer_start(self->turn, due_ms > now_ms ? due_ms - now_ms : 0);
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
  read_requests(self);
  if (self->state == CLOSING && !has_request(self, false))
    close_now(self);
  else
    arm_turn(self);
}

/* --- the directory --------------------------------------------------------------------------- */

static void stop_inotify(struct request_files_frontend *self) {
  if (self->changed != NULL)
    event_free(self->changed);
  descriptor_close(self->inotify);
  self->changed = NULL;
  self->inotify = -1;
}

/* inotify takes only paths. This one leads to the open directory, whatever its name is now. */
static int add_watch(int inotify, int directory, uint32_t mask) {
  char path[64];
  (void)snprintf(path, sizeof path, "/proc/self/fd/%d", directory);
  return inotify_add_watch(inotify, path, mask | IN_ONLYDIR);
}

/* Watches both directories. Changes before that are found by a scan. */
static void start_inotify(struct request_files_frontend *self) {
  const struct ipc_directory *ipc = &self->inbox.ipc;
  stop_inotify(self);
  self->inotify = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
  if (self->inotify >= 0 && (self->top = add_watch(self->inotify, ipc->top, TOP_MASK)) >= 0 &&
      (self->tools = add_watch(self->inotify, ipc->tools, TOOLS_MASK)) >= 0) {
    self->changed =
        loop_event_new(self->base, self->inotify, EV_READ | EV_PERSIST, on_changed, self);
    return;
  }
  log_line(self->inbox.log, LOG_WARN, NULL, "inotify: %s: looking every %d ms instead",
           strerror(errno), SCAN_ALONE_MS);
  stop_inotify(self);
}

/* Returns false if there is no `tools` and it cannot be made. */
static bool find_tools(struct request_files_frontend *self) {
  struct inbox *inbox = &self->inbox;
  struct error error;
  if (ipc_directory_find_tools(&inbox->ipc, &error)) {
    inbox_scan_stop(inbox);
    if (inbox->ipc.tools >= 0)
      start_inotify(self);
    else if (!self->tools_logged)
      log_line(inbox->log, LOG_ERROR, NULL, "cannot open the directory %s/%s",
               self->options.directory, error.text);
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

/* Returns true if all names must be looked at. */
static bool handle_event(struct request_files_frontend *self, const struct inotify_event *event) {
  const char *name = event->len > 0 ? event->name : "";
  if (event->wd == self->top)
    return strcmp(name, IPC_TOOLS) == 0 || strcmp(name, IPC_DONE) == 0;
  if (event->wd == self->tools && self->state == SERVING)
    inbox_changed(&self->inbox, name, (event->mask & (IN_DELETE | IN_MOVED_FROM)) == 0);
  return false;
}

LOOP_CALLBACK(on_changed, struct request_files_frontend *self) {
  _Alignas(struct inotify_event) char bytes[16 * 1024];
  bool scan = false;
  ssize_t length = read(self->inotify, bytes, sizeof bytes);
  for (ssize_t at = 0; at < length;) {
    const struct inotify_event *event = (const void *)(bytes + at);
    scan |= handle_event(self, event);
    at += (ssize_t)sizeof *event + (ssize_t)event->len;
  }
  if (scan && self->state == SERVING)
    look_at_all(self);
  arm_turn(self);
}

LOOP_CALLBACK(on_scan, struct request_files_frontend *self) {
  loop_timer_start(self->scan, self->inotify >= 0 ? SCAN_MS : SCAN_ALONE_MS);
  if (self->state == SERVING)
    look_at_all(self);
  arm_turn(self);
}

/* --- the frontend ----------------------------------------------------------------------------- */

static void start_serving(struct request_files_frontend *self) {
  struct inbox *inbox = &self->inbox;
  struct error error;
  self->state = SERVING;
  bool opened = ipc_directory_open(&inbox->ipc, self->options.directory, &error) == 0;
  if (!opened) {
    log_line(inbox->log, LOG_ERROR, NULL, "%s", error.text);
  } else if (!ipc_directory_is_done(&inbox->ipc)) {
    opened = find_tools(self);
  }
  if (!opened) {
    engine_leave(&self->frontend, AGENT_EXIT_ERROR, "an error of its directory");
    return;
  }
  log_plain(inbox->log, INBOX_LOG_PREFIX "started, watching %s/tools for exec requests",
            self->options.directory);
  on_scan_of(self);
}

static void want(struct frontend *frontend, unsigned requests) {
  struct request_files_frontend *self = self_of(frontend);
  self->wanted = requests > 0 ? self->wanted + requests : 0;
  if (requests == 0 && self->state < LEAVING) {
    self->state = LEAVING;
    inbox_scan_stop(&self->inbox);
  }
  if (requests > 0 && self->state == IDLE)
    start_serving(self);
  arm_turn(self);
}

static void close_frontend(struct frontend *frontend, enum frontend_close how) {
  struct request_files_frontend *self = self_of(frontend);
  if (self->state == CLOSED)
    return;
  self->state = CLOSING;
  if (how == FRONTEND_CLOSE_IMMEDIATE || !has_request(self, false))
    close_now(self);
}

static void dump(const struct frontend *frontend) {
  const struct request_files_frontend *self = (const struct request_files_frontend *)frontend;
  log_line(self->inbox.log, LOG_WARN, NULL,
           "state: frontend files: %s, %zu requests known, %zu to be read, %u running, %s",
           self->options.directory, inbox_count(&self->inbox, EXEC_NEW, EXEC_ANSWERED),
           inbox_count(&self->inbox, EXEC_FOUND, EXEC_BEHIND), self->running,
           self->inotify >= 0 ? "inotify" : "no inotify");
}

static void free_frontend(struct frontend *frontend) {
  struct request_files_frontend *self = self_of(frontend);
  stop_inotify(self);
  inbox_release(&self->inbox);
  env_files_free(self->inbox.rules.env_files);
  event_free(self->turn);
  event_free(self->scan);
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
      .base = base,
      .inotify = -1};
  inbox_init(&self->inbox, log, &options->rules);
  self->inbox.rules.env_files = env_files_new(options->env_files, log);
  self->turn = loop_timer_new(base, on_turn, self);
  self->scan = loop_timer_new(base, on_scan, self);
  return &self->frontend;
}
