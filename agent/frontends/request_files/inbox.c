#include "agent/frontends/request_files/inbox.h"

#include <errno.h>
#include <fcntl.h>
#include <search.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agent/engine/engine.h"
#include "agent/frontends/request_files/claims.h"
#include "agent/payload_limit.h"
#include "base/clock.h"
#include "base/descriptor.h"
#include "base/memory.h"
#include "base/printable.h"

/* How long a request that is incomplete, or not JSON, must stay unchanged until it is answered: its
   writer may be slow. */
#define SHORT_MS 5000
#define BROKEN_MS 200

/* When a request that cannot be read or claimed now is tried again. */
#define AGAIN_MS 1000

/* If there is no space for a result: the bytes of each stream that are kept, the time between
   attempts, and their end. */
#define SMALL_STREAM_MAX 4096
#define RETRY_MS 200
#define GIVE_UP_MS 10000

/* A file with more bytes is read behind the others. */
#define READ_SHORT (32 * 1024)

/* So is a file that was read this many times and is still incomplete. */
#define READS_SOON 8

/* The most names of a scan in a turn of the loop, and the most requests that it has not seen. */
#define NAMES_A_TURN 512

/* The most results that are written again in a turn. */
#define ANSWERS_A_TURN 32

/* One of this many scans looks for claims of requests that are gone. */
#define SWEEP_SCANS 10

/* --- the known requests ----------------------------------------------------------------------- */

static int compare_ids(const void *left, const void *right) {
  return strcmp(((const struct exec *)left)->id, ((const struct exec *)right)->id);
}

/* Returns the request; with `make`, adds an EXEC_NEW one if there is none, else returns NULL. */
static struct exec *get(struct inbox *self, const char *id, bool make) {
  const struct exec wanted = {.id = (char *)(uintptr_t)id};
  struct exec *const *found = tfind(&wanted, &self->tree, compare_ids);
  if (found != NULL || !make)
    return found != NULL ? *found : NULL;
  struct exec *exec = memory_allocate(sizeof *exec);
  *exec = (struct exec){.id = memory_copy(id, strlen(id)), .lock = -1};
  if (tsearch(exec, &self->tree, compare_ids) == NULL)
    memory_exhausted("a request");
  list_append(&self->in[EXEC_NEW], &exec->node);
  return exec;
}

static void remove_exec(struct inbox *self, struct exec *exec) {
  (void)tdelete(exec, &self->tree, compare_ids);
  list_remove(&self->in[exec->state], &exec->node);
  descriptor_close(exec->lock);
  buffer_release(&exec->result);
  free(exec->id);
  free(exec);
}

size_t inbox_count(const struct inbox *self, enum exec_state first, enum exec_state last) {
  size_t count = 0;
  for (enum exec_state state = first; state <= last; state++)
    LIST_FOR_EACH (struct exec, exec, &self->in[state], node)
      count++;
  return count;
}

void inbox_set_state(struct inbox *self, struct exec *exec, enum exec_state state) {
  list_remove(&self->in[exec->state], &exec->node);
  list_append(&self->in[state], &exec->node);
  exec->state = state;
}

/* --- the next ones to be read ----------------------------------------------------------------- */

static bool is_behind(const struct exec *exec) {
  return exec->file.st_size > READ_SHORT || exec->reads >= READS_SOON;
}

static bool is_earlier(const struct timespec *a, const struct timespec *b) {
  return a->tv_sec != b->tv_sec ? a->tv_sec < b->tv_sec : a->tv_nsec < b->tv_nsec;
}

static bool is_before(const struct exec *left, const struct exec *right) {
  const struct timespec *a = &left->file.st_mtim, *b = &right->file.st_mtim;
  return is_earlier(a, b) || (!is_earlier(b, a) && compare_ids(left, right) < 0);
}

size_t inbox_oldest(const struct inbox *self, enum exec_state state, bool behind, struct exec **out,
                    size_t most) {
  size_t count = 0;
  LIST_FOR_EACH (struct exec, exec, &self->in[state], node) {
    if ((state == EXEC_READY && is_behind(exec) != behind) ||
        (count == most && !is_before(exec, out[count - 1])))
      continue;
    size_t place = count < most ? count++ : count - 1;
    for (; place > 0 && is_before(exec, out[place - 1]); place--)
      out[place] = out[place - 1];
    out[place] = exec;
  }
  return count;
}

