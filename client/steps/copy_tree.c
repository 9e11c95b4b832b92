#include "client/steps/copy_tree.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/utf8.h"
#include "client/exit_code.h"
#include "client/redis/json_field.h"
#include "wire/json.h"

/* Returns the path in the sandbox of an entry such as "./a/b/", without a slash at its end. */
static char *path_of(const struct copy_tree *self, const char *name) {
  struct buffer path = {0};
  buffer_add_string(&path, self->remote);
  if (name[2] != '\0' && path.bytes[path.length - 1] != '/')
    buffer_add_string(&path, "/");
  buffer_add_string(&path, name + 2);
  while (path.length > 1 && path.bytes[path.length - 1] == '/')
    path.length--;
  buffer_add(&path, "", 1);
  return path.bytes;
}

static void leave_out(struct copy_tree *self, const char *name, const char *why) {
  self->report->leave_out(self->report->owner, name, why);
}

/* Whether the entry of the last step, which has failed, can be left out: the sandbox still answers.
   */
static bool can_leave_out(const struct copy_tree *self) {
  const struct file_steps *steps = self->steps;
  const int code = steps->answer.code;
  return code > 0 && code <= EXIT_NOT_FOUND && code != EXIT_CLIENT && code != EXIT_TIMED_OUT &&
         !steps->is_lost && steps->exchange.first_signal == 0;
}

/* Leaves out the entry of the last step. Without a reason, it is the step's message. Returns 0, or
   the exit code if the copy ends. */
static int leave_out_failed(struct copy_tree *self, const char *name, const char *why) {
  const struct file_answer *answer = &self->steps->answer;
  if (!can_leave_out(self)) {
    file_steps_complain(self->steps);
    return answer->code;
  }
  why = why != NULL ? why : answer->message;
  leave_out(self, name, why != NULL ? why : "unknown");
  return 0;
}

/* Begins a file. */
static void set_file(struct copy_tree *self, const char *name) {
  free(self->path);
  free(self->name);
  self->path = path_of(self, name);
  self->name = memory_copy(name, strlen(name));
}

static void clear_file(struct copy_tree *self) {
  free(self->path);
  free(self->name);
  self->path = self->name = NULL;
}

/* --- into the sandbox ------------------------------------------------------------------------- */

/* Leaves out an entry that the reader is at. */
static int skip(struct copy_tree *self, const char *name, const char *why) {
  leave_out(self, name, why);
  return TREE_SKIP;
}

static int skip_failed(struct copy_tree *self, const char *name, const char *why) {
  const int code = leave_out_failed(self, name, why);
  return code == 0 ? TREE_SKIP : code;
}

static bool is_text(const char *text) {
  const size_t length = strlen(text);
  return utf8_valid_prefix(text, length) == length;
}

/* Without mkdir, the files make their directories. */
static int make_directory(struct copy_tree *self, const char *name) {
  char *path = path_of(self, name);
  const int code =
      self->lacks_mkdir ? 0 : transfer_run(self->steps, WORDS("mkdir", "-p", "--", path));
  free(path);
  self->lacks_mkdir |= code == EXIT_NOT_FOUND || code == EXIT_NOT_EXECUTABLE;
  if (self->lacks_mkdir)
    return code != 0 ? leave_out_failed(self, "empty directories", NULL) : 0;
  if (code == 0)
    return 0;
  if (name[2] != '\0')
    return skip_failed(self, name, NULL);
  file_steps_complain(self->steps);
  return can_leave_out(self) ? EXIT_FOUND : code;
}

static int begin_sending(struct copy_tree *self, const struct tree_entry *entry) {
  if (transfer_try_size(self->steps, entry->size) != 0)
    return skip_failed(self, entry->name, "a file of more than 25 MiB needs sh, cat, chmod and mv");
  set_file(self, entry->name);
  transfer_out_begin(&self->out, self->steps, self->path);
  self->out.is_quiet = true;
  self->out.has_mode = true;
  self->out.mode = entry->status->st_mode & 0777;
  self->out.replaces = self->replaces;
  return 0;
}

static int on_begin(void *owner, const struct tree_entry *entry) {
  struct copy_tree *self = owner;
  if (!is_text(entry->name))
    return skip(self, entry->name, "its name is not UTF-8");
  if (S_ISDIR(entry->status->st_mode))
    return make_directory(self, entry->name);
  if (entry->link == NULL)
    return begin_sending(self, entry);
  return is_text(entry->link) ? 0 : skip(self, entry->name, "its target is not UTF-8");
}

static void release_file(struct copy_tree *self) {
  if (self->path != NULL)
    transfer_out_release(&self->out);
  clear_file(self);
}

/* The file of the last step, which has failed. */
static int skip_file(struct copy_tree *self) {
  const int code = skip_failed(self, self->name, NULL);
  release_file(self);
  return code;
}

