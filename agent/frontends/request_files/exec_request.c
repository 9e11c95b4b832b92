#include "agent/frontends/request_files/exec_request.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agent/kinds/kind.h"
#include "base/memory.h"
#include "base/utf8.h"
#include "wire/json.h"
#include "wire/step_field.h"

#define MESSAGE_PREFIX "tool-executor: "

bool exec_request_id_is_valid(const char *id) {
  size_t length = strlen(id);
  if (length == 0 || length > EXEC_REQUEST_ID_MAX || utf8_valid_prefix(id, length) != length)
    return false;
  for (size_t i = 0; i < length; i++) {
    unsigned char byte = (unsigned char)id[i];
    unsigned char next = i + 1 < length ? (unsigned char)id[i + 1] : 0;
    if (byte < 0x20 || byte == 0x7F || (byte == 0xC2 && next < 0xA0)) /* U+0080 to U+009F */
      return false;
  }
  return true;
}

/* --- the fields ------------------------------------------------------------------------------ */

/* Nothing is owned. */
struct fields {
  const cJSON *argv;     /* at least one string; NULL: a line for a shell */
  const char *command;   /* not empty if there is no argv */
  const cJSON *args;     /* strings; or NULL */
  const char *directory; /* never NULL */
  struct step_bytes input;
};

/* Returns NULL if the field is absent or null. */
static cJSON *field(const cJSON *root, const char *name) {
  cJSON *value = cJSON_GetObjectItemCaseSensitive(root, name);
  return cJSON_IsNull(value) ? NULL : value;
}

static int check_text(const char *name, const cJSON *value, struct error *error) {
  if (value == NULL)
    return 0;
  if (!cJSON_IsString(value))
    return step_field_reject(name, "a string", value, error);
  return strstr(value->valuestring, JSON_TREE_NUL) != NULL
             ? error_set(error, "%s: expected a string without NUL, got one with it", name)
             : 0;
}

static int check_texts(const char *name, const cJSON *value, struct error *error) {
  if (value == NULL)
    return 0;
  if (!cJSON_IsArray(value))
    return step_field_reject(name, "an array of strings", value, error);
  for (const cJSON *item = value->child; item != NULL; item = item->next)
    if (check_text(name, item, error) != 0)
      return -1;
  return 0;
}

/* Returns the letters of a name, which the caller frees. Case and white space do not count, because
   people write names into manifests. */
static char *letters_of(const char *text) {
  char *letters = memory_zeros(strlen(text) + 1), *end = letters;
  for (; *text != '\0'; text++)
    if (!isspace((unsigned char)*text))
      *end++ = (char)tolower((unsigned char)*text);
  return letters;
}

/* Returns true if the target is this pack. An empty one is any pack. */
static bool is_for(const cJSON *target, const char *pack) {
  char *wanted = letters_of(cJSON_IsString(target) ? target->valuestring : "");
  char *own = letters_of(pack != NULL ? pack : "");
  bool is_it = *wanted == '\0' || *own == '\0' || strcmp(wanted, own) == 0;
  free(wanted);
  free(own);
  return is_it;
}

/* Returns a number, or the value of a string of digits; 0 for anything else. */
static double seconds_of(const cJSON *value) {
  if (cJSON_IsNumber(value))
    return value->valuedouble;
  const char *text = cJSON_IsString(value) ? value->valuestring : "";
  return text[strspn(text, "0123456789")] == '\0' ? strtod(text, NULL) : 0;
}

static unsigned read_timeout(const cJSON *root, const struct exec_request_rules *rules) {
  double seconds = seconds_of(field(root, "timeout"));
  if (!(seconds >= 1))
    seconds = rules->timeout_seconds;
  return seconds < rules->timeout_max_seconds ? (unsigned)seconds : rules->timeout_max_seconds;
}

static int read_command(struct fields *self, const cJSON *root, struct error *error) {
  const cJSON *argv = field(root, "argv");
  if (check_texts("argv", argv, error) != 0)
    return -1;
  if (argv != NULL && argv->child != NULL) {
    if (argv->child->valuestring[0] == '\0')
      return error_set(error, "argv: expected the name of a program, got an empty string");
    self->argv = argv;
    return 0;
  }
  const cJSON *command = field(root, "command");
  self->args = field(root, "args");
  if (check_text("command", command, error) != 0 || check_texts("args", self->args, error) != 0)
    return -1;
  if (command == NULL || command->valuestring[0] == '\0')
    return step_field_reject("command", "a non-empty string", command, error);
  self->command = command->valuestring;
  return 0;
}