/* --- their files ------------------------------------------------------------------------------ */

static struct ipc_name request_name(const char *id) {
  return ipc_name(EXEC_REQUEST_PREFIX, id, EXEC_SUFFIX);
}

static struct ipc_name result_name(const char *id) {
  return ipc_name(EXEC_RESULT_PREFIX, id, EXEC_SUFFIX);
}

static bool has_request(const struct inbox *self, const char *id) {
  return ipc_directory_has(&self->ipc, request_name(id).text);
}

static bool has_result(const struct inbox *self, const char *id) {
  return ipc_directory_has_file(&self->ipc, result_name(id).text);
}

static bool find_file(const struct inbox *self, const struct exec *exec, struct stat *file) {
  return fstatat(self->ipc.tools, request_name(exec->id).text, file, AT_SYMLINK_NOFOLLOW) == 0;
}

static bool is_like(const struct stat *left, const struct stat *right) {
  return left->st_ino == right->st_ino && left->st_size == right->st_size &&
         left->st_mode == right->st_mode && left->st_ctim.tv_sec == right->st_ctim.tv_sec &&
         left->st_ctim.tv_nsec == right->st_ctim.tv_nsec;
}

static void note_file(struct exec *exec, const struct stat *file) {
  if (!is_like(&exec->file, file))
    exec->since_ms = 0;
  exec->file = *file;
}

/* Marks a request to be read. */
static void mark_request(struct inbox *self, struct exec *exec, const struct stat *file) {
  note_file(exec, file);
  inbox_set_state(self, exec, is_behind(exec) ? EXEC_BEHIND : EXEC_FOUND);
}

static void note_due(struct inbox *self, const struct exec *exec) {
  if (exec->due_ms < self->due_ms)
    self->due_ms = exec->due_ms;
}

/* INT64_MAX: until the file changes. */
static void wait_until(struct inbox *self, struct exec *exec, enum exec_state state,
                       int64_t due_ms) {
  inbox_set_state(self, exec, state);
  exec->due_ms = due_ms;
  note_due(self, exec);
}

void inbox_drop(struct inbox *self, struct exec *exec) {
  struct stat file;
  exec->logged = exec->closed = false;
  exec->reads = 0;
  exec->since_ms = 0;
  if (claims_remove(&self->ipc, exec->id, &exec->lock) != 0)
    wait_until(self, exec, EXEC_DROPPING, clock_monotonic_ms() + AGAIN_MS);
  else if (find_file(self, exec, &file))
    mark_request(self, exec, &file);
  else
    remove_exec(self, exec);
}

/* --- results --------------------------------------------------------------------------------- */

/* Writes the result. Returns 0, or the errno. */
static int write_result(struct inbox *self, struct exec *exec) {
  if (ipc_directory_write(&self->ipc, result_name(exec->id).text, &exec->result) != 0)
    return errno;
  claims_close_answered(&exec->lock);
  log_plain(self->log, INBOX_LOG_PREFIX "done [%s]: exit=%d timed_out=%s", exec->id,
            exec->exit_code, exec->timed_out ? "true" : "false");
  buffer_release(&exec->result);
  inbox_set_state(self, exec, EXEC_ANSWERED);
  return 0;
}

/* If the request is gone, nobody waits for the result. */
void inbox_answer(struct inbox *self, struct exec *exec, const struct execution_result *end,
                  const char *message) {
  if (!has_request(self, exec->id)) {
    inbox_drop(self, exec);
    return;
  }
  exec->exit_code = end->exit_code;
  exec->timed_out = end->outcome == EXECUTION_TIMED_OUT;
  exec->result.length = 0;
  exec_request_add_result(exec->id, end, message, EXEC_RESULT_STREAM_MAX, &exec->result);
  int wrong = write_result(self, exec);
  if (wrong == ENOSPC || wrong == EDQUOT) {
    log_line(self->log, LOG_WARN, NULL, "[%s]: the result is cut: %s", exec->id, strerror(wrong));
    buffer_release(&exec->result);
    exec_request_add_result(exec->id, end, message, SMALL_STREAM_MAX, &exec->result);
    wrong = write_result(self, exec);
  }
  if (wrong == 0)
    return;
  log_line(self->log, LOG_WARN, NULL, "[%s]: the result cannot be written: %s: tried for %d s",
           exec->id, strerror(wrong), GIVE_UP_MS / 1000);
  exec->since_ms = clock_monotonic_ms();
  wait_until(self, exec, EXEC_ANSWERING, exec->since_ms + RETRY_MS);
}