static int on_put(void *owner, const char *bytes, size_t length) {
  struct copy_tree *self = owner;
  self->moved(self->report->owner, length);
  return transfer_put(&self->out, bytes, length) == 0 ? 0 : skip_file(self);
}

static int send_link(struct copy_tree *self, const struct tree_entry *entry, const char *path) {
  const int code = transfer_run(self->steps, WORDS("ln", "-sfn", "--", entry->link, path));
  return code == 0 ? 0 : leave_out_failed(self, entry->name, NULL);
}

static int on_end(void *owner, const struct tree_entry *entry) {
  struct copy_tree *self = owner;
  const mode_t mode = entry->status->st_mode;
  int code = 0;
  if (entry->name[2] == '\0' && self->replaces)
    return 0;
  if (self->path != NULL && transfer_commit(&self->out) != 0)
    return skip_file(self);
  char *path = path_of(self, entry->name);
  if (entry->link != NULL)
    code = send_link(self, entry, path);
  else if (S_ISDIR(mode))
    code = transfer_keep(self->steps, TRANSFER_MODE, mode & TREE_MODE, path, path);
  if (code == 0 && entry->link == NULL)
    code = transfer_keep(self->steps, TRANSFER_MTIME, entry->status->st_mtime, path, path);
  release_file(self);
  free(path);
  return code;
}

int copy_tree_send(struct copy_tree *self, const char *directory) {
  const struct tree_reader reader = {on_begin, on_end, on_put, self, self->report};
  struct error error;
  int code = tree_read(directory, &reader, &error);
  release_file(self);
  if (code >= 0)
    return code;
  file_steps_error(self->steps, "%s", error.text);
  return EXIT_FOUND;
}

/* --- out of the sandbox ----------------------------------------------------------------------- */

static int put_bytes(void *owner, const char *bytes, size_t length) {
  buffer_add(owner, bytes, length);
  return 0;
}

/* Adds the beginning of an entry to the archive. The name of a directory ends with a slash. */
static void put_entry(struct copy_tree *self, struct buffer *bytes, const char *name,
                      const char *link, uint64_t size, const struct stat *status) {
  const struct tar_sink sink = {.put = put_bytes, .owner = bytes};
  const struct tree_entry entry = {name, link, status, size};
  self->size = size;
  self->put = 0;
  (void)tar_begin_entry(&sink, &entry);
}

static void add_directory(struct copy_tree *self, const char *name) {
  self->directories =
      memory_resize(self->directories, (self->directory_count + 1) * sizeof *self->directories);
  self->directories[self->directory_count++] = memory_copy(name, strlen(name));
}

/* Leaves out the entry that the last step could not read, unless it has disappeared. */
static int leave_out_unread(struct copy_tree *self, const char *name) {
  return transfer_is_absent(self->steps) ? 0 : leave_out_failed(self, name, NULL);
}

/* Lists the next directory. */
static int list_directory(struct copy_tree *self) {
  struct file_steps *steps = self->steps;
  struct error ignored;
  free(self->directory);
  self->directory = self->directories[--self->directory_count];
  cJSON_Delete(self->list);
  self->list = NULL;
  self->item = NULL;
  char *path = path_of(self, self->directory);
  file_steps_new(steps, "listFiles");
  int code = file_steps_add(steps, "path", path) ? 0 : EXIT_CLIENT;
  free(path);
  if (code != 0)
    return code;
  step_text_flag(&steps->json, "allEntries", true);
  code = file_steps_do(steps);
  if (code != 0)
    return leave_out_unread(self, self->directory);
  if (steps->notes.length > 0)
    leave_out(self, self->directory, "it has too many entries, or parts are unreadable");
  if (steps->answer.content != NULL)
    self->list = json_tree_parse(steps->answer.content, steps->answer.length, &ignored);
  if (!steps->answer.has_result) {
    file_steps_error(steps, "cannot list %s: another client took the result", self->directory);
    return EXIT_CLIENT;
  }
  if (self->list == NULL)
    leave_out(self, self->directory, "a secret in its list is masked");
  else
    self->item = self->list->child;
  return 0;
}

static void leave_out_rest(struct copy_tree *self, const char *why) {
  char *name = memory_format("the rest of %s", self->name);
  leave_out(self, name, why);
  free(name);
}

/* Adds the first bytes of the current piece that fit into the entry. */
static void put_piece(struct copy_tree *self, struct buffer *bytes) {
  const uint64_t left = self->size - self->put;
  const size_t length = self->in.bytes.length < left ? self->in.bytes.length : (size_t)left;
  buffer_add(bytes, self->in.bytes.bytes, length);
  self->put += length;
  self->state = self->in.bytes.length > 0 ? COPY_TREE_READS : COPY_TREE_FILLS;
  if (self->in.bytes.length == length)
    return;
  leave_out_rest(self, "its size is unknown");
  self->state = COPY_TREE_FILLS;
}

