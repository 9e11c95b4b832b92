/* read, write, edit, ls, grep, tree: run the file kinds and show their answers. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/utf8.h"
#include "client/commands/command.h"
#include "client/exit_code.h"
#include "client/options.h"
#include "client/redis/json_field.h"
#include "client/steps/transfer.h"
#include "wire/json.h"

/* The most bytes of a writeFile (wire/PROTOCOL.md). */
#define WRITE_FILE_MAX 10485760

struct arguments {
  const char *words[3]; /* a path that is not given is "." */
  const char *glob;
  unsigned first_line, line_count; /* 0: not given */
  bool all, ignores_case, hidden;
  const char *output;     /* grep's outputMode; NULL: the default */
  unsigned before, after; /* lines of context */
};

/* Parses FROM or FROM:COUNT. Returns 0, or -1. */
static int parse_lines(const char *text, unsigned *from, unsigned *count) {
  char *end;
  unsigned long long first = strtoull(text, &end, 10), number = 0;
  if (*end == ':' && end[1] >= '0' && end[1] <= '9') {
    number = strtoull(end + 1, &end, 10);
    if (number == 0)
      return -1;
  }
  if (text[0] < '0' || text[0] > '9' || *end != '\0' || first == 0 || first > INT32_MAX ||
      number > INT32_MAX)
    return -1;
  *from = (unsigned)first;
  *count = (unsigned)number;
  return 0;
}

/* Stores a number of lines of context. Returns false after wrong usage. */
static bool set_context(struct program *program, struct arguments *self, int flag) {
  char *end;
  const unsigned long long count = strtoull(optarg, &end, 10);
  if (optarg[0] < '0' || optarg[0] > '9' || *end != '\0' || count > INT32_MAX)
    return options_fail(program, "-%c: not a number of lines: '%.60s'", flag, optarg);
  if (flag != 'B')
    self->after = (unsigned)count;
  if (flag != 'A')
    self->before = (unsigned)count;
  return true;
}

/* Stores an option. Returns false after wrong usage. */
static bool set_option(struct program *program, struct arguments *self, int flag) {
  switch (flag) {
  case 'a':
    self->all = true;
    return true;
  case 'c':
    self->output = "count";
    return true;
  case 'g':
    self->glob = optarg;
    return true;
  case 'H':
    self->hidden = true;
    return true;
  case 'i':
    self->ignores_case = true;
    return true;
  case 'l': /* of read with a value */
    self->output = "filesWithMatches";
    return optarg == NULL || parse_lines(optarg, &self->first_line, &self->line_count) == 0 ||
           options_fail(program, "-l: not FROM or FROM:COUNT, from 1: '%.60s'", optarg);
  default:
    return set_context(program, self, flag);
  }
}

/* Parses the words and options, with `letters` and `flags` as for options_next, and runs the work.
   `flags` may be NULL. */
static int run_file_command(struct program *program, int argc, char **argv, const char *letters,
                            const struct option *flags, int min_words, const char *const *names,
                            int (*work)(struct file_steps *, const struct arguments *)) {
  static const struct option none[] = {{NULL, 0, NULL, 0}};
  struct arguments arguments = {.words = {".", "."}};
  struct file_steps steps;
  int flag, max_words = 0;
  while (names[max_words] != NULL)
    max_words++;
  optind = 0;
  while ((flag = options_next(program, argc, argv, letters, flags != NULL ? flags : none)) >= 0)
    if (!set_option(program, &arguments, flag))
      return COMMAND_USAGE;
  if (flag == OPTIONS_STOP || !options_words(program, argc, argv, min_words, max_words, names))
    return COMMAND_USAGE;
  for (int i = 0; optind + i < argc; i++)
    arguments.words[i] = argv[optind + i];
  int code = program_begin_job(program);
  code = code == 0 ? file_steps_begin(&steps, program) : code;
  return code != 0 ? code : file_steps_end(&steps, work(&steps, &arguments));
}

/* --- answers ---------------------------------------------------------------------------------- */

/* Returns 0, or the exit code if nobody reads the output. */
static int print_bytes(struct program *program, const char *bytes, size_t length) {
  return length == 0 || terminal_put(&program->terminal, false, bytes, length) == 0 ? 0
                                                                                    : 128 + SIGPIPE;
}

