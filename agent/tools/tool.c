#include "agent/tools/tool.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/files/access/path.h"
#include "agent/tools/answer.h"
#include "base/check.h"
#include "base/memory.h"
#include "base/utf8.h"
#include "wire/json.h"

/* --- the tools --- */

#define READ_ONLY "\"readOnlyHint\":true,\"openWorldHint\":false"
#define CHANGES(IDEMPOTENT, OPEN_WORLD)                                                            \
  "\"readOnlyHint\":false,\"destructiveHint\":true,\"idempotentHint\":" IDEMPOTENT                 \
  ",\"openWorldHint\":" OPEN_WORLD

static const struct argument command_arguments[] = {
    {"command", "", ARGUMENT_TEXT, true,
     .description = "The command line for the shell; with args, the program alone."},
    {"args", "args", ARGUMENT_TEXTS, false,
     .description = "Arguments of the program, which is then executed directly, without a shell."},
    {"workdir", "", ARGUMENT_TEXT, false,
     .description = "Working directory. Defaults to the directory of the sandbox."},
    {"timeout", "", ARGUMENT_TIMEOUT, false,
     .description = "Seconds after which the command is ended"},
    {"env", "env", ARGUMENT_TEXTS, false,
     .description = "Environment variables to add, each as NAME=value."},
    {"stdin", "stdin", ARGUMENT_BYTES, false,
     .description = "Text for standard input. Defaults to none."},
};

static const struct argument read_arguments[] = {
    {"path", "path", ARGUMENT_TEXT, true,
     .description = "Path of the file; a relative one begins at the directory of the sandbox."},
    {"offset", "startLine", ARGUMENT_INTEGER, false, .minimum = 1,
     .description = "Number of the first line to return, from 1. Defaults to 1."},
    {"limit", "lineCount", ARGUMENT_INTEGER, false, .minimum = 1,
     .description = "Maximum number of lines to return. Defaults to all."},
};

static const struct argument write_arguments[] = {
    {"path", "path", ARGUMENT_TEXT, true,
     .description = "Path of the file. Missing directories are created."},
    {"content", "content", ARGUMENT_BYTES, true,
     .description = "The whole new content of the file, at most 10 MB."},
};

static const struct argument replacement_arguments[] = {
    {"old_string", "oldString", ARGUMENT_BYTES, true,
     .description = "The exact text to replace, with its white space. It must be in the file once, "
                    "unless replace_all is set."},
    {"new_string", "newString", ARGUMENT_BYTES, true,
     .description = "The text to put in its place; empty to delete it."},
    {"replace_all", "replaceAll", ARGUMENT_FLAG, false,
     .description = "Replace each occurrence. Defaults to false."},
};

static const struct argument_table replacement = ARGUMENT_TABLE(replacement_arguments);

static const struct argument edit_arguments[] = {
    {"path", "path", ARGUMENT_TEXT, true,
     .description = "Path of the file; a relative one begins at the directory of the sandbox."},
    {"edits", "edits", ARGUMENT_OBJECTS, true, .element = &replacement,
     .description =
         "The replacements, applied in this order, each to what the one before has left."},
};

static const struct argument list_arguments[] = {
    {"path", "path", ARGUMENT_TEXT, true, .description = "Path of the directory."},
};

/* In the order of the kind's choices. */
static const char output_modes[][20] = {"content", "files_with_matches", "count", ""};

static const struct argument grep_arguments[] = {
    {"pattern", "pattern", ARGUMENT_TEXT, true,
     .description = "Regular expression (PCRE2), matched against each line."},
    {"path", "path", ARGUMENT_TEXT, false,
     .description = "File or directory to search. Defaults to the directory of the sandbox."},
    {"glob", "glob", ARGUMENT_TEXT, false,
     .description =
         "Files to search, such as '*.c' or 'src/**/*.{ts,tsx}', also in a hidden, ignored "
         "or excluded directory that it names ('.github/**'); '!*.min.js' leaves files "
         "out. Defaults to all."},
    {"search_hidden", "searchHidden", ARGUMENT_FLAG, false,
     .description = "Search hidden files, too, and those that .gitignore and the like leave out. "
                    "Defaults to false."},
    {"output_mode", "outputMode", ARGUMENT_CHOICE, false, .choices = output_modes,
     .description = "content: lines as path:line:text (default); files_with_matches: paths; count: "
                    "path:number of lines."},
    {"head_limit", "headLimit", ARGUMENT_INTEGER, false, .minimum = 1, .maximum = 1000,
     .description = "Maximum number of matches, at most 1000. Defaults to 200."},
    {"context_before", "contextBefore", ARGUMENT_INTEGER, false, .maximum = 100,
     .description = "Number of lines to show before each match, at most 100. Defaults to 0."},
    {"context_after", "contextAfter", ARGUMENT_INTEGER, false, .maximum = 100,
     .description = "Number of lines to show after each match, at most 100. Defaults to 0."},
};

