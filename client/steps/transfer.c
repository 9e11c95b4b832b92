#include "client/steps/transfer.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/base64.h"
#include "base/memory.h"
#include "base/utf8.h"
#include "client/exit_code.h"
#include "client/redis/json_field.h"
#include "wire/json.h"
#include "wire/step.h"

/* The most bytes of one readBytes, and of one file of writeBytes (wire/PROTOCOL.md), in complete
   pieces. */
#define READ_MAX 4194304
#define PART_MAX ((size_t)26214400 / TRANSFER_PIECE * TRANSFER_PIECE)

/* The mode of a new file. A file that has it needs no chmod. */
#define USUAL_MODE 0644

/* --- out of the sandbox ----------------------------------------------------------------------- */

static int decode(const char *text, struct buffer *bytes) {
  struct base64_reader reader = base64_reader(text, strlen(text));
  ssize_t length;
  while ((length = base64_read(&reader, buffer_space(bytes, 64 * 1024), 64 * 1024)) > 0)
    bytes->length += (size_t)length;
  return length == 0 ? 0 : -1;
}

/* Parses {"size":…,"content":"…"}. */
static int parse_piece(const struct file_answer *answer, uint64_t *size, struct buffer *bytes) {
  struct error ignored;
  cJSON *tree =
      answer->content != NULL ? json_tree_parse(answer->content, answer->length, &ignored) : NULL;
  const double number = json_field_number(tree, "size", -1);
  const cJSON *content = cJSON_GetObjectItemCaseSensitive(tree, "content");
  int result = -1;
  if (number >= 0 && number <= JSON_EXACT_MAX && cJSON_IsString(content)) {
    *size = (uint64_t)number;
    result = decode(content->valuestring, bytes);
  }
  cJSON_Delete(tree);
  return result;
}

/* Makes the last step, which was answered, one that has failed. */
static int fail_read(struct transfer_in *self, int code, const char *why) {
  struct file_answer *answer = &self->steps->answer;
  answer->code = code;
  free(answer->message);
  answer->message = memory_format("cannot read %s: %s", self->path, why);
  return code;
}

static int ask_piece(struct file_steps *steps, const char *path, uint64_t offset, unsigned length) {
  file_steps_new(steps, "readBytes");
  if (!file_steps_add(steps, "path", path))
    return EXIT_CLIENT;
  step_text_number(&steps->json, "offset", offset);
  step_text_number(&steps->json, "length", length);
  return file_steps_do(steps);
}

static int read_piece(struct transfer_in *self, uint64_t *size) {
  int code = ask_piece(self->steps, self->path, self->offset, READ_MAX);
  if (code == 0 && !self->steps->answer.has_result)
    code = fail_read(self, EXIT_CLIENT, "another client took the result");
  else if (code == 0 && parse_piece(&self->steps->answer, size, &self->bytes) != 0)
    code = fail_read(self, EXIT_FOUND, "a secret in it is masked");
  if (code != 0 && !self->is_quiet)
    file_steps_complain(self->steps);
  return code;
}

/* A file without a size, as in /proc, has as its size what was read so far: a complete piece may
   not be the last one. */
int transfer_next(struct transfer_in *self) {
  uint64_t size = 0;
  self->bytes.length = 0;
  if (self->state == TRANSFER_OVER)
    return 0;
  const int code = read_piece(self, &size);
  if (code != 0)
    return code;
  self->offset += self->bytes.length;
  if (self->state == TRANSFER_NEW)
    self->size = size;
  const bool is_full = self->bytes.length == READ_MAX;
  const bool has_size = self->size > READ_MAX || !is_full;
  if (has_size && self->state == TRANSFER_BEGUN && self->offset < self->size && !is_full)
    self->changed = "it became shorter while it was read";
  else if (self->size > READ_MAX && size > self->size)
    self->changed = "it grew while it was read";
  self->state =
      !is_full || (has_size && self->offset >= self->size) ? TRANSFER_OVER : TRANSFER_BEGUN;
  if (has_size && self->size > READ_MAX && self->offset > self->size)
    self->bytes.length -= self->offset - self->size;
  return 0;
}

