#include "client/steps/transfer.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/base64.h"
#include "base/memory.h"
#include "base/utf8.h"
#include "client/exit_code.h"
#include "wire/json.h"

/* Bytes of one readBytes, and of one file that writeBytes makes (wire/PROTOCOL.md); whole
   pieces. */
#define READ_MAX 4194304
#define PART_MAX ((size_t)26214400 / TRANSFER_PIECE * TRANSFER_PIECE)

/* What a new file has where nothing else is said; so a file with this mode needs no chmod. */
#define USUAL_MODE 0644

/* --- out -------------------------------------------------------------------------------------- */

static int decode(const char *text, struct buffer *bytes) {
  struct base64_reader reader = base64_reader(text, strlen(text));
  ssize_t length;
  while ((length = base64_read(&reader, buffer_space(bytes, 64 * 1024), 64 * 1024)) > 0)
    bytes->length += (size_t)length;
  return length == 0 ? 0 : -1;
}

/* {"size":…,"content":"…"} */
static int read_piece(const struct file_answer *answer, uint64_t *size, struct buffer *bytes) {
  struct error ignored;
  cJSON *tree =
      answer->content != NULL ? json_tree_parse(answer->content, answer->length, &ignored) : NULL;
  const cJSON *number = cJSON_GetObjectItemCaseSensitive(tree, "size");
  const cJSON *content = cJSON_GetObjectItemCaseSensitive(tree, "content");
  int result = -1;
  if (cJSON_IsNumber(number) && cJSON_IsString(content) && number->valuedouble >= 0 &&
      number->valuedouble <= JSON_EXACT_MAX) {
    *size = (uint64_t)number->valuedouble;
    result = decode(content->valuestring, bytes);
  }
  cJSON_Delete(tree);
  return result;
}

static int ask_piece(struct file_steps *steps, const char *path, uint64_t offset, unsigned length,
                     struct file_answer *answer) {
  file_steps_new(steps, "readBytes");
  *answer = (struct file_answer){.code = EXIT_CLIENT};
  if (!file_steps_add(steps, "path", path))
    return EXIT_CLIENT;
  step_text_number(&steps->json, "offset", offset);
  step_text_number(&steps->json, "length", length);
  return file_steps_do(steps, answer);
}

/* Of what has no size, as in /proc, `size` is what was read so far: a piece that is full may not be
   the last. */
int transfer_next(struct transfer_in *self) {
  uint64_t size = 0;
  self->bytes.length = 0;
  file_answer_release(&self->answer);
  if (self->is_over)
    return 0;
  const char *failed = NULL;
  int code = ask_piece(self->steps, self->path, self->offset, READ_MAX, &self->answer);
  if (code != 0)
    file_steps_complain(self->steps, &self->answer);
  else if (!self->answer.is_known)
    failed = "somebody else took the result";
  else if (read_piece(&self->answer, &size, &self->bytes) != 0)
    failed = "a secret in it is masked";
  if (code != 0 || failed != NULL) {
    if (failed != NULL)
      file_steps_error(self->steps, "cannot read %s: %s", self->path, failed);
    return code != 0 ? code : EXIT_CLIENT;
  }
  self->offset += self->bytes.length;
  if (!self->is_begun)
    self->size = size;
  bool has_size = self->size > READ_MAX || self->bytes.length < READ_MAX;
  if (has_size && self->is_begun && self->offset < self->size && self->bytes.length < READ_MAX) {
    file_steps_error(self->steps, "became shorter while it was read: %s", self->path);
    return EXIT_CLIENT;
  }
  self->is_begun = true;
  self->is_over = self->bytes.length < READ_MAX || (has_size && self->offset >= self->size);
  if (has_size && self->size > READ_MAX && self->offset > self->size)
    self->bytes.length -= self->offset - self->size;
  return 0;
}

void transfer_in_release(struct transfer_in *self) {
  buffer_release(&self->bytes);
  file_answer_release(&self->answer);
}

/* A terminal is given whole characters. */
int transfer_print(struct file_steps *steps, const char *path, bool to_stderr) {
  struct transfer_in in = {.steps = steps, .path = path};
  struct terminal *terminal = &steps->program->terminal;
  const bool is_tty = to_stderr ? terminal->err_is_tty : terminal->out_is_tty;
  struct buffer rest = {0};
  bool is_over = false;
  int code = 0;
  while (code == 0 && !is_over && (code = transfer_next(&in)) == 0) {
    is_over = in.bytes.length == 0;
    if (!is_over)
      buffer_add(&rest, in.bytes.bytes, in.bytes.length);
    const size_t whole = is_tty && !is_over ? utf8_cut(rest.bytes, rest.length) : rest.length;
    if (whole > 0 && terminal_put(terminal, to_stderr, rest.bytes, whole) != 0)
      code = 128 + SIGPIPE;
    if (terminal_flush(terminal) != 0)
      code = 128 + SIGPIPE;
    rest.length -= whole;
    if (rest.length > 0)
      memmove(rest.bytes, rest.bytes + whole, rest.length);
  }
  buffer_release(&rest);
  transfer_in_release(&in);
  return code;
}