/* The paths in the answer are paths for the other tools. */
#define GREP_FIELDS "{\"prefixPaths\":true,\"searchHidden\":false,\"headLimit\":200}"

static const struct argument tree_arguments[] = {
    {"path", "path", ARGUMENT_TEXT, false,
     .description = "Path of the directory. Defaults to the directory of the sandbox."},
    {"max_depth", "maxDepth", ARGUMENT_INTEGER, false, .minimum = 1, .maximum = 32,
     .description = "Number of levels of directories to show, at most 32. Defaults to 4."},
    {"exclude", "excludeGlobs", ARGUMENT_TEXTS, false,
     .description = "Globs of names to leave out, such as '*.o'."},
};

/* Returns the content of a readFile behind the line with its media type. */
static struct captured_stream body_of(const struct execution_result *result) {
  const struct captured_stream *content = &result->output;
  const char *line = content->length > 0 ? memchr(content->bytes, '\n', content->length) : NULL;
  if (line == NULL)
    return (struct captured_stream){0};
  return (struct captured_stream){.bytes = line + 1,
                                  .length = content->length - (size_t)(line + 1 - content->bytes)};
}

static size_t decoded_length(const struct tool_image *image) {
  size_t padding = 0;
  while (padding < image->length && image->base64[image->length - 1 - padding] == '=')
    padding++;
  return image->length / 4 * 3 - padding;
}

static void answer_read(const struct tool_call *call, const struct execution_result *result,
                        struct buffer *text) {
  struct tool_image image;
  const struct captured_stream body = body_of(result);
  if (tool_call_image(call, result, &image))
    buffer_add_format(text, "(%.*s, %zu bytes: not shown as text)", (int)image.type_length,
                      image.type, decoded_length(&image));
  else
    buffer_add(text, body.bytes, body.length);
}

static void answer_write(const struct tool_call *call, const struct execution_result *result,
                         struct buffer *text) {
  buffer_add_format(text, "Successfully wrote %zu bytes to %s", call->content_length, call->target);
  (void)result;
}

static const struct tool tools[] = {
    {"execute_command", "Execute command",
     "Runs a command line in the shell of the sandbox, or with args a program directly. "
     "Returns stdout, stderr, and the exit code when it is not 0. From a stream of more than 50 KB "
     "the middle is left out, and a line says so.",
     CHANGES("false", "true"), &run_kind, .arguments = ARGUMENT_TABLE(command_arguments)},
    {"read_file", "Read file",
     "Returns the text of a file of at most 1 MB, or with offset or limit lines of a file of any "
     "size, 100 KB at a time. A last line says with which offset to continue. Shows an image (PNG, "
     "JPEG, GIF, WebP) of at most 5 MB.",
     READ_ONLY, &read_file_kind, .arguments = ARGUMENT_TABLE(read_arguments),
     .answer = answer_read},
    {"write_file", "Write file",
     "Creates a file, or replaces its whole content. To change a part, use edit_file.",
     CHANGES("true", "false"), &write_file_kind, .arguments = ARGUMENT_TABLE(write_arguments),
     .answer = answer_write},
    {"edit_file", "Edit file", "Replaces pieces of a text file. All edits are applied, or none.",
     CHANGES("false", "false"), &edit_file_kind, .arguments = ARGUMENT_TABLE(edit_arguments)},
    {"list_directory", "List directory",
     "Lists a directory, hidden entries too: type, size in bytes, name.", READ_ONLY,
     &list_files_kind, .arguments = ARGUMENT_TABLE(list_arguments)},
    {"grep", "Search files",
     "Searches text files for a regular expression. Leaves out hidden and ignored "
     "files, those of more than 1 MB, and directories like .git and node_modules.",
     READ_ONLY, &grep_kind, .fields = GREP_FIELDS, .arguments = ARGUMENT_TABLE(grep_arguments)},
    {"directory_tree", "Directory tree",
     "Shows what is below a directory as a tree, at most 1000 entries. Leaves out "
     "directories like .git and node_modules.",
     READ_ONLY, &directory_tree_kind, .arguments = ARGUMENT_TABLE(tree_arguments)},
};

const struct tool *tool_at(size_t index) {
  return index < sizeof tools / sizeof *tools ? &tools[index] : NULL;
}

const struct tool *tool_find(const char *name) {
  for (size_t i = 0; tool_at(i) != NULL; i++)
    if (strcmp(tools[i].name, name) == 0)
      return &tools[i];
  return NULL;
}