void transfer_warn(const struct transfer_in *self) {
  if (self->changed != NULL)
    file_steps_error(self->steps, "warning: %s: %s", self->path, self->changed);
}

/* On a terminal, no character is split. */
int transfer_print(struct file_steps *steps, const char *path, bool to_stderr) {
  struct transfer_in in = {.steps = steps, .path = path};
  struct terminal *terminal = &steps->program->terminal;
  const bool is_tty = terminal->is_tty[to_stderr];
  struct buffer rest = {0};
  bool is_over = false;
  int code = 0;
  while (code == 0 && !is_over && (code = transfer_next(&in)) == 0) {
    is_over = in.bytes.length == 0;
    if (!is_over)
      buffer_add(&rest, in.bytes.bytes, in.bytes.length);
    const size_t whole = is_tty && !is_over ? utf8_cut(rest.bytes, rest.length) : rest.length;
    (void)terminal_put(terminal, to_stderr, rest.bytes, whole);
    code = exchange_flush(&steps->exchange);
    rest.length -= whole;
    if (rest.length > 0)
      memmove(rest.bytes, rest.bytes + whole, rest.length);
  }
  if (code == 0)
    transfer_warn(&in);
  buffer_release(&rest);
  buffer_release(&in.bytes);
  return code;
}

static bool has_prefix(const char *text, const char *prefix) {
  return text != NULL && strncmp(text, prefix, strlen(prefix)) == 0;
}

bool transfer_is_absent(const struct file_steps *steps) {
  const struct file_answer *answer = &steps->answer;
  return answer->code == 1 && (has_prefix(answer->message, "file not found") ||
                               has_prefix(answer->message, "directory not found"));
}

int transfer_find_type(struct file_steps *steps, const char *path, enum transfer_type *type) {
  int code = ask_piece(steps, path, 0, 1);
  const char *message = steps->answer.message;
  *type = TRANSFER_FILE;
  if (code == 1 && has_prefix(message, "is a directory"))
    *type = TRANSFER_DIRECTORY;
  else if (transfer_is_absent(steps))
    *type = TRANSFER_ABSENT;
  else if (code != 0)
    file_steps_complain(steps);
  return *type == TRANSFER_FILE ? code : 0;
}

/* --- commands in the sandbox ------------------------------------------------------------------ */

char *transfer_beside(const char *path, const char *name) {
  const char *slash = strrchr(path, '/');
  struct buffer text = {0};
  buffer_add(&text, path, slash != NULL ? (size_t)(slash + 1 - path) : 0);
  buffer_add(&text, name, strlen(name) + 1);
  return text.bytes;
}

int transfer_run(struct file_steps *steps, const char *const *words) {
  file_steps_new(steps, "run");
  step_text_string(&steps->json, "command", words[0]);
  step_text_strings(&steps->json, "args", words + 1);
  step_text_number(&steps->json, "timeoutSeconds", STEP_TIMEOUT_MAX_SECONDS);
  return file_steps_do(steps);
}

int transfer_code(int code) {
  const bool is_own = code > 0 && code <= EXIT_NOT_FOUND;
  return is_own && code != EXIT_TIMED_OUT && code != EXIT_CLIENT ? EXIT_FOUND : code;
}

int transfer_run_loudly(struct file_steps *steps, const char *const *words) {
  int code = transfer_run(steps, words);
  file_steps_complain(steps);
  return transfer_code(code);
}

int transfer_keep(struct file_steps *steps, enum transfer_property property, long long value,
                  const char *path, const char *name) {
  const bool is_mode = property == TRANSFER_MODE;
  char text[32];
  if (steps->lacks[property])
    return 0;
  (void)snprintf(text, sizeof text, is_mode ? "%llo" : "@%lld", value);
  int code = transfer_run(steps, is_mode ? WORDS("chmod", "--", text, path)
                                         : WORDS("touch", "-c", "-d", text, "--", path));
  const char *message = steps->answer.message;
  const bool is_error = code < 0 || code == EXIT_CLIENT || code >= 128;
  steps->lacks[property] = code == EXIT_NOT_FOUND || code == EXIT_NOT_EXECUTABLE;
  steps->has_wrong_mode |= is_mode && code != 0 && !steps->lacks[property];
  if (is_error)
    file_steps_complain(steps);
  else if (code != 0)
    file_steps_error(steps, "the %s of %s is not kept: %s", is_mode ? "mode" : "time", name,
                     message != NULL ? message : "unknown");
  return is_error ? code : 0;
}

