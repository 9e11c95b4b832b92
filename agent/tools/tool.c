#include "agent/tools/tool.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/kinds/kind.h"
#include "agent/kinds/run.h"
#include "agent/tools/answer.h"
#include "agent/tools/text_page.h"
#include "base/check.h"
#include "base/memory.h"
#include "base/utf8.h"
#include "wire/json_tree.h"

struct tool_call {
  const struct tool *tool;
  struct step step; /* all zeros after tool_call_request */
  unsigned timeout;
  char *target;    /* the step's: program or path, as given */
  char *directory; /* `workdir` as given, else that of the settings */
  size_t content_length;
  uint64_t offset, limit; /* of read_file; 0 when absent */
};

/* --- the tools --- */

#define READ_ONLY "\"readOnlyHint\":true,\"openWorldHint\":false"
#define CHANGES(IDEMPOTENT, OPEN_WORLD)                                                            \
  "\"readOnlyHint\":false,\"destructiveHint\":true,\"idempotentHint\":" IDEMPOTENT                 \
  ",\"openWorldHint\":" OPEN_WORLD

static const struct argument command_arguments[] = {
    {.name = "command",
     .type = ARGUMENT_TEXT,
     .required = true,
     .description = "The command line for the shell; with args, the program alone."},
    {.name = "args",
     .type = ARGUMENT_TEXTS,
     .description = "Arguments of the program, which is then executed directly, without a shell.",
     .wire = "args"},
    {.name = "workdir",
     .type = ARGUMENT_TEXT,
     .description = "Working directory. Defaults to the directory of the sandbox."},
    {.name = "timeout",
     .type = ARGUMENT_TIMEOUT,
     .description = "Seconds after which the command is ended"},
    {.name = "env",
     .type = ARGUMENT_TEXTS,
     .description = "Environment variables to add, each as NAME=value.",
     .wire = "env"},
    {.name = "stdin",
     .type = ARGUMENT_BYTES,
     .description = "Text for standard input. Defaults to none.",
     .wire = "stdin"},
};

static const struct argument read_arguments[] = {
    {.name = "path",
     .type = ARGUMENT_TEXT,
     .required = true,
     .description = "Path of the file; a relative one begins at the directory of the sandbox.",
     .wire = "path"},
    {.name = "offset",
     .type = ARGUMENT_INTEGER,
     .minimum = 1,
     .description = "Number of the first line to return, from 1. Defaults to 1."},
    {.name = "limit",
     .type = ARGUMENT_INTEGER,
     .minimum = 1,
     .description = "Maximum number of lines to return. Defaults to all."},
};

static const struct argument write_arguments[] = {
    {.name = "path",
     .type = ARGUMENT_TEXT,
     .required = true,
     .description = "Path of the file. Missing directories are created.",
     .wire = "path"},
    {.name = "content",
     .type = ARGUMENT_BYTES,
     .required = true,
     .description = "The whole new content of the file, at most 10 MB.",
     .wire = "content"},
};

static const struct argument replacement_arguments[] = {
    {.name = "old_string",
     .type = ARGUMENT_BYTES,
     .required = true,
     .description = "The exact text to replace, with its white space. It must be in the file once, "
                    "unless replace_all is set.",
     .wire = "oldString"},
    {.name = "new_string",
     .type = ARGUMENT_BYTES,
     .required = true,
     .description = "The text to put in its place; empty to delete it.",
     .wire = "newString"},
    {.name = "replace_all",
     .type = ARGUMENT_FLAG,
     .description = "Replace each occurrence. Defaults to false.",
     .wire = "replaceAll"},
};

static const struct argument_table replacement = ARGUMENT_TABLE(replacement_arguments);

static const struct argument edit_arguments[] = {
    {.name = "path",
     .type = ARGUMENT_TEXT,
     .required = true,
     .description = "Path of the file; a relative one begins at the directory of the sandbox.",
     .wire = "path"},
    {.name = "edits",
     .type = ARGUMENT_OBJECTS,
     .required = true,
     .description =
         "The replacements, applied in this order, each to what the one before has left.",
     .wire = "edits",
     .element = &replacement},
};