bool tool_is_command(const struct tool *self) {
  return self->kind == &run_kind;
}

/* --- a call: its step --- */

/* Whether the value has $PATH, which a shell would expand. */
static bool has_path(const char *value) {
  for (const char *at = value; (at = strchr(at, '$')) != NULL;) {
    const bool has_brace = *++at == '{';
    const char *name = at + has_brace, *end = name + strlen("PATH");
    if (strncmp(name, "PATH", strlen("PATH")) == 0 && !isalnum((unsigned char)*end) && *end != '_')
      return true;
  }
  return false;
}

static int split_environment(cJSON *list, struct error *error) {
  size_t index = 0;
  if (list == NULL)
    return 0;
  for (cJSON *item = list->child; item != NULL; item = item->next, index++) {
    char *equals = strchr(item->valuestring, '=');
    if (equals == NULL || equals == item->valuestring)
      return error_set(error, "env[%zu]: expected NAME=value", index);
    item->string = item->valuestring;
    item->valuestring = memory_copy(equals + 1, strlen(equals + 1));
    *equals = '\0';
    if (strcmp(item->string, "PATH") == 0 && has_path(equals + 1))
      return error_set(error, "env.PATH: $PATH is not expanded here; name all directories, or set "
                              "PATH in the command line");
  }
  list->type = cJSON_Object;
  return 0;
}

static void use_shell(struct step *step, const char *command_line) {
  struct run_fields *run = step->fields;
  free(run->args);
  run->args = memory_allocate(3 * sizeof *run->args);
  run->args[0] = memory_copy("-c", 2);
  run->args[1] = memory_copy(command_line, strlen(command_line));
  run->args[2] = NULL;
}

static int read_field(const struct step_field *field, cJSON *value, void *place,
                      struct error *error) {
  return field->type->read(field, value, (char *)place + field->offset, error);
}

static int read_fields(const struct tool *tool, cJSON *arguments, struct step *step,
                       struct error *error) {
  static const struct step_field env = STEP_FIELD("env", env, struct step, env);
  const struct step_table *table = &step->kind->table;
  const char *more = tool->fields != NULL ? tool->fields : "{}";
  cJSON *others = json_tree_parse(more, strlen(more), error);
  int result = read_field(&env, argument_get(arguments, env.name), step, error);
  for (size_t i = 0; i < table->count && result == 0; i++) {
    const struct step_field *field = &table->fields[i];
    cJSON *value = argument_get(arguments, field->name);
    result = read_field(field, value != NULL ? value : argument_get(others, field->name),
                        step->fields, error);
  }
  cJSON_Delete(others);
  return result;
}

static const char *text_of(const cJSON *arguments, const char *name, const char *fallback) {
  const cJSON *value = argument_get(arguments, name);
  return value != NULL && value->valuestring[0] != '\0' ? value->valuestring : fallback;
}

static size_t content_length(const cJSON *arguments) {
  const cJSON *content = argument_get(arguments, "content");
  if (content == NULL)
    return 0;
  size_t length = strlen(content->valuestring);
  for (const char *at = content->valuestring; (at = strstr(at, JSON_TREE_NUL)) != NULL; at++)
    length--; /* two bytes for one NUL */
  return length;
}

/* Models send an empty `args` when they mean none, so that it only means "without a shell" if there
   is no shell anyway. */
static int make_step(struct tool_call *self, cJSON *arguments, const struct tool_settings *settings,
                     const char *step_id, struct error *error) {
  const struct tool *tool = self->tool;
  if (argument_table_accept(&tool->arguments, tool->name, "", &settings->limits, arguments,
                            error) != 0)
    return -1;
  bool is_command = tool_is_command(tool);
  const char *target = text_of(arguments, is_command ? "command" : "path", ".");
  const char *directory = text_of(arguments, "workdir", settings->directory);
  const cJSON *args = argument_get(arguments, "args");
  bool is_direct = args != NULL && (args->child != NULL || settings->shell == NULL);
  bool needs_shell = is_command && !is_direct;
  if (needs_shell && settings->shell == NULL)
    return error_set(error,
                     "no shell (bash, sh) in this image; give args to run a program directly");
  if (split_environment(argument_get(arguments, "env"), error) != 0)
    return -1;
  const char *program = needs_shell ? settings->shell : target;
  self->target = memory_copy(program, strlen(program));
  self->directory = memory_copy(directory, strlen(directory));
  self->timeout = argument_timeout(arguments, &settings->limits);
  self->content_length = content_length(arguments);
  bool is_relative = directory[0] != '/';
  char *path = memory_format("%s%s%s", is_relative ? settings->directory : "",
                             is_relative ? "/" : "", directory);
  step_init(&self->step, &tool->kind->wire, step_id, program, path, self->timeout);
  free(path);
  self->step.for_model = !is_command;
  if (read_fields(tool, arguments, &self->step, error) != 0)
    return -1;
  if (is_command && path_is_home(directory))
    ((struct run_fields *)self->step.fields)->home_at = strlen(settings->directory) + 1;
  if (needs_shell)
    use_shell(&self->step, target);
  if (!is_command && !tool->kind->read_only)
    self->changes = path_lexical(self->step.working_directory, self->step.target);
  return 0;
}