void transfer_clean_up(struct file_steps *steps, const char *const *words, const char *const *paths,
                       size_t count) {
  int code = EXIT_CLIENT;
  if (!steps->is_lost) {
    steps->exchange.policy = EXCHANGE_IS_CLEANING;
    code = transfer_run(steps, words);
    steps->exchange.policy = EXCHANGE_CLEANS_UP;
  }
  for (size_t i = 0; i < count && code != 0; i++)
    file_steps_error(steps, "may be left in the sandbox: %s", paths[i]);
}

void transfer_remove(struct file_steps *steps, const char *path, const char *other) {
  transfer_clean_up(steps, WORDS("rm", "-rf", "--", path, other), WORDS(path, other), 2);
}

/* --- into the sandbox ------------------------------------------------------------------------- */

void transfer_out_begin(struct transfer_out *self, struct file_steps *steps, const char *path) {
  char id[STEP_ID_SIZE], name[64];
  step_id_make(id);
  *self = (struct transfer_out){.steps = steps, .path = path};
  (void)snprintf(name, sizeof name, ".sandbox-%.8s.part", id);
  self->part = transfer_beside(path, name);
  (void)snprintf(name, sizeof name, ".sandbox-%.8s.whole", id);
  self->whole = transfer_beside(path, name);
}

/* Appends to the part, unless it is new, and then renames it if a name is given. */
static int write_bytes(struct transfer_out *self, const char *bytes, size_t length,
                       const char *rename_to) {
  struct file_steps *steps = self->steps;
  file_steps_new(steps, "writeBytes");
  if (!file_steps_add(steps, "path", self->part) ||
      (rename_to != NULL && !file_steps_add(steps, "renameTo", rename_to)))
    return EXIT_CLIENT;
  if (self->writes > 0)
    step_text_flag(&steps->json, "append", true);
  buffer_add_string(&steps->json, ",\"content\":\"");
  if (length > 0)
    buffer_add_base64(&steps->json, bytes, length);
  buffer_add_string(&steps->json, "\"");
  self->state = OUT_BEGUN;
  self->writes++;
  return file_steps_do(steps);
}

static int write_loudly(struct transfer_out *self, const char *bytes, size_t length,
                        const char *rename_to) {
  int code = write_bytes(self, bytes, length, rename_to);
  if (!self->is_quiet)
    file_steps_complain(self->steps);
  return code;
}

/* A private file gets its mode before its content, together with the bits that the next steps need.
   A file that lacks these bits gets its mode when it is complete. */
#define PART_BITS 0600
static int begin_part(struct transfer_out *self) {
  const mode_t mode = self->mode | PART_BITS;
  if (!self->has_mode || mode == USUAL_MODE || self->steps->lacks[TRANSFER_MODE])
    return 0;
  int code = write_loudly(self, "", 0, NULL);
  return code == 0 ? transfer_keep(self->steps, TRANSFER_MODE, mode, self->part, self->path) : code;
}

static int send_piece(struct transfer_out *self, const char *rename_to) {
  int code = self->writes > 0 ? 0 : begin_part(self);
  if (code == 0)
    code = write_loudly(self, self->piece.bytes, self->piece.length, rename_to);
  self->part_size += self->piece.length;
  self->piece.length = 0;
  return code;
}

int transfer_try_size(struct file_steps *steps, uint64_t size) {
  static const char script[] = "command -v cat && command -v chmod && command -v mv";
  return size > PART_MAX ? transfer_run(steps, WORDS("sh", "-c", script)) : 0;
}