static bool begins(const char *text, const char *with) {
  return text != NULL && strncmp(text, with, strlen(with)) == 0;
}

int transfer_look(struct file_steps *steps, const char *path, enum transfer_type *type) {
  struct file_answer answer;
  int code = ask_piece(steps, path, 0, 1, &answer);
  if (code == 0)
    *type = TRANSFER_FILE;
  else if (code == 1 && begins(answer.message, "is a directory"))
    *type = TRANSFER_DIRECTORY;
  else if (code == 1 && begins(answer.message, "file not found"))
    *type = TRANSFER_ABSENT;
  else
    file_steps_complain(steps, &answer);
  bool is_known = code == 0 || (code == 1 && (begins(answer.message, "is a directory") ||
                                              begins(answer.message, "file not found")));
  file_answer_release(&answer);
  return is_known ? 0 : code;
}

/* --- beside ----------------------------------------------------------------------------------- */

char *transfer_beside(const char *path, const char *name) {
  const char *slash = strrchr(path, '/');
  struct buffer text = {0};
  buffer_add(&text, path, slash != NULL ? (size_t)(slash + 1 - path) : 0);
  buffer_add(&text, name, strlen(name) + 1);
  return text.bytes;
}

int transfer_run(struct file_steps *steps, const char *const *words, struct file_answer *answer) {
  size_t count = 0;
  while (words[count] != NULL)
    count++;
  file_steps_new(steps, "run");
  step_text_string(&steps->json, "command", words[0]);
  step_text_strings(&steps->json, "args", (char *const *)(uintptr_t)(words + 1), count - 1);
  return file_steps_do(steps, answer);
}

int transfer_run_loudly(struct file_steps *steps, const char *const *words) {
  struct file_answer answer;
  int code = transfer_run(steps, words, &answer);
  if (code != 0)
    file_steps_complain(steps, &answer);
  file_answer_release(&answer);
  return code;
}

void transfer_remove(struct file_steps *steps, const char *const *paths, size_t count) {
  const char *words[12] = {"rm", "-rf", "--"};
  struct file_answer answer;
  for (size_t i = 0; i < count; i++)
    words[3 + i] = paths[i];
  int code = EXIT_CLIENT;
  if (!steps->is_lost) {
    steps->exchange.is_tidying = true;
    code = transfer_run(steps, words, &answer);
    steps->exchange.is_tidying = false;
    file_answer_release(&answer);
  }
  for (size_t i = 0; i < count && code != 0; i++)
    file_steps_error(steps, "may be left in the sandbox: %s", paths[i]);
}

/* --- into ------------------------------------------------------------------------------------- */

void transfer_out_begin(struct transfer_out *self, struct file_steps *steps, const char *path) {
  char id[STEP_ID_SIZE], name[64];
  step_id_make(id);
  *self = (struct transfer_out){.steps = steps, .path = path};
  (void)snprintf(name, sizeof name, ".sandbox-%.8s.part", id);
  self->part = transfer_beside(path, name);
  (void)snprintf(name, sizeof name, ".sandbox-%.8s.whole", id);
  self->whole = transfer_beside(path, name);
}

/* One writeBytes: of the bytes, which may be none, and with them the name when that is not NULL. */
static int send_bytes(struct transfer_out *self, const char *bytes, size_t length,
                      const char *rename_to, bool append, struct file_answer *answer) {
  struct file_steps *steps = self->steps;
  file_steps_new(steps, "writeBytes");
  *answer = (struct file_answer){.code = EXIT_CLIENT};
  if (!file_steps_add(steps, "path", self->part) ||
      (rename_to != NULL && !file_steps_add(steps, "renameTo", rename_to)))
    return EXIT_CLIENT;
  if (append)
    step_text_flag(&steps->json, "append", 1);
  buffer_add_string(&steps->json, ",\"content\":\"");
  if (length > 0)
    buffer_add_base64(&steps->json, bytes, length);
  buffer_add_string(&steps->json, "\"");
  return file_steps_do(steps, answer);
}

static int send_loudly(struct transfer_out *self, const char *bytes, size_t length,
                       const char *rename_to, bool append) {
  struct file_answer answer;
  self->is_begun = self->has_part = true;
  int code = send_bytes(self, bytes, length, rename_to, append, &answer);
  if (code != 0)
    file_steps_complain(self->steps, &answer);
  file_answer_release(&answer);
  return code;
}