/* Prints outputContent for --json: JSON as it is, other text as a string. */
static int print_json(struct file_steps *steps, bool is_json) {
  const struct file_answer *answer = &steps->answer;
  const char *json = is_json && answer->content != NULL ? answer->content : answer->raw;
  json = json != NULL ? json : "null";
  return terminal_put_json(&steps->program->terminal, json, strlen(json)) == 0 ? 0 : 128 + SIGPIPE;
}

/* Runs the step in steps->json. Writes an error message if it fails, or has no content. */
static int run_for_content(struct file_steps *steps) {
  int code = file_steps_do(steps);
  file_steps_complain(steps);
  if (code == 0 && !steps->answer.has_result) {
    file_steps_error(steps, "another client took the result of %s", job_shorten(steps->id).text);
    code = EXIT_CLIENT;
  }
  return code;
}

/* Shows an answer that is text. Adds a missing line end, unless `is_exact` is set. */
static int show_text(struct file_steps *steps, bool is_exact) {
  const struct file_answer *answer = &steps->answer;
  struct program *program = steps->program;
  int code = run_for_content(steps);
  const bool has_end = answer->length > 0 && answer->content[answer->length - 1] == '\n';
  if (code == 0 && program->json)
    code = print_json(steps, false);
  else if (code == 0 && (code = print_bytes(program, answer->content, answer->length)) == 0)
    code = print_bytes(program, "\n", !is_exact && !has_end);
  if (code == 0)
    file_steps_show_notes(steps);
  return code;
}

/* Shows an answer that is an array. `empty_code` is the exit code if it is empty. */
static int show_list(struct file_steps *steps, void (*add)(struct buffer *, const cJSON *),
                     int empty_code) {
  const struct file_answer *answer = &steps->answer;
  struct buffer text = {0};
  struct error ignored;
  struct program *program = steps->program;
  int code = run_for_content(steps);
  cJSON *list = code == 0 && answer->content != NULL
                    ? json_tree_parse(answer->content, answer->length, &ignored)
                    : NULL;
  if (code == 0 && list == NULL) {
    file_steps_error(steps, "cannot read the answer: a secret in it is masked");
    code = EXIT_CLIENT;
  } else if (code == 0 && program->json) {
    code = print_json(steps, true);
  } else if (code == 0) {
    add(&text, list);
    code = print_bytes(program, text.bytes, text.length);
  }
  if (code == 0)
    file_steps_show_notes(steps);
  if (code == 0 && list->child == NULL)
    code = empty_code;
  cJSON_Delete(list);
  buffer_release(&text);
  return code;
}

/* Begins a step with a path. */
static bool begin_step(struct file_steps *steps, const char *kind, const char *path) {
  file_steps_new(steps, kind);
  return file_steps_add(steps, "path", path);
}

/* --- read ------------------------------------------------------------------------------------- */

/* Prints the pieces of a file for --json; an empty file has one. */
static int read_pieces(struct file_steps *steps, const char *path) {
  struct transfer_in in = {.steps = steps, .path = path};
  int code;
  do {
    code = transfer_next(&in);
    if (code == 0 && (in.bytes.length > 0 || in.offset == 0))
      code = print_json(steps, true);
    if (code == 0)
      code = exchange_flush(&steps->exchange);
  } while (code == 0 && in.bytes.length > 0);
  if (code == 0)
    transfer_warn(&in);
  buffer_release(&in.bytes);
  return code;
}

static int read_file(struct file_steps *steps, const struct arguments *arguments) {
  const char *path = arguments->words[0];
  const unsigned first = arguments->first_line;
  if (first == 0 && file_steps_can(steps, "readBytes"))
    return steps->program->json ? read_pieces(steps, path) : transfer_print(steps, path, false);
  if (!begin_step(steps, "readFile", path))
    return EXIT_CLIENT;
  if (first > 0) {
    step_text_number(&steps->json, "startLine", first);
    if (arguments->line_count > 0)
      step_text_number(&steps->json, "lineCount", arguments->line_count);
    step_text_flag(&steps->json, "withLineNumbers", true);
  }
  return show_text(steps, first == 0);
}

int read_command(struct program *program, int argc, char **argv) {
  return run_file_command(program, argc, argv, "l:", NULL, 1, WORDS("PATH"), read_file);
}

/* --- write ------------------------------------------------------------------------------------ */