static const struct argument list_arguments[] = {
    {.name = "path",
     .type = ARGUMENT_TEXT,
     .required = true,
     .description = "Path of the directory.",
     .wire = "path"},
};

static const struct argument_choice output_modes[] = {{"content", "content"},
                                                      {"files_with_matches", "filesWithMatches"},
                                                      {"count", "count"},
                                                      {"", ""}};

static const struct argument grep_arguments[] = {
    {.name = "pattern",
     .type = ARGUMENT_TEXT,
     .required = true,
     .description = "Regular expression (PCRE2), matched against each line.",
     .wire = "pattern"},
    {.name = "path",
     .type = ARGUMENT_TEXT,
     .description = "File or directory to search. Defaults to the directory of the sandbox.",
     .wire = "path"},
    {.name = "glob",
     .type = ARGUMENT_TEXT,
     .description =
         "Files to search, such as '*.c' or 'src/**/*.{ts,tsx}'; '!*.min.js' leaves files out. "
         "Defaults to all.",
     .wire = "glob"},
    {.name = "search_hidden",
     .type = ARGUMENT_FLAG,
     .description = "Search hidden files, too, and those that .gitignore and the like leave out. "
                    "Defaults to false.",
     .wire = "searchHidden",
     .has_fallback = true},
    {.name = "output_mode",
     .type = ARGUMENT_CHOICE,
     .description = "content: lines as path:line:text (default); files_with_matches: paths; count: "
                    "path:number of lines.",
     .wire = "outputMode",
     .choices = output_modes},
    {.name = "head_limit",
     .type = ARGUMENT_INTEGER,
     .minimum = 1,
     .maximum = 1000,
     .description = "Maximum number of matches. Defaults to 200.",
     .wire = "headLimit",
     .has_fallback = true,
     .fallback = 200},
    {.name = "context_before",
     .type = ARGUMENT_INTEGER,
     .maximum = 100,
     .description = "Number of lines to show before each match. Defaults to 0.",
     .wire = "contextBefore"},
    {.name = "context_after",
     .type = ARGUMENT_INTEGER,
     .maximum = 100,
     .description = "Number of lines to show after each match. Defaults to 0.",
     .wire = "contextAfter"},
};

static const struct argument tree_arguments[] = {
    {.name = "path",
     .type = ARGUMENT_TEXT,
     .description = "Path of the directory. Defaults to the directory of the sandbox.",
     .wire = "path"},
    {.name = "max_depth",
     .type = ARGUMENT_INTEGER,
     .minimum = 1,
     .maximum = 32,
     .description = "Number of levels of directories to show. Defaults to 4.",
     .wire = "maxDepth"},
    {.name = "exclude",
     .type = ARGUMENT_TEXTS,
     .description = "Globs of names to leave out, such as '*.o'.",
     .wire = "excludeGlobs"},
};

static void add_error(struct buffer *text, const char *reason, size_t length) {
  buffer_add_string(text, TOOL_ERROR);
  buffer_add(text, reason, length);
}

static size_t decoded_length(const struct tool_image *image) {
  size_t padding = 0;
  while (padding < image->length && image->base64[image->length - 1 - padding] == '=')
    padding++;
  return image->length / 4 * 3 - padding;
}

static bool answer_read(const struct tool_call *call, const struct run_end *end,
                        struct buffer *text) {
  struct error error;
  struct tool_image image;
  if (tool_call_image(call, end, &image)) {
    answer_image(image.type, image.type_length, decoded_length(&image), text);
    return false;
  }
  const struct run_stream body = answer_body(end);
  if (text_page_add(body.bytes, body.length, call->offset, call->limit, text, &error) == 0)
    return false;
  add_error(text, error.text, strlen(error.text));
  return true;
}