/* Without a status, the entry is only read for the reason why it has none. */
static int begin_file(struct copy_tree *self, const char *name, const struct stat *status,
                      struct buffer *bytes) {
  struct transfer_in *in = &self->in;
  set_file(self, name);
  buffer_release(&in->bytes);
  *in = (struct transfer_in){.steps = self->steps, .path = self->path, .is_quiet = true};
  if (transfer_next(in) != 0)
    return leave_out_unread(self, name);
  if (status == NULL) {
    leave_out(self, name, "its mode is unknown");
    return 0;
  }
  put_entry(self, bytes, name, NULL, in->state == TRANSFER_OVER ? in->bytes.length : in->size,
            status);
  put_piece(self, bytes);
  return 0;
}

static int read_file(struct copy_tree *self, struct buffer *bytes) {
  if (transfer_next(&self->in) == 0) {
    put_piece(self, bytes);
    return 0;
  }
  char *name = memory_format("the rest of %s", self->name);
  const int code = leave_out_failed(self, name, NULL);
  free(name);
  self->state = COPY_TREE_FILLS;
  return code;
}

/* Ends the entry of a file. Zeros replace what is missing, piece by piece. */
static void fill_file(struct copy_tree *self, struct buffer *bytes) {
  const struct tar_sink sink = {.put = put_bytes, .owner = bytes};
  const struct tree_entry entry = {.size = self->size};
  const uint64_t left = self->size - self->put;
  const size_t length = left < TRANSFER_PIECE ? (size_t)left : TRANSFER_PIECE;
  memset(buffer_space(bytes, length), 0, length);
  bytes->length += length;
  self->put += length;
  if (self->put < self->size)
    return;
  (void)tar_end_entry(&sink, &entry, self->put);
  if (self->in.changed != NULL)
    self->report->warn(self->report->owner, self->name, self->in.changed);
  self->state = COPY_TREE_LISTS;
}

/* Adds the next entry of the list, unless it has disappeared meanwhile. An entry that the agent
   cannot examine has no mode: reading it gives the reason. */
static int next_item(struct copy_tree *self, struct buffer *bytes) {
  const cJSON *item = self->item;
  const char *path = json_field_text(item, "path", ""), *slash = strrchr(path, '/');
  const char *mode = json_field_text(item, "mode", NULL),
             *link = json_field_text(item, "link", NULL);
  const char *time = json_field_text(item, "mtime", "");
  const struct event_view view = {.timestamp = time, .timestamp_length = strlen(time)};
  const bool is_directory = link == NULL && json_field_is_true(item, "is_directory");
  struct stat status = {.st_mode = is_directory ? S_IFDIR : S_IFREG};
  struct buffer name = {0};
  int64_t unix_ms = 0;
  int code = 0;
  self->item = item->next;
  (void)event_read_time(&view, &unix_ms);
  status.st_mtime = (time_t)(unix_ms / 1000);
  status.st_mode |= (mode_t)strtoul(mode != NULL ? mode : "", NULL, 8) & TREE_MODE;
  buffer_add_string(&name, self->directory);
  buffer_add_string(&name, slash != NULL ? slash + 1 : path);
  buffer_add(&name, is_directory ? "/" : "", is_directory ? 2 : 1);
  if (strstr(name.bytes, UTF8_REPLACEMENT) != NULL)
    leave_out(self, name.bytes, "its name is not UTF-8");
  else if (mode == NULL || (!is_directory && link == NULL))
    code = begin_file(self, name.bytes, mode != NULL ? &status : NULL, bytes);
  else
    put_entry(self, bytes, name.bytes, link, 0, &status);
  if (is_directory && bytes->length > 0)
    add_directory(self, name.bytes);
  buffer_release(&name);
  return code;
}

int copy_tree_next(struct copy_tree *self, struct buffer *bytes) {
  const struct tar_sink sink = {.put = put_bytes, .owner = bytes};
  int code = 0;
  bytes->length = 0;
  while (code == 0 && bytes->length == 0 && self->state != COPY_TREE_OVER) {
    if (self->state == COPY_TREE_NEW) {
      put_entry(self, bytes, "./", NULL, 0, &self->status);
      add_directory(self, "./");
      self->state = COPY_TREE_LISTS;
    } else if (self->state == COPY_TREE_READS) {
      code = read_file(self, bytes);
    } else if (self->state == COPY_TREE_FILLS) {
      fill_file(self, bytes);
    } else if (self->item != NULL) {
      code = next_item(self, bytes);
    } else if (self->directory_count > 0) {
      code = list_directory(self);
    } else {
      (void)tar_end(&sink);
      self->state = COPY_TREE_OVER;
    }
  }
  return code;
}

void copy_tree_release(struct copy_tree *self) {
  while (self->directory_count > 0)
    free(self->directories[--self->directory_count]);
  free(self->directories);
  free(self->directory);
  clear_file(self);
  cJSON_Delete(self->list);
  buffer_release(&self->in.bytes);
}