/* The input may hold NUL. */
static int read_input(struct fields *self, const cJSON *root, struct error *error) {
  cJSON *input = field(root, "stdin");
  if (input == NULL)
    return 0;
  if (!cJSON_IsString(input))
    return step_field_reject("stdin", "a string", input, error);
  self->input.text = input->valuestring;
  self->input.length = json_tree_unmark_nul(input->valuestring);
  return 0;
}

static int read_directory(struct fields *self, const cJSON *root, const char *fallback,
                          struct error *error) {
  const cJSON *directory = field(root, "workDir");
  if (check_text("workDir", directory, error) != 0)
    return -1;
  if (directory != NULL && directory->valuestring[0] != '\0')
    self->directory = directory->valuestring;
  else
    self->directory = fallback != NULL ? fallback : EXEC_REQUEST_DIRECTORY;
  return 0;
}

static int read_fields(struct fields *self, const cJSON *root,
                       const struct exec_request_rules *rules, struct error *error) {
  const cJSON *target = field(root, "target");
  if (step_field_names_unique(root, "", error) != 0)
    return -1;
  if (target != NULL && !cJSON_IsString(target))
    return step_field_reject("target", "a string", target, error);
  if (read_directory(self, root, rules->directory, error) != 0 ||
      read_command(self, root, error) != 0)
    return -1;
  return read_input(self, root, error);
}

/* --- the step -------------------------------------------------------------------------------- */

static char *copy_text(const char *text) {
  return memory_copy(text, strlen(text));
}

/* Returns the arguments without the name of the program. */
static char **make_arguments(const cJSON *argv) {
  size_t count = 0;
  char **args = memory_allocate((size_t)cJSON_GetArraySize(argv) * sizeof *args);
  for (const cJSON *item = argv->child->next; item != NULL; item = item->next)
    args[count++] = copy_text(item->valuestring);
  args[count] = NULL;
  return args;
}

/* Returns the arguments of a shell, or NULL and the error if there is no shell or it cannot get the
   line. The kernel accepts no argument of more than 32 pages (MAX_ARG_STRLEN), with its NUL. */
static char **make_line(const struct fields *self, const char *shell, struct error *error) {
  const size_t max = 32 * (size_t)sysconf(_SC_PAGESIZE) - 1;
  struct buffer line = {0};
  buffer_add_string(&line, self->command);
  for (const cJSON *item = self->args != NULL ? self->args->child : NULL; item != NULL;
       item = item->next) {
    buffer_add(&line, " ", 1);
    buffer_add_string(&line, item->valuestring);
  }
  if (shell == NULL) {
    (void)error_set(error, "no shell (bash, sh) in this image");
    error->code = EXECUTION_EXIT_NOT_FOUND;
  } else if (line.length > max) {
    (void)error_set(error,
                    "the command line has %zu bytes, and Linux takes at most %zu (%zu KiB): use "
                    "stdin, or a file",
                    line.length, max, (max + 1) / 1024);
    error->code = EXECUTION_EXIT_NOT_EXECUTABLE;
  } else {
    char **args = memory_zeros(3 * sizeof *args);
    args[0] = copy_text("-c");
    args[1] = memory_copy(line.bytes, line.length);
    buffer_release(&line);
    return args;
  }
  buffer_release(&line);
  return NULL;
}

/* The input ends with a line ending, as it does in the reference implementation: tools read
   lines. */
static struct step_bytes make_input(struct step_bytes given) {
  struct buffer input = {0};
  if (given.length == 0)
    return (struct step_bytes){0};
  buffer_add(&input, given.text, given.length);
  buffer_add(&input, "\n", 2); /* with the NUL */
  return (struct step_bytes){.text = input.bytes, .length = input.length - 1};
}