static bool answer_write(const struct tool_call *call, const struct run_end *end,
                         struct buffer *text) {
  buffer_add_string(text, "Successfully wrote ");
  buffer_add_number(text, call->content_length);
  buffer_add_string(text, " bytes to ");
  buffer_add_string(text, call->target);
  (void)end;
  return false;
}

static bool answer_content(const struct tool_call *call, const struct run_end *end,
                           struct buffer *text) {
  (void)call;
  buffer_add(text, end->output.bytes, end->output.length);
  return false;
}

static const struct tool tools[] = {
    {.name = "execute_command",
     .title = "Execute command",
     .description =
         "Runs a command line in the shell of the sandbox, or with args a program directly. "
         "Returns the first 50 KB of stdout and of stderr, and the exit code when it is not 0.",
     .hints = CHANGES("false", "true"),
     .kind = &run_kind,
     .arguments = ARGUMENT_TABLE(command_arguments)},
    {.name = "read_file",
     .title = "Read file",
     .description = "Returns the text of a file of at most 1 MB, 100 KB at a time. A last line "
                    "says with which offset to continue. Shows an image (PNG, JPEG, GIF, WebP) of "
                    "at most 5 MB.",
     .hints = READ_ONLY,
     .kind = &read_file_kind,
     .flag = "withMediaType",
     .arguments = ARGUMENT_TABLE(read_arguments),
     .answer = answer_read},
    {.name = "write_file",
     .title = "Write file",
     .description =
         "Creates a file, or replaces its whole content. To change a part, use edit_file.",
     .hints = CHANGES("true", "false"),
     .kind = &write_file_kind,
     .arguments = ARGUMENT_TABLE(write_arguments),
     .answer = answer_write},
    {.name = "edit_file",
     .title = "Edit file",
     .description = "Replaces pieces of a text file. All edits are applied, or none.",
     .hints = CHANGES("false", "false"),
     .kind = &edit_file_kind,
     .arguments = ARGUMENT_TABLE(edit_arguments),
     .for_model = true,
     .answer = answer_content},
    {.name = "list_directory",
     .title = "List directory",
     .description = "Lists a directory, hidden entries too: type, size in bytes, name.",
     .hints = READ_ONLY,
     .kind = &list_files_kind,
     .arguments = ARGUMENT_TABLE(list_arguments),
     .for_model = true,
     .answer = answer_content},
    {.name = "grep",
     .title = "Search files",
     .description = "Searches text files for a regular expression. Leaves out hidden and ignored "
                    "files, those of more than 1 MB, and directories like .git and node_modules.",
     .hints = READ_ONLY,
     .kind = &grep_kind,
     .flag = "prefixPaths", /* as the other tools take them */
     .arguments = ARGUMENT_TABLE(grep_arguments),
     .for_model = true,
     .answer = answer_content},
    {.name = "directory_tree",
     .title = "Directory tree",
     .description = "Shows what is below a directory as a tree, at most 1000 entries. Leaves out "
                    "directories like .git and node_modules.",
     .hints = READ_ONLY,
     .kind = &directory_tree_kind,
     .arguments = ARGUMENT_TABLE(tree_arguments),
     .for_model = true,
     .answer = answer_content},
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
  return self->answer == NULL;
}

static struct argument_limits limits_of(const struct tool_settings *settings) {
  unsigned maximum = settings->max_timeout_seconds;
  unsigned timeout = settings->default_timeout_seconds;
  return (struct argument_limits){.timeout_default = timeout < maximum ? timeout : maximum,
                                  .timeout_maximum = maximum,
                                  .clamps_timeout = settings->clamps_timeout};
}

void tool_add_input_schema(const struct tool *self, const struct tool_settings *settings,
                           struct buffer *out) {
  struct argument_limits limits = limits_of(settings);
  argument_table_schema(&self->arguments, &limits, out);
}

/* --- a call: its step --- */

/* Makes an object of a list of NAME=value. */
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
  }
  list->type = cJSON_Object;
  return 0;
}