/* Returns 0, or the exit code. */
static int read_input(struct file_steps *steps, struct buffer *input, size_t size) {
  struct error error;
  int code = exchange_read_input(&steps->exchange, input, size, &error);
  return code >= 0 ? code : terminal_fail(&steps->program->terminal, &error);
}

static int write_pieces(struct file_steps *steps, const char *path) {
  struct transfer_out out;
  struct buffer input = {0};
  transfer_out_begin(&out, steps, path);
  int code;
  do {
    code = read_input(steps, &input, TRANSFER_PIECE);
    if (code == 0)
      code = transfer_put(&out, input.bytes, input.length);
  } while (code == 0 && input.length == TRANSFER_PIECE);
  if (code == 0)
    code = transfer_commit(&out);
  transfer_out_release(&out);
  buffer_release(&input);
  return code;
}

static int write_text(struct file_steps *steps, const char *path) {
  struct buffer input = {0};
  int code = read_input(steps, &input, WRITE_FILE_MAX + 1);
  if (code == 0 && (input.length > WRITE_FILE_MAX ||
                    utf8_valid_prefix(input.bytes, input.length) != input.length)) {
    (void)file_steps_require(steps, "writeBytes");
    code = EXIT_CLIENT;
  }
  if (code == 0 && !begin_step(steps, "writeFile", path))
    code = EXIT_CLIENT;
  if (code == 0) {
    step_text_bytes(&steps->json, "content", input.length > 0 ? input.bytes : "", input.length);
    code = file_steps_do(steps);
    file_steps_complain(steps);
  }
  buffer_release(&input);
  return code;
}

static int write_file(struct file_steps *steps, const struct arguments *arguments) {
  steps->exchange.policy = EXCHANGE_CLEANS_UP;
  int code = file_steps_can(steps, "writeBytes") ? write_pieces(steps, arguments->words[0])
                                                 : write_text(steps, arguments->words[0]);
  if (code == 0 && steps->program->json)
    (void)terminal_put_json(&steps->program->terminal, "null", 4);
  return code;
}

int write_command(struct program *program, int argc, char **argv) {
  return run_file_command(program, argc, argv, "", NULL, 1, WORDS("PATH"), write_file);
}

/* --- edit ------------------------------------------------------------------------------------- */

static int edit_file(struct file_steps *steps, const struct arguments *arguments) {
  const char *const *words = arguments->words;
  for (int i = 1; i <= 2; i++)
    if (utf8_valid_prefix(words[i], strlen(words[i])) != strlen(words[i])) {
      terminal_error(&steps->program->terminal, "%s is not UTF-8", i == 1 ? "OLD" : "NEW");
      return EXIT_CLIENT;
    }
  if (!file_steps_require(steps, "editFile") || !begin_step(steps, "editFile", words[0]))
    return EXIT_CLIENT;
  buffer_add_string(&steps->json, ",\"edits\":[{\"oldString\":");
  buffer_add_json(&steps->json, words[1], strlen(words[1]));
  step_text_string(&steps->json, "newString", words[2]);
  step_text_flag(&steps->json, "replaceAll", arguments->all);
  buffer_add_string(&steps->json, "}]");
  const int code = show_text(steps, false);
  const char *message = steps->answer.message; /* names the option of a tool */
  if (code == 1 && message != NULL && strstr(message, ", or set replace_all") != NULL)
    file_steps_error(steps, "--all replaces every occurrence");
  return code;
}

int edit_command(struct program *program, int argc, char **argv) {
  static const struct option flags[] = {{"all", no_argument, NULL, 'a'}, {NULL, 0, NULL, 0}};
  return run_file_command(program, argc, argv, "a", flags, 3, WORDS("PATH", "OLD", "NEW"),
                          edit_file);
}

/* --- ls, tree --------------------------------------------------------------------------------- */

static void format_size(const cJSON *entry, char size[24]) {
  const double bytes = json_field_number(entry, "size_bytes", -1);
  (void)snprintf(size, 24, bytes < 0 ? "-" : "%.0f", bytes);
}

