#include "agent/frontends/request_files/inbox.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agent/engine/engine.h"
#include "agent/payload_limit.h"
#include "base/check.h"
#include "base/clock.h"
#include "base/memory.h"
#include "base/printable.h"

/* How long a request that is incomplete, or not JSON, must stay unchanged until it is answered: its
   writer may be slow. */
#define SHORT_MS 5000
#define BROKEN_MS 200

/* If there is no space for a result: the bytes of each stream that are kept, the time between
   attempts, and their end. */
#define SMALL_STREAM_MAX 4096
#define RETRY_MS 200
#define GIVE_UP_MS 10000

/* The most files of up to READ_SHORT bytes that are read in a turn of the loop. */
#define READS_A_TURN 32
#define READ_SHORT (32 * 1024)

/* A file that was read this many times and is still incomplete is read behind the others. */
#define READS_SOON 8

/* After an EXEC_BEHIND was read there is a pause, so that other work is not delayed in every turn:
   as long as reading it took, and this many times as long if there is nothing to run. */
#define BEHIND_PAUSE 4

/* The most names of a scan in a turn of the loop; a name of a claim costs several system calls. */
#define NAMES_A_TURN 512

#define FIRST_CAPACITY 16

/* One of this many scans looks for claims and locks of dead agents. */
#define SWEEP_SCANS 10

/* --- the known requests ----------------------------------------------------------------------- */

/* Returns the index of the id, or the index at which it would be inserted. */
static size_t place_of(const struct inbox *self, const char *id) {
  size_t low = 0, high = self->count;
  while (low < high) {
    size_t middle = low + (high - low) / 2;
    if (strcmp(self->execs[middle]->id, id) < 0)
      low = middle + 1;
    else
      high = middle;
  }
  return low;
}

/* Returns the request; with `make`, adds an EXEC_NEW one if there is none, else returns NULL. */
static struct exec *get(struct inbox *self, const char *id, bool make) {
  size_t place = place_of(self, id);
  if (place < self->count && strcmp(self->execs[place]->id, id) == 0)
    return self->execs[place];
  if (!make)
    return NULL;
  if (self->count == self->capacity) {
    self->capacity = self->capacity > 0 ? self->capacity * 2 : FIRST_CAPACITY;
    self->execs = memory_resize(self->execs, self->capacity * sizeof(struct exec *));
  }
  struct exec **gap = self->execs + place;
  memmove(gap + 1, gap, (self->count - place) * sizeof(struct exec *));
  self->count++;
  self->in[EXEC_NEW]++;
  *gap = memory_allocate(sizeof **gap);
  **gap = (struct exec){.id = memory_copy(id, strlen(id))};
  return *gap;
}

void inbox_set_state(struct inbox *self, struct exec *exec, enum exec_state state) {
  self->in[exec->state]--;
  self->in[state]++;
  exec->state = state;
}

static void free_exec(struct exec *exec) {
  buffer_release(&exec->result);
  free(exec->id);
  free(exec);
}

static void remove_exec(struct inbox *self, struct exec *exec) {
  size_t place = place_of(self, exec->id);
  CHECK(place < self->count && self->execs[place] == exec);
  struct exec **gap = self->execs + place;
  self->count--;
  self->in[exec->state]--;
  memmove(gap, gap + 1, (self->count - place) * sizeof(struct exec *));
  free_exec(exec);
}

static bool is_older(const struct exec *left, const struct exec *right) {
  const struct timespec *a = &left->file.st_mtim, *b = &right->file.st_mtim;
  if (left->round != right->round)
    return left->round < right->round;
  return a->tv_sec != b->tv_sec ? a->tv_sec < b->tv_sec : a->tv_nsec < b->tv_nsec;
}

/* Writes at most `most` requests in this state, in the order of inbox_first. Returns their number,
   in one pass. */