static void answer_again(struct inbox *self, struct exec *exec, bool last) {
  if (!has_request(self, exec->id)) {
    inbox_drop(self, exec);
    return;
  }
  int64_t now_ms = clock_monotonic_ms();
  int wrong = write_result(self, exec);
  if (wrong == 0)
    return;
  wait_until(self, exec, EXEC_ANSWERING, now_ms + RETRY_MS);
  if (!last && now_ms < exec->since_ms + GIVE_UP_MS)
    return;
  log_line(self->log, LOG_ERROR, NULL, "[%s]: the result (exit=%d) is lost: %s", exec->id,
           exec->exit_code, strerror(wrong));
  buffer_release(&exec->result);
  inbox_set_state(self, exec, EXEC_ANSWERED);
  descriptor_close(exec->lock); /* another agent may answer, but does not run it again */
  exec->lock = -1;
}

void inbox_refuse(struct inbox *self, struct exec *exec, int exit_code, const char *reason) {
  struct error masked;
  (void)error_set(&masked, "%s", reason);
  mask_string(self->log->masker, masked.text, false);
  inbox_answer(self, exec,
               &(struct execution_result){.outcome = EXECUTION_NO_PROCESS, .exit_code = exit_code},
               masked.text);
}

/* --- deleted files --------------------------------------------------------------------------- */

/* Removes the claim of a request that is gone, as its result is, unless a living agent runs it.
   Looks again with the lock, because there may be a new request of this name. */
static void remove_old_claim(struct inbox *self, const char *id) {
  int lock = -1;
  (void)claims_take_over(&self->ipc, id, &lock);
  if (lock >= 0 && !has_request(self, id) && !has_result(self, id))
    (void)claims_remove(&self->ipc, id, &lock);
  descriptor_close(lock);
}

/* Ends a request whose file is gone, and whose result is gone if it has one. May free the exec. */
static void end_if_gone(struct inbox *self, struct exec *exec) {
  if (exec->state == EXEC_CANCELLED || has_request(self, exec->id) ||
      (exec->state == EXEC_ANSWERED && has_result(self, exec->id)))
    return;
  if (exec->lock < 0) { /* it is answered, or was never claimed by this agent */
    if (exec->state == EXEC_ANSWERED)
      remove_old_claim(self, exec->id);
    remove_exec(self, exec);
    return;
  }
  if (exec->state != EXEC_RUNNING) {
    inbox_drop(self, exec);
    return;
  }
  log_plain(self->log, INBOX_LOG_PREFIX "cancelled [%s]: its request was deleted", exec->id);
  inbox_set_state(self, exec, EXEC_CANCELLED);
  engine_stop(exec->execution, FILES_GRACE_MS, STEP_CAUSE_CANCELLED, "its request was deleted");
}

/* --- reading a request ----------------------------------------------------------------------- */