/* The command line becomes the second argument of `sh -c`. */
static void use_shell(struct step *step, const char *command_line) {
  struct run_fields *run = step->fields;
  free(run->args);
  run->args = memory_allocate(3 * sizeof *run->args);
  run->args[0] = memory_copy("-c", 2);
  run->args[1] = memory_copy(command_line, strlen(command_line));
  run->args[2] = NULL;
}

/* The arguments as the fields of the kind have them. */
static int read_fields(const struct tool *tool, cJSON *arguments, struct step *step,
                       struct error *error) {
  const struct step_table *table = &step->kind->table;
  for (size_t i = 0; i < table->count; i++) {
    const struct step_field *field = &table->fields[i];
    cJSON spare, *value = argument_table_value(&tool->arguments, field->name, arguments, &spare);
    if (value == NULL && strcmp(field->name, tool->flag) == 0) {
      spare.type = cJSON_True;
      value = &spare;
    }
    if (field->type->read(field, value, (char *)step->fields + field->offset, error) != 0)
      return -1;
  }
  return 0;
}

static char *directory_of(const struct tool_call *self, const struct tool_settings *settings) {
  char *path;
  bool is_relative = self->directory[0] != '/';
  if (asprintf(&path, "%s%s%s", is_relative ? settings->directory : "", is_relative ? "/" : "",
               self->directory) < 0)
    memory_exhausted("a path");
  return path;
}

static unsigned timeout_of(const cJSON *arguments, const struct argument_limits *limits) {
  if (argument_get(arguments, "timeout") == NULL)
    return limits->timeout_default;
  double seconds = argument_integer(arguments, "timeout");
  if (seconds < 1)
    return 1;
  return seconds < limits->timeout_maximum ? (unsigned)seconds : limits->timeout_maximum;
}