static int run_in_copy(struct transfer_out *self, const char *const *words) {
  const int code = transfer_run(self->steps, words);
  if (!self->is_quiet)
    file_steps_complain(self->steps);
  return transfer_code(code);
}

static int append_part_to_whole(struct transfer_out *self) {
  self->parts++;
  self->writes = 0;
  self->part_size = 0;
  return run_in_copy(self, WORDS("sh", "-c", "umask 077; cat \"$1\" >> \"$2\" && rm -f -- \"$1\"",
                                 "sh", self->part, self->whole));
}

/* Works like writeBytes: follows a link, and keeps the owner of the replaced file, and its mode
   unless another one is requested. If the owner cannot be kept, it writes into the file. */
static int rename_whole(struct transfer_out *self) {
  static const char script[] =
      "t=$(readlink -f -- \"$2\" 2>/dev/null) || t=$2\n"
      "if [ -d \"$t\" ]; then echo \"is a directory: $2\"; exit 1; fi\n"
      "if [ -e \"$t\" ] && [ ! -f \"$t\" ]; then\n"
      "  echo \"is not a regular file: $2\"; exit 1\n"
      "fi\n"
      "o=$(stat -c %u:%g -- \"$t\" 2>/dev/null)\n"
      "if [ -n \"$o\" ] && [ \"$o\" != \"$(stat -c %u:%g -- \"$1\")\" ] &&\n"
      "  ! chown \"$o\" \"$1\" 2>/dev/null; then\n"
      "  cat \"$1\" >\"$t\" && rm -f -- \"$1\"; exit\n"
      "fi\n"
      "m=${3:-$(stat -L -c %a -- \"$t\" 2>/dev/null || echo 644)}\n"
      "chmod \"$m\" \"$1\" && mv -f -- \"$1\" \"$t\"";
  char mode[16] = "";
  if (self->has_mode)
    (void)snprintf(mode, sizeof mode, "%o", (unsigned)self->mode);
  return run_in_copy(self, WORDS("sh", "-c", script, "sh", self->whole, self->path, mode));
}

int transfer_put(struct transfer_out *self, const char *bytes, size_t length) {
  int code = 0;
  while (length > 0 && code == 0) {
    if (self->piece.length == TRANSFER_PIECE)
      code = send_piece(self, NULL);
    if (self->part_size == PART_MAX && code == 0)
      code = append_part_to_whole(self);
    const size_t capacity = TRANSFER_PIECE - self->piece.length;
    const size_t count = length < capacity ? length : capacity;
    buffer_add(&self->piece, bytes, count);
    bytes += count;
    length -= count;
  }
  return code;
}

/* The step with the last piece also renames the file. */
int transfer_commit(struct transfer_out *self) {
  const bool is_large = self->parts > 0;
  int code = send_piece(self, is_large ? NULL : self->path);
  if (is_large) {
    code = code == 0 ? append_part_to_whole(self) : code;
    code = code == 0 ? rename_whole(self) : code;
  }
  if (code == 0)
    self->state = OUT_COMMITTED;
  const bool is_incomplete = self->replaces || (!is_large && (self->mode & PART_BITS) != PART_BITS);
  return code == 0 && self->has_mode && is_incomplete
             ? transfer_keep(self->steps, TRANSFER_MODE, self->mode, self->path, self->path)
             : code;
}

/* A writeBytes that cannot rename its file removes it: the sandbox may have no rm. */
void transfer_out_release(struct transfer_out *self) {
  if (self->state == OUT_BEGUN && self->parts > 0) {
    transfer_remove(self->steps, self->part, self->whole);
  } else if (self->state == OUT_BEGUN) {
    self->steps->exchange.policy = EXCHANGE_IS_CLEANING;
    if (self->steps->is_lost || write_bytes(self, "", 0, "/") != 1)
      file_steps_error(self->steps, "may be left in the sandbox: %s", self->part);
    self->steps->exchange.policy = EXCHANGE_CLEANS_UP;
  }
  buffer_release(&self->piece);
  free(self->part);
  free(self->whole);
}