/* `file` becomes that of the file, if there is one. Without `behind`, only a short one is read. */
static enum request_found read_file(const struct inbox *self, const char *id, bool behind,
                                    struct stat *file, struct exec_request *request,
                                    struct error *error) {
  const size_t most = payload_limit() < EXEC_REQUEST_MAX ? payload_limit() : EXEC_REQUEST_MAX;
  const size_t max = behind ? most : READ_SHORT;
  const struct ipc_name name = request_name(id);
  struct buffer text = {0};
  enum request_found found = REQUEST_UNREADABLE;
  if (!exec_request_id_is_valid(id)) {
    (void)error_set(error, "its name is no id in UTF-8 without control characters");
    found = has_request(self, id) ? REQUEST_NONE : REQUEST_GONE;
  } else if (ipc_directory_read(&self->ipc, name.text, max, &text, file) == 0) {
    found = exec_request_parse(request, text.length > 0 ? text.bytes : "", text.length, id,
                               &self->rules, error);
  } else if (errno == ENOENT) {
    found = REQUEST_GONE;
  } else if (errno == ENXIO) {
    (void)error_set(error, "it is %s", printable_file_kind(file->st_mode));
    found = REQUEST_NONE;
  } else if (errno == EFBIG && !behind) {
    found = REQUEST_LONG;
  } else if (errno == EFBIG) {
    (void)error_set(error, "request is longer than %zu bytes", max);
    found = REQUEST_REFUSED;
  } else {
    (void)error_set(error, "%s", strerror(errno));
  }
  buffer_release(&text);
  return found;
}

/* Waits for an incomplete file while it changes, and for a time after that. A file that is not JSON
   may be rewritten just now, unless its writer has closed it. Returns false if the time is over. */
static bool wait_for_rest(struct inbox *self, struct exec *exec, enum request_found found,
                          bool closed) {
  if (found != REQUEST_SHORT && (found != REQUEST_BROKEN || closed))
    return false;
  int64_t now_ms = clock_monotonic_ms();
  if (exec->since_ms == 0)
    exec->since_ms = now_ms;
  wait_until(self, exec, EXEC_WAITING,
             exec->since_ms + (found == REQUEST_SHORT ? SHORT_MS : BROKEN_MS));
  return now_ms < exec->due_ms;
}

/* Logs once why a request is set aside, and waits until it is tried again. */
static void set_aside(struct inbox *self, struct exec *exec, int64_t due_ms, const char *how,
                      const char *why) {
  if (!exec->logged)
    log_line(self->log, LOG_WARN, NULL, "[%s] %s: %s%s", exec->id, how, why,
             due_ms != INT64_MAX ? ": tried again" : "");
  exec->logged = true;
  wait_until(self, exec, EXEC_WAITING, due_ms);
}

/* Whether a request of this name is later than the one for which the claim was made, which is
   answered. Its result may be deleted before it is. */
static bool is_later(const struct inbox *self, const struct exec *exec) {
  struct stat file, answered;
  return find_file(self, exec, &file) && fstat(exec->lock, &answered) == 0 &&
         is_earlier(&answered.st_mtim, &file.st_ctim);
}

/* Answers a request that a dead agent has claimed, unless that agent has. */
static void answer_for_dead(struct inbox *self, struct exec *exec) {
  inbox_set_state(self, exec, EXEC_ANSWERED);
  if (has_result(self, exec->id)) /* looks again, because the lock is held now */
    claims_close_answered(&exec->lock);
  else
    inbox_refuse(
        self, exec, EXECUTION_EXIT_NOT_RUN,
        "interrupted: the sidecar ended while this request was running; it was not run again");
}

/* Returns true if the request belongs to this agent now. Otherwise the exec may be freed. Without
   `make`, it only answers for a dead agent. */
static bool claim_request(struct inbox *self, struct exec *exec, bool make) {
  const int64_t again_ms = clock_monotonic_ms() + AGAIN_MS;
  struct stat file;
  enum claim claim = make ? claims_acquire(&self->ipc, exec->id, &exec->lock)
                          : claims_take_over(&self->ipc, exec->id, &exec->lock);
  if (claim == CLAIM_ACQUIRED && find_file(self, exec, &file) && is_like(&file, &exec->file) &&
      !has_result(self, exec->id))
    return true;
  if (claim == CLAIM_ACQUIRED || (claim == CLAIM_ANSWERED && is_later(self, exec))) {
    inbox_drop(self, exec); /* another agent has run it, or an earlier one of this name */
  } else if (claim == CLAIM_OF_DEAD) {
    answer_for_dead(self, exec);
  } else if (claim == CLAIM_REFUSED) {
    set_aside(self, exec, again_ms, "cannot be claimed", strerror(errno));
  } else {
    descriptor_close(exec->lock);
    exec->lock = -1;
    wait_until(self, exec, EXEC_WAITING, again_ms);
  }
  return false;
}