/* A text that is not empty; else NULL. */
static const char *text_of(const cJSON *arguments, const char *name) {
  const cJSON *value = argument_get(arguments, name);
  return value != NULL && value->valuestring[0] != '\0' ? value->valuestring : NULL;
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

/* An empty list of arguments may be meant as none, so that it only says
   to do without a shell where there is none anyway. */
static int make_step(struct tool_call *self, cJSON *arguments, const struct tool_settings *settings,
                     const char *step_id, struct error *error) {
  const struct tool *tool = self->tool;
  bool is_command = tool_is_command(tool);
  const char *target = text_of(arguments, is_command ? "command" : "path");
  const cJSON *args = argument_get(arguments, "args");
  bool is_direct = args != NULL && (args->child != NULL || settings->shell == NULL);
  if (is_command && !is_direct && settings->shell == NULL)
    return error_set(error,
                     "no shell (bash, sh) in this image; give args to run a program directly");
  if (split_environment(argument_get(arguments, "env"), error) != 0)
    return -1;
  const char *program = is_command && !is_direct ? settings->shell : target;
  self->target =
      memory_copy(program != NULL ? program : ".", strlen(program != NULL ? program : "."));
  char *directory = directory_of(self, settings);
  step_init(&self->step, &tool->kind->wire, step_id, self->target, directory, self->timeout);
  free(directory);
  self->step.for_model = tool->for_model;
  if (read_fields(tool, arguments, &self->step, error) != 0)
    return -1;
  if (is_command && !is_direct)
    use_shell(&self->step, target);
  return 0;
}

static int translate_arguments(struct tool_call *self, cJSON *arguments,
                               const struct tool_settings *settings, const char *step_id,
                               struct error *error) {
  const struct argument_limits limits = limits_of(settings);
  const struct tool *tool = self->tool;
  if (argument_table_check(&tool->arguments, tool->name, &limits, arguments, error) != 0)
    return -1;
  const char *directory = text_of(arguments, "workdir");
  if (directory == NULL)
    directory = settings->directory;
  self->directory = memory_copy(directory, strlen(directory));
  self->timeout = timeout_of(arguments, &limits);
  self->offset = (uint64_t)argument_integer(arguments, "offset");
  self->limit = (uint64_t)argument_integer(arguments, "limit");
  self->content_length = content_length(arguments);
  return make_step(self, arguments, settings, step_id, error);
}

struct tool_call *tool_call_new(const struct tool *tool, cJSON *arguments,
                                const struct tool_settings *settings, const char *step_id,
                                struct buffer *text) {
  struct error error;
  struct tool_call *self = memory_allocate(sizeof *self);
  *self = (struct tool_call){.tool = tool};
  if (translate_arguments(self, arguments, settings, step_id, &error) != 0) {
    add_error(text, error.text, strlen(error.text));
    tool_call_free(self);
    return NULL;
  }
  return self;
}

void tool_call_free(struct tool_call *self) {
  if (self == NULL)
    return;
  step_release(&self->step);
  free(self->target);
  free(self->directory);
  free(self);
}

void tool_call_request(struct tool_call *self, struct request *request) {
  CHECK(self->step.step_id != NULL);
  request->step = self->step;
  self->step = (struct step){0};
}

unsigned tool_call_timeout(const struct tool_call *self) {
  return self->timeout;
}

bool tool_call_is_command(const struct tool_call *self) {
  return tool_is_command(self->tool);
}

/* --- a call: its answer --- */

/* The most of a program's or a directory's name that an error repeats. */
#define NAME_SHOWN_MAX 256

static void add_name(struct buffer *text, const char *name) {
  size_t length = strlen(name);
  bool is_long = length > NAME_SHOWN_MAX;
  buffer_add(text, name, is_long ? utf8_cut(name, NAME_SHOWN_MAX) : length);
  buffer_add_string(text, is_long ? "\xE2\x80\xA6" : "");
}

static void answer_not_run(const struct tool_call *self, const struct run_end *end,
                           struct buffer *text) {
  if (end->how == RUN_NOT_FOUND) {
    buffer_add_string(text, TOOL_ERROR "cannot run '");
    add_name(text, self->target);
    buffer_add_string(text, "': No such file or directory");
  } else if (end->how == RUN_NO_DIRECTORY &&
             (end->error.code == ENOENT || end->error.code == ENOTDIR)) {
    buffer_add_string(text, TOOL_ERROR "workdir: no such directory: ");
    add_name(text, self->directory);
  } else {
    add_error(text, end->error.text, strlen(end->error.text));
  }
}

static bool answer_end(const struct tool_call *self, const struct run_end *end,
                       struct buffer *text) {
  if (!run_end_was_executed(end)) {
    answer_not_run(self, end, text);
    return true;
  }
  if (tool_call_is_command(self)) {
    answer_command(end, text);
    return !run_end_is_success(end);
  }
  if (run_end_is_success(end))
    return self->tool->answer(self, end, text);
  if (end->how == RUN_TIMED_OUT) {
    answer_command(&(struct run_end){.how = end->how, .exit_code = end->exit_code}, text);
    return true;
  }
  struct error line;
  const struct run_stream message = run_end_message(end, self->timeout, &line);
  add_error(text, message.bytes, message.length);
  return true;
}

bool tool_call_image(const struct tool_call *self, const struct run_end *end,
                     struct tool_image *image) {
  static const char prefix[] = "image/";
  const struct run_stream *content = &end->output;
  if (self->tool->answer != answer_read || !run_end_is_success(end) ||
      content->length < sizeof prefix - 1 || memcmp(content->bytes, prefix, sizeof prefix - 1) != 0)
    return false;
  const struct run_stream body = answer_body(end);
  if (body.bytes == NULL)
    return false;
  *image = (struct tool_image){.type = content->bytes,
                               .type_length = (size_t)(body.bytes - 1 - content->bytes),
                               .base64 = body.bytes,
                               .length = body.length};
  return true;
}

bool tool_call_answer(const struct tool_call *self, const struct run_end *end,
                      struct buffer *text) {
  if (text->length == 0)
    return answer_end(self, end, text);
  struct buffer own = {0};
  bool failed = answer_end(self, end, &own);
  buffer_add(text, own.bytes, own.length);
  buffer_release(&own);
  return failed;
}