static int make_step(struct exec_request *self, const struct fields *from, const cJSON *root,
                     const char *id, const struct exec_request_rules *rules, struct error *error) {
  self->in_shell = from->argv == NULL;
  char **args = self->in_shell ? make_line(from, rules->shell, error) : make_arguments(from->argv);
  if (args == NULL)
    return -1;
  step_init(&self->step, &run_kind.wire, id,
            self->in_shell ? rules->shell : from->argv->child->valuestring, from->directory,
            read_timeout(root, rules));
  self->step.env = rules->env_files != NULL ? env_files_read(rules->env_files) : NULL;
  *(struct run_fields *)self->step.fields =
      (struct run_fields){.args = args, .input = make_input(from->input)};
  run_kind_set_trace(&self->step, cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(
                                      field(root, "_meta"), "traceparent")));
  return 0;
}

void exec_request_add_text(const struct exec_request *self, struct buffer *out) {
  char *const *args = ((const struct run_fields *)self->step.fields)->args;
  buffer_add_string(out, self->in_shell ? args[1] : self->step.target);
  for (; !self->in_shell && *args != NULL; args++) {
    buffer_add(out, " ", 1);
    buffer_add_string(out, *args);
  }
}

/* --- the text -------------------------------------------------------------------------------- */

static enum request_found read_tree(struct exec_request *self, const cJSON *root, const char *id,
                                    const struct exec_request_rules *rules, struct error *error) {
  const cJSON *own_id = field(root, "id");
  struct fields fields = {0};
  if (!is_for(field(root, "target"), rules->pack))
    return REQUEST_OF_OTHERS;
  self->other_id = cJSON_IsString(own_id) && strcmp(own_id->valuestring, id) != 0;
  return read_fields(&fields, root, rules, error) == 0 &&
                 make_step(self, &fields, root, id, rules, error) == 0
             ? REQUEST_READY
             : REQUEST_REFUSED;
}

enum request_found exec_request_parse(struct exec_request *self, const char *text, size_t length,
                                      const char *id, const struct exec_request_rules *rules,
                                      struct error *error) {
  size_t at;
  struct error reason;
  *self = (struct exec_request){0};
  enum json_text_state state = json_text_object(text, length, &at);
  if (state == JSON_TEXT_SHORT && length == 0)
    (void)error_set(error, "request is not valid JSON: it is empty");
  else if (state == JSON_TEXT_SHORT)
    (void)error_set(error, "request is not valid JSON: it ends too early, after %zu bytes", length);
  else if (state == JSON_TEXT_BROKEN)
    (void)error_set(error, "request is not valid JSON: broken at byte %zu", at);
  if (state != JSON_TEXT_WHOLE)
    return state == JSON_TEXT_SHORT ? REQUEST_SHORT : REQUEST_BROKEN;
  cJSON *root = json_tree_parse(text, length, &reason);
  if (root == NULL) {
    (void)error_set(error, "request is not valid JSON: %s", reason.text);
    return REQUEST_BROKEN;
  }
  enum request_found found = read_tree(self, root, id, rules, error);
  cJSON_Delete(root);
  return found;
}

/* --- the result ------------------------------------------------------------------------------ */

static void add_stream(struct buffer *out, const char *key, struct captured_stream stream,
                       size_t max, const char *message) {
  struct buffer text = {0};
  stream = captured_stream_shown(stream, max);
  if (stream.length > 0)
    buffer_add(&text, stream.bytes, stream.length);
  buffer_add_string(&text, stream.truncated ? EXEC_RESULT_CUT : "");
  if (message[0] != '\0') {
    buffer_add_string(&text, text.length > 0 ? "\n" MESSAGE_PREFIX : MESSAGE_PREFIX);
    buffer_add_string(&text, message);
  }
  buffer_add_string(out, key);
  buffer_add_json(out, text.length > 0 ? text.bytes : "", text.length);
  buffer_release(&text);
}

void exec_request_add_result(const char *id, const struct execution_result *end,
                             const char *message, size_t stream_max, struct buffer *out) {
  buffer_add_string(out, "{\"id\":");
  buffer_add_json(out, id, strlen(id));
  buffer_add_format(out, ",\"exitCode\":%d", end->exit_code);
  add_stream(out, ",\"stdout\":", end->output, stream_max, "");
  add_stream(out, ",\"stderr\":", end->errors, stream_max, message);
  buffer_add_string(out, ",\"timedOut\":");
  buffer_add_string(out, end->outcome == EXECUTION_TIMED_OUT ? "true}\n" : "false}\n");
}