bool inbox_claim(struct inbox *self, struct exec *exec, size_t capacity,
                 struct exec_request *request) {
  struct error error = {.text = ""};
  struct stat file = exec->file;
  const bool behind = exec->state != EXEC_FOUND && is_behind(exec), closed = exec->closed;
  *request = (struct exec_request){0};
  exec->reads++;
  enum request_found found = read_file(self, exec->id, behind, &file, request, &error);
  const bool may_run = found == REQUEST_READY && (size_t)file.st_size <= capacity;
  exec->closed = closed && found == REQUEST_LONG;
  note_file(exec, &file);
  if (found == REQUEST_GONE)
    end_if_gone(self, exec);
  else if (found == REQUEST_LONG) /* it has grown */
    mark_request(self, exec, &file);
  else if (found == REQUEST_OF_OTHERS)
    wait_until(self, exec, EXEC_WAITING, INT64_MAX);
  else if (found == REQUEST_NONE)
    set_aside(self, exec, INT64_MAX, "is ignored", error.text);
  else if (found == REQUEST_UNREADABLE)
    set_aside(self, exec, clock_monotonic_ms() + AGAIN_MS, "cannot be read", error.text);
  else if (wait_for_rest(self, exec, found, closed))
    return false;
  else if (has_result(self, exec->id))
    inbox_set_state(self, exec, EXEC_ANSWERED);
  else if (found == REQUEST_READY && !may_run && !claims_exists(&self->ipc, exec->id))
    inbox_set_state(self, exec, EXEC_READY);
  else if (claim_request(self, exec, found != REQUEST_READY || may_run)) {
    if (request->other_id)
      log_line(self->log, LOG_WARN, NULL, "[%s] has another id inside, which does not count",
               exec->id);
    if (found == REQUEST_READY)
      return true;
    inbox_refuse(self, exec, error.code != 0 ? error.code : EXECUTION_EXIT_NOT_RUN, error.text);
  }
  return false;
}

/* --- new and changed files ------------------------------------------------------------------- */

/* Returns the exec whose request or result has this name; with `make`, adds it. */
static struct exec *exec_of(struct inbox *self, const char *name, const char *prefix, bool make) {
  size_t begin = strlen(prefix), length = strlen(name), suffix = sizeof EXEC_SUFFIX - 1;
  struct ipc_name id = {.text = ""};
  if (length < begin + suffix || memcmp(name, prefix, begin) != 0 ||
      memcmp(name + length - suffix, EXEC_SUFFIX, suffix) != 0)
    return NULL;
  memcpy(id.text, name + begin, length - begin - suffix);
  return get(self, id.text, make);
}

/* A changed request that is not claimed yet is read again. If it waits to be read already, it keeps
   its place. */
void inbox_changed(struct inbox *self, const char *name, bool written) {
  struct stat file;
  struct exec *exec = exec_of(self, name, EXEC_RESULT_PREFIX, false);
  if (exec != NULL)
    end_if_gone(self, exec);
  exec = exec_of(self, name, EXEC_REQUEST_PREFIX, written);
  if (exec == NULL)
    return;
  if (!find_file(self, exec, &file)) {
    end_if_gone(self, exec);
  } else if (written && exec->state <= EXEC_BEHIND) {
    exec->closed = true;
    if (exec->state <= EXEC_READY)
      mark_request(self, exec, &file);
  }
}

static void note_found(struct inbox *self, struct exec *exec) {
  struct stat file;
  exec->seen = self->scans + 1;
  if (exec->state > EXEC_READY || !find_file(self, exec, &file) || is_like(&file, &exec->file))
    return;
  if (exec->state == EXEC_NEW)
    note_file(exec, &file);
  else
    mark_request(self, exec, &file);
}

/* Another agent may have claimed a request that waits for this one, and may be dead. A claim
   without a known request may be old, but a request may be there and not known yet. */
static void note_claim(struct inbox *self, const char *id) {
  struct exec *exec = get(self, id, false);
  if (exec != NULL && exec->state == EXEC_READY)
    mark_request(self, exec, &exec->file);
  else if (exec == NULL && self->scans % SWEEP_SCANS == 0)
    remove_old_claim(self, id);
}