static size_t find_oldest(const struct inbox *self, enum exec_state state, struct exec **out,
                          size_t most) {
  size_t count = 0;
  for (size_t i = 0; i < self->count && self->in[state] > 0; i++) {
    struct exec *exec = self->execs[i];
    if (exec->state != state || (count == most && !is_older(exec, out[count - 1])))
      continue;
    size_t place = count < most ? count++ : count - 1;
    for (; place > 0 && is_older(exec, out[place - 1]); place--)
      out[place] = out[place - 1];
    out[place] = exec;
  }
  return count;
}

struct exec *inbox_first(const struct inbox *self, enum exec_state state) {
  struct exec *first;
  return find_oldest(self, state, &first, 1) > 0 ? first : NULL;
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

/* Marks a request to be read after the scan `round`. */
static void mark_request(struct inbox *self, struct exec *exec, const struct stat *file,
                         uint64_t round) {
  bool behind = file->st_size > READ_SHORT || exec->reads >= READS_SOON;
  inbox_set_state(self, exec, behind ? EXEC_BEHIND : EXEC_FOUND);
  exec->round = round;
  note_file(exec, file);
}

void inbox_drop(struct inbox *self, struct exec *exec) {
  struct stat file;
  claims_drop(&self->claims, exec->id);
  exec->elsewhere = exec->logged = exec->closed = false;
  exec->reads = 0;
  exec->since_ms = 0;
  if (find_file(self, exec, &file))
    mark_request(self, exec, &file, self->scans);
  else
    remove_exec(self, exec);
}

/* --- results --------------------------------------------------------------------------------- */

/* Writes the result. Returns 0, or the errno. */
static int write_result(struct inbox *self, struct exec *exec) {
  if (ipc_directory_write(&self->ipc, claims_make_name(&self->claims).text,
                          result_name(exec->id).text, &exec->result) != 0)
    return errno;
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
  inbox_set_state(self, exec, EXEC_ANSWERING);
  exec->since_ms = clock_monotonic_ms();
  exec->due_ms = exec->since_ms + RETRY_MS;
}

static void answer_again(struct inbox *self, struct exec *exec, bool last) {
  if (!has_request(self, exec->id)) {
    inbox_drop(self, exec);
    return;
  }
  int64_t now_ms = clock_monotonic_ms();
  int wrong = write_result(self, exec);
  exec->due_ms = now_ms + RETRY_MS;
  if (wrong == 0 || (!last && now_ms < exec->since_ms + GIVE_UP_MS))
    return;
  log_line(self->log, LOG_ERROR, NULL, "[%s]: the result (exit=%d) is lost: %s", exec->id,
           exec->exit_code, strerror(wrong));
  buffer_release(&exec->result);
  inbox_set_state(self, exec, EXEC_ANSWERED); /* the claim stays, so it never runs again */
}

void inbox_refuse(struct inbox *self, struct exec *exec, int exit_code, const char *reason) {
  struct error masked;
  (void)error_set(&masked, "%s", reason);
  mask_string(self->log->masker, masked.text, false);
  inbox_answer(self, exec,
               &(struct execution_result){.outcome = EXECUTION_NO_PROCESS, .exit_code = exit_code},
               masked.text);
}

/* --- reading a request ----------------------------------------------------------------------- */

static enum request_found read_file(struct inbox *self, const char *id, struct stat *file,
                                    struct exec_request *request, struct error *error) {
  const size_t max = payload_limit() < EXEC_REQUEST_MAX ? payload_limit() : EXEC_REQUEST_MAX;
  const struct ipc_name name = request_name(id);
  if (!exec_request_id_is_valid(id)) {
    (void)error_set(error, "its name is no id in UTF-8 without control characters");
    return ipc_directory_has(&self->ipc, name.text) ? REQUEST_NONE : REQUEST_GONE;
  }
  self->text.length = 0;
  if (ipc_directory_read(&self->ipc, name.text, max, &self->text, file) == 0)
    return exec_request_parse(request, self->text.length > 0 ? self->text.bytes : "",
                              self->text.length, id, &self->rules, error);
  switch (errno) {
  case ENOENT:
    return REQUEST_GONE;
  case ENXIO:
    (void)error_set(error, "it is %s", printable_file_kind(file->st_mode));
    return REQUEST_NONE;
  case EFBIG:
    (void)error_set(error, "request is longer than %zu bytes", max);
    return REQUEST_REFUSED;
  default:
    (void)error_set(error, "%s", strerror(errno));
    return REQUEST_UNREADABLE;
  }
}

enum request_found inbox_read(struct inbox *self, struct exec *exec, struct exec_request *request,
                              struct error *error) {
  struct stat file = exec->file;
  *request = (struct exec_request){0};
  error->text[0] = '\0';
  enum request_found found = read_file(self, exec->id, &file, request, error);
  note_file(exec, &file);
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
  exec->due_ms = exec->since_ms + (found == REQUEST_SHORT ? SHORT_MS : BROKEN_MS);
  if (now_ms >= exec->due_ms)
    return false;
  inbox_set_state(self, exec, EXEC_WAITING);
  return true;
}

/* Sets a state and logs the reason once; not if `how` is NULL. */
static void set_aside(struct inbox *self, struct exec *exec, enum exec_state state, const char *how,
                      const char *why) {
  if (how != NULL && !exec->logged) {
    log_line(self->log, LOG_WARN, NULL, "[%s] %s: %s%s", exec->id, how, why,
             state == EXEC_REFUSED ? ": tried again" : "");
    exec->logged = true;
  }
  inbox_set_state(self, exec, state);
}

/* Handles a request that another process has claimed. Answers it if that was an agent and is
   dead. */
static void check_foreign_claim(struct inbox *self, struct exec *exec) {
  int lock;
  bool answered = has_result(self, exec->id);
  inbox_set_state(self, exec, answered ? EXEC_ANSWERED : EXEC_FOREIGN);
  if (answered)
    return;
  switch (claims_owner(&self->claims, exec->id, &lock)) {
  case CLAIM_OF_DEAD:
    if (!has_result(self, exec->id)) /* again, because the lock is held now */
      inbox_refuse(
          self, exec, EXECUTION_EXIT_NOT_RUN,
          "interrupted: the sidecar ended while this request was running; it was not run again");
    break;
  case CLAIM_OF_SELF: /* of a cancelled request of this name, which could not be removed then */
    claims_drop(&self->claims, exec->id);
    inbox_set_state(self, exec, EXEC_NEW);
    break;
  case CLAIM_OF_NOBODY:
    inbox_set_state(self, exec, EXEC_NEW);
    break;
  case CLAIM_OF_SCRIPT:
  case CLAIM_OF_AGENT:
    break;
  }
  ipc_directory_close_entry(lock);
}

/* Returns true if the request belongs to this agent now. Otherwise the exec may be freed. */
static bool claim_request(struct inbox *self, struct exec *exec) {
  if (has_result(self, exec->id)) {
    inbox_set_state(self, exec, EXEC_ANSWERED);
    return false;
  }
  switch (claims_acquire(&self->claims, exec->id)) {
  case CLAIM_ACQUIRED:
    if (has_request(self, exec->id) && !has_result(self, exec->id))
      return true;
    inbox_drop(self, exec); /* another agent was faster, and has finished */
    break;
  case CLAIM_FOREIGN:
    check_foreign_claim(self, exec);
    break;
  case CLAIM_REFUSED:
    set_aside(self, exec, EXEC_REFUSED, "cannot be claimed", strerror(errno));
    break;
  }
  return false;
}

static void queue_claimed(struct inbox *self, struct exec *exec, const struct exec_request *request,
                          enum request_found found, const struct error *error) {
  if (request->other_id)
    log_line(self->log, LOG_WARN, NULL, "[%s] has another id inside, which does not count",
             exec->id);
  if (found != REQUEST_READY) {
    inbox_refuse(self, exec, EXECUTION_EXIT_NOT_RUN, error->text);
    return;
  }
  exec->round = 0;
  inbox_set_state(self, exec, EXEC_QUEUED);
}

/* Reads a marked request and decides what happens with it. May free the exec. */
static void read_request(struct inbox *self, struct exec *exec) {
  struct exec_request request;
  struct error error;
  bool closed = exec->closed;
  exec->closed = false;
  exec->reads++;
  enum request_found found = inbox_read(self, exec, &request, &error);
  if (found == REQUEST_GONE)
    remove_exec(self, exec);
  else if (found == REQUEST_OF_OTHERS || found == REQUEST_NONE)
    set_aside(self, exec, EXEC_OTHERS, found == REQUEST_NONE ? "is ignored" : NULL, error.text);
  else if (found == REQUEST_UNREADABLE)
    set_aside(self, exec, EXEC_REFUSED, "cannot be read", error.text);
  else if (!wait_for_rest(self, exec, found, closed) && claim_request(self, exec))
    queue_claimed(self, exec, &request, found, &error);
  exec_request_release(&request);
}

/* Files that the current scan has found are read when the scan is complete. */
static bool is_due(const struct inbox *self, const struct exec *exec) {
  return exec->round <= self->scans;
}

static void read_one_behind(struct inbox *self) {
  int64_t begin_ms = clock_monotonic_ms();
  size_t queued = self->in[EXEC_QUEUED];
  struct exec *exec = begin_ms >= self->behind_ms ? inbox_first(self, EXEC_BEHIND) : NULL;
  if (exec == NULL || !is_due(self, exec))
    return;
  read_request(self, exec);
  int64_t end_ms = clock_monotonic_ms();
  int64_t share = self->in[EXEC_QUEUED] > queued ? 1 : BEHIND_PAUSE;
  self->behind_ms = end_ms + (end_ms - begin_ms) * share;
}

static void read_requests(struct inbox *self) {
  struct exec *found[READS_A_TURN];
  size_t count = find_oldest(self, EXEC_FOUND, found, READS_A_TURN);
  for (size_t i = 0; i < count && is_due(self, found[i]); i++)
    read_request(self, found[i]);
  read_one_behind(self);
}

/* --- deleted files --------------------------------------------------------------------------- */

/* Ends a request whose file is gone, and whose result is gone if it has one. May free the exec. */
static void end_if_gone(struct inbox *self, struct exec *exec) {
  if (exec->state == EXEC_CANCELLED || has_request(self, exec->id) ||
      (exec->state == EXEC_ANSWERED && has_result(self, exec->id)))
    return;
  if (exec->state <= EXEC_FOREIGN) { /* was never claimed by this agent */
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

/* A changed request that is not claimed yet is read again, at its old place if it had one. */
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
    if (exec->state <= EXEC_REFUSED)
      mark_request(self, exec, &file, self->scans);
    else if (exec->round > self->scans)
      exec->round = self->scans;
  }
}

/* Marks a request to be read after this scan. */
static void note_found(struct inbox *self, struct exec *exec) {
  struct stat file;
  bool was_read = exec->state == EXEC_WAITING || exec->state == EXEC_OTHERS;
  exec->seen = self->scans + 1;
  if (exec->state == EXEC_FOREIGN)
    check_foreign_claim(self, exec);
  else if (exec->state <= EXEC_REFUSED && find_file(self, exec, &file) &&
           !(was_read && is_like(&file, &exec->file)))
    mark_request(self, exec, &file, self->scans + 1);
}

static bool is_sweep(const struct inbox *self) {
  return self->scans % SWEEP_SCANS == 0;
}

/* Removes a claim whose request and result are gone, and files of dead agents. A request may be
   there and not known yet. */
static void sweep_name(struct inbox *self, const char *name) {
  const char *id = claims_sweep_name(&self->claims, name);
  if (id != NULL && get(self, id, false) == NULL && !has_request(self, id) && !has_result(self, id))
    claims_drop(&self->claims, id);
}

/* --- a scan ---------------------------------------------------------------------------------- */

void inbox_scan_stop(struct inbox *self) {
  if (self->names != NULL)
    closedir(self->names);
  self->names = NULL;
}

/* Completes the scan, also if there is no directory. */
static void end_scan(struct inbox *self) {
  inbox_scan_stop(self);
  if (is_sweep(self))
    claims_sweep_end(&self->claims);
  self->scans++;
  self->unseen = self->count;
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
    struct exec *exec =
        entry != NULL ? exec_of(self, entry->d_name, EXEC_REQUEST_PREFIX, true) : NULL;
    if (entry == NULL)
      end_scan(self);
    else if (exec != NULL)
      note_found(self, exec);
    else if (is_sweep(self))
      sweep_name(self, entry->d_name);
  }
}