static void add_entries(struct buffer *out, const cJSON *list) {
  int width = 1;
  char size[24];
  const cJSON *entry;
  cJSON_ArrayForEach(entry, list) {
    format_size(entry, size);
    width = (int)strlen(size) > width ? (int)strlen(size) : width;
  }
  cJSON_ArrayForEach(entry, list) {
    const char *path = json_field_text(entry, "path", ""), *slash = strrchr(path, '/');
    const bool is_directory = json_field_is_true(entry, "is_directory");
    format_size(entry, size);
    buffer_add_format(out, "%-4s  %*s  ", is_directory ? "dir" : "file", width, size);
    buffer_add_string(out, slash != NULL ? slash + 1 : path);
    buffer_add_string(out, is_directory ? "/\n" : "\n");
  }
}

static int list_directory(struct file_steps *steps, const struct arguments *arguments) {
  if (!begin_step(steps, "listFiles", arguments->words[0]))
    return EXIT_CLIENT;
  step_text_flag(&steps->json, "allEntries", true);
  return show_list(steps, add_entries, 0);
}

int ls_command(struct program *program, int argc, char **argv) {
  return run_file_command(program, argc, argv, "", NULL, 0, WORDS("PATH"), list_directory);
}

static int draw_tree(struct file_steps *steps, const struct arguments *arguments) {
  return begin_step(steps, "directoryTree", arguments->words[0]) ? show_text(steps, false)
                                                                 : EXIT_CLIENT;
}

int tree_command(struct program *program, int argc, char **argv) {
  return run_file_command(program, argc, argv, "", NULL, 0, WORDS("PATH"), draw_tree);
}

/* --- grep ------------------------------------------------------------------------------------- */

/* Like grep(1): PATH:LINE:TEXT, PATH-LINE-TEXT for context, PATH:COUNT, or PATH. Where lines of
   context are missing, "--" separates the groups. */
static void add_matches(struct buffer *out, const cJSON *list) {
  const cJSON *match;
  const char *last_path = NULL;
  double last_line = 0;
  bool has_context = false;
  cJSON_ArrayForEach(match, list) {
    has_context |= strcmp(json_field_text(match, "kind", ""), "context") == 0;
  }
  cJSON_ArrayForEach(match, list) {
    const char *path = json_field_text(match, "path", "");
    const double line = json_field_number(match, "line", -1);
    const double count = json_field_number(match, "count", -1);
    const char mark = strcmp(json_field_text(match, "kind", ""), "context") == 0 ? '-' : ':';
    if (has_context && last_path != NULL && (line != last_line + 1 || strcmp(path, last_path) != 0))
      buffer_add_string(out, "--\n");
    buffer_add_string(out, path);
    if (line >= 0)
      buffer_add_format(out, "%c%.0f%c", mark, line, mark);
    if (count >= 0)
      buffer_add_format(out, ":%.0f", count);
    buffer_add_string(out, json_field_text(match, "text", ""));
    buffer_add_string(out, "\n");
    last_path = path;
    last_line = line;
  }
}

/* Exits with 1 if nothing matches, and with 2 for an invalid pattern, like grep(1). */
static int search(struct file_steps *steps, const struct arguments *arguments) {
  struct buffer pattern = {0};
  buffer_add_string(&pattern, arguments->ignores_case ? "(?i)" : "");
  buffer_add(&pattern, arguments->words[0], strlen(arguments->words[0]) + 1);
  const bool is_text = begin_step(steps, "grep", arguments->words[1]) &&
                       file_steps_add(steps, "pattern", pattern.bytes) &&
                       (arguments->glob == NULL || file_steps_add(steps, "glob", arguments->glob));
  buffer_release(&pattern);
  if (!is_text)
    return EXIT_CLIENT;
  step_text_flag(&steps->json, "prefixPaths", true);
  step_text_flag(&steps->json, "searchHidden", arguments->hidden);
  if (arguments->output != NULL)
    step_text_string(&steps->json, "outputMode", arguments->output);
  step_text_number(&steps->json, "contextBefore", arguments->before);
  step_text_number(&steps->json, "contextAfter", arguments->after);
  const int code = show_list(steps, add_matches, EXIT_FOUND);
  const char *message = steps->answer.message;
  const bool is_invalid = code == 1 && message != NULL && strncmp(message, "pattern: ", 9) == 0;
  return is_invalid ? EXIT_PATTERN : code;
}

int grep_command(struct program *program, int argc, char **argv) {
  static const struct option flags[] = {{"hidden", no_argument, NULL, 'H'}, {NULL, 0, NULL, 0}};
  return run_file_command(program, argc, argv, "A:B:C:cg:il", flags, 1, WORDS("PATTERN", "PATH"),
                          search);
}