/* --- a scan ---------------------------------------------------------------------------------- */

void inbox_scan_stop(struct inbox *self) {
  if (self->names != NULL)
    closedir(self->names);
  self->names = NULL;
  LIST_FOR_EACH (struct exec, exec, &self->in[EXEC_NEW], node)
    mark_request(self, exec, &exec->file);
}

/* Completes the scan, also if there is no directory. */
static void end_scan(struct inbox *self) {
  inbox_scan_stop(self);
  self->scans++;
  self->due_ms = 0; /* for the requests that it has not seen */
}

void inbox_scan_begin(struct inbox *self) {
  if (self->names != NULL)
    return;
  int fd = openat(self->ipc.tools, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  self->names = fd >= 0 ? fdopendir(fd) : NULL;
  if (self->names == NULL && fd >= 0)
    close(fd);
  if (self->names == NULL)
    end_scan(self);
}

static void scan_names(struct inbox *self) {
  for (int i = 0; i < NAMES_A_TURN && self->names != NULL; i++) {
    const struct dirent *entry = readdir(self->names);
    const char *id = entry != NULL ? claims_id_of(entry->d_name) : NULL;
    struct exec *exec =
        entry != NULL ? exec_of(self, entry->d_name, EXEC_REQUEST_PREFIX, true) : NULL;
    if (entry == NULL)
      end_scan(self);
    else if (exec != NULL)
      note_found(self, exec);
    else if (id != NULL)
      note_claim(self, id);
  }
}

/* --- turns ----------------------------------------------------------------------------------- */

static bool waits_for_time(const struct exec *exec, bool serving) {
  return exec->state == EXEC_DROPPING || exec->state == EXEC_ANSWERING ||
         (exec->state == EXEC_WAITING && serving);
}

static bool is_unseen(const struct inbox *self, const struct exec *exec, bool serving) {
  return serving && exec->seen < self->scans;
}

static void handle_due(struct inbox *self, struct exec *exec) {
  if (exec->state == EXEC_DROPPING) {
    inbox_drop(self, exec);
  } else if (exec->state == EXEC_ANSWERING) {
    answer_again(self, exec, false);
  } else {
    exec->reads = READS_SOON; /* new requests are read first */
    mark_request(self, exec, &exec->file);
  }
}

/* A request that moves to the end of a list may be visited there again, and is not due then. */
void inbox_turn(struct inbox *self, bool serving) {
  int64_t now_ms = clock_monotonic_ms();
  int answers = 0, checks = 0;
  if (serving)
    scan_names(self);
  if (self->due_ms > now_ms)
    return;
  self->due_ms = INT64_MAX;
  for (int state = 0; state < EXEC_STATES; state++)
    LIST_FOR_EACH (struct exec, exec, &self->in[state], node) {
      if (is_unseen(self, exec, serving)) {
        self->due_ms = 0; /* its own time is looked at in the next turn */
        if (checks++ < NAMES_A_TURN) {
          exec->seen = self->scans;
          end_if_gone(self, exec);
        }
      } else if (waits_for_time(exec, serving)) {
        if (exec->due_ms > now_ms || (exec->state != EXEC_WAITING && answers++ >= ANSWERS_A_TURN))
          note_due(self, exec);
        else
          handle_due(self, exec);
      }
    }
}

int64_t inbox_due_ms(const struct inbox *self, bool serving) {
  return serving && self->names != NULL ? 0 : self->due_ms;
}

void inbox_init(struct inbox *self, const struct log *log, const struct exec_request_rules *rules) {
  *self = (struct inbox){.log = log, .rules = *rules, .ipc = IPC_DIRECTORY_NONE};
}

void inbox_close(struct inbox *self) {
  LIST_FOR_EACH (struct exec, exec, &self->in[EXEC_ANSWERING], node)
    answer_again(self, exec, true);
}

void inbox_release(struct inbox *self) {
  inbox_scan_stop(self);
  for (int state = 0; state < EXEC_STATES; state++)
    LIST_FOR_EACH (struct exec, exec, &self->in[state], node)
      remove_exec(self, exec);
  ipc_directory_close(&self->ipc);
}