/* Goes from the end to the start, because a removal moves the entries after it. An entry that moves
   past this place meanwhile is found by the next scan. */
static void end_unseen(struct inbox *self) {
  for (int i = 0; i < NAMES_A_TURN && self->unseen > 0; i++) {
    if (self->unseen > self->count)
      self->unseen = self->count;
    else if (self->execs[--self->unseen]->seen != self->scans)
      end_if_gone(self, self->execs[self->unseen]);
  }
}

/* --- turns ----------------------------------------------------------------------------------- */

static bool waits_for_time(const struct exec *exec, bool serving) {
  return exec->state == EXEC_ANSWERING || (exec->state == EXEC_WAITING && serving);
}

static void handle_due(struct inbox *self, bool serving) {
  int64_t now_ms = clock_monotonic_ms();
  int answers = 0;
  for (size_t i = self->count; i > 0; i--) {
    struct exec *exec = self->execs[i - 1];
    if (!waits_for_time(exec, serving) || exec->due_ms > now_ms)
      continue;
    if (exec->state == EXEC_WAITING) {
      exec->reads = READS_SOON; /* new requests are read first */
      mark_request(self, exec, &exec->file, self->scans);
    } else if (answers++ < INBOX_ANSWERS_A_TURN) {
      answer_again(self, exec, false);
    }
  }
}