static int set_mode(struct transfer_out *self, const char *path) {
  struct file_answer answer;
  char mode[16];
  (void)snprintf(mode, sizeof mode, "%o", (unsigned)self->mode);
  int code = transfer_run(self->steps, WORDS("chmod", "--", mode, path), &answer);
  bool goes_on = code == 0 || (code > 0 && code != EXIT_CLIENT && code < 128);
  if (!goes_on)
    file_steps_complain(self->steps, &answer);
  else if (code != 0 && !self->has_warned)
    file_steps_error(self->steps, "the mode of %s is not kept: %s", self->path,
                     answer.message != NULL ? answer.message : "chmod");
  self->has_warned |= code != 0;
  file_answer_release(&answer);
  return goes_on ? 0 : code;
}

/* A file that is not for everybody is not for a moment. */
static int begin_part(struct transfer_out *self) {
  if (self->mode == 0 || self->mode == USUAL_MODE || self->has_warned)
    return 0;
  int code = send_loudly(self, "", 0, NULL, false);
  return code == 0 ? set_mode(self, self->part) : code;
}

static int send_piece(struct transfer_out *self, const char *rename_to) {
  int code = self->has_part ? 0 : begin_part(self);
  if (code == 0)
    code = send_loudly(self, self->piece.bytes, self->piece.length, rename_to, self->has_part);
  self->part_size += self->piece.length;
  self->total += self->piece.length;
  self->piece.length = 0;
  return code;
}

/* What is in the part goes to the whole. */
static int collect_part(struct transfer_out *self) {
  self->is_large = true;
  self->has_part = false;
  self->part_size = 0;
  return transfer_run_loudly(self->steps,
                             WORDS("sh", "-c", "umask 077; cat \"$1\" >> \"$2\" && rm -f -- \"$1\"",
                                   "sh", self->part, self->whole));
}

/* As writeBytes does: a link stays, and so does the mode of what is replaced, where none is asked
   for. */
static int name_whole(struct transfer_out *self) {
  static const char script[] = "t=$(readlink -f -- \"$2\" 2>/dev/null) || t=$2\n"
                               "if [ -d \"$t\" ]; then echo \"is a directory: $2\"; exit 1; fi\n"
                               "if [ -e \"$t\" ] && [ ! -f \"$t\" ]; then\n"
                               "  echo \"is not a regular file: $2\"; exit 1\n"
                               "fi\n"
                               "m=${3:-$(stat -L -c %a -- \"$t\" 2>/dev/null || echo 644)}\n"
                               "chmod \"$m\" \"$1\" && mv -f -- \"$1\" \"$t\"";
  char mode[16] = "";
  if (self->mode != 0)
    (void)snprintf(mode, sizeof mode, "%o", (unsigned)self->mode);
  return transfer_run_loudly(self->steps,
                             WORDS("sh", "-c", script, "sh", self->whole, self->path, mode));
}

int transfer_put(struct transfer_out *self, const char *bytes, size_t length) {
  int code = 0;
  while (length > 0 && code == 0) {
    if (self->piece.length == TRANSFER_PIECE)
      code = send_piece(self, NULL);
    if (self->part_size == PART_MAX && code == 0)
      code = collect_part(self);
    const size_t capacity = TRANSFER_PIECE - self->piece.length;
    const size_t count = length < capacity ? length : capacity;
    buffer_add(&self->piece, bytes, count);
    bytes += count;
    length -= count;
  }
  return code;
}

/* The last piece brings the name. */
int transfer_commit(struct transfer_out *self) {
  int code;
  if (!self->is_large) {
    code = send_piece(self, self->path);
    self->is_committed = code == 0;
    if (code == 0 && self->replaces && self->mode != 0)
      code = set_mode(self, self->path);
  } else {
    code = send_piece(self, NULL);
    code = code == 0 ? collect_part(self) : code;
    code = code == 0 ? name_whole(self) : code;
    self->is_committed = code == 0;
  }
  return code;
}

/* A writeBytes that cannot name its file removes it, also where the sandbox has no rm. */
void transfer_out_release(struct transfer_out *self) {
  struct file_answer answer = {0};
  if (self->is_begun && !self->is_committed) {
    const char *const paths[] = {self->part, self->whole};
    self->steps->exchange.is_tidying = true;
    if (self->is_large)
      transfer_remove(self->steps, paths, 2);
    else if (self->steps->is_lost || send_bytes(self, "", 0, "/", true, &answer) != 1)
      file_steps_error(self->steps, "may be left in the sandbox: %s", self->part);
    self->steps->exchange.is_tidying = false;
  }
  file_answer_release(&answer);
  buffer_release(&self->piece);
  free(self->part);
  free(self->whole);
}