struct tool_call *tool_call_new(const struct tool *tool, cJSON *arguments,
                                const struct tool_settings *settings, const char *step_id,
                                struct buffer *text) {
  struct error error;
  struct tool_call *self = memory_allocate(sizeof *self);
  *self = (struct tool_call){.tool = tool};
  if (make_step(self, arguments, settings, step_id, &error) == 0) {
    mask_string(settings->masker, self->target, false);
    mask_string(settings->masker, self->directory, false);
    return self;
  }
  mask_string(settings->masker, error.text, false);
  buffer_add_format(text, TOOL_ERROR "%s", error.text);
  tool_call_free(self);
  return NULL;
}

void tool_call_free(struct tool_call *self) {
  if (self == NULL)
    return;
  step_release(&self->step);
  free(self->target);
  free(self->directory);
  free(self->changes);
  free(self);
}

void tool_call_request(struct tool_call *self, struct request *request) {
  CHECK(self->step.step_id != NULL);
  request->step = self->step;
  self->step = (struct step){0};
}

/* --- a call: its answer --- */

/* The most bytes of a program's or a directory's name that an error repeats. */
#define NAME_SHOWN_MAX 256

static void add_name(struct buffer *text, const char *name) {
  size_t length = strlen(name);
  bool is_long = length > NAME_SHOWN_MAX;
  buffer_add(text, name, is_long ? utf8_cut(name, NAME_SHOWN_MAX) : length);
  buffer_add_string(text, is_long ? "\xE2\x80\xA6" : "");
}

static void answer_not_run(const struct tool_call *self, const struct execution_result *result,
                           struct buffer *text) {
  if (result->outcome == EXECUTION_NOT_FOUND) {
    buffer_add_string(text, TOOL_ERROR "cannot run '");
    add_name(text, self->target);
    buffer_add_string(text, "': No such file or directory");
  } else if (result->outcome == EXECUTION_NO_DIRECTORY &&
             (result->error.code == ENOENT || result->error.code == ENOTDIR)) {
    buffer_add_string(text, TOOL_ERROR "workdir: no such directory: ");
    add_name(text, self->directory);
  } else {
    buffer_add_format(text, TOOL_ERROR "%s", result->error.text);
  }
}

bool tool_call_answer(const struct tool_call *self, const struct execution_result *result,
                      struct buffer *text) {
  if (!execution_result_was_executed(result)) {
    answer_not_run(self, result, text);
    return true;
  }
  if (tool_is_command(self->tool)) {
    answer_command(result, text);
    return !execution_result_is_success(result);
  }
  if (execution_result_is_success(result)) {
    if (self->tool->answer != NULL)
      self->tool->answer(self, result, text);
    else
      buffer_add(text, result->output.bytes, result->output.length);
    return false;
  }
  if (result->outcome == EXECUTION_TIMED_OUT) {
    answer_command(
        &(struct execution_result){.outcome = result->outcome, .exit_code = result->exit_code},
        text);
    return true;
  }
  struct error line;
  const struct captured_stream message = execution_result_message(result, self->timeout, &line);
  buffer_add_string(text, TOOL_ERROR);
  buffer_add(text, message.bytes, message.length);
  return true;
}

bool tool_call_image(const struct tool_call *self, const struct execution_result *result,
                     struct tool_image *image) {
  static const char prefix[] = "image/";
  const struct captured_stream *content = &result->output;
  if (self->tool->answer != answer_read || !execution_result_is_success(result) ||
      content->length < sizeof prefix - 1 || memcmp(content->bytes, prefix, sizeof prefix - 1) != 0)
    return false;
  const struct captured_stream body = body_of(result);
  if (body.bytes == NULL || memchr(body.bytes, '*', body.length) != NULL)
    return false; /* a masked image is not base64 any more */
  *image = (struct tool_image){.type = content->bytes,
                               .type_length = (size_t)(body.bytes - 1 - content->bytes),
                               .base64 = body.bytes,
                               .length = body.length};
  return true;
}