void inbox_turn(struct inbox *self, bool serving) {
  if (serving) {
    scan_names(self);
    end_unseen(self);
  }
  handle_due(self, serving);
  if (serving)
    read_requests(self);
}

int64_t inbox_due_ms(const struct inbox *self, bool serving) {
  if (serving && (self->names != NULL || self->unseen > 0 || self->in[EXEC_FOUND] > 0))
    return 0;
  int64_t due_ms = serving && self->in[EXEC_BEHIND] > 0 ? self->behind_ms : INT64_MAX;
  for (size_t i = 0; i < self->count; i++) {
    const struct exec *exec = self->execs[i];
    if (waits_for_time(exec, serving) && exec->due_ms < due_ms)
      due_ms = exec->due_ms;
  }
  return due_ms;
}

void inbox_init(struct inbox *self, const struct log *log, const struct exec_request_rules *rules) {
  *self =
      (struct inbox){.log = log, .rules = *rules, .ipc = IPC_DIRECTORY_NONE, .claims = CLAIMS_NONE};
}

void inbox_close(struct inbox *self) {
  for (size_t i = self->count; i > 0; i--)
    if (self->execs[i - 1]->state == EXEC_ANSWERING)
      answer_again(self, self->execs[i - 1], true);
  claims_close(&self->claims);
}

void inbox_release(struct inbox *self) {
  inbox_scan_stop(self);
  buffer_release(&self->text);
  claims_close(&self->claims);
  ipc_directory_close(&self->ipc);
  for (size_t i = 0; i < self->count; i++)
    free_exec(self->execs[i]);
  free(self->execs);
}
